"""Tells a story on stdout, in paragraphs and tables, with a progress line on stderr."""

import textwrap
from collections.abc import Sequence

from ..cli.answers import table
from ..cli.progress import Progress

WIDTH = 100


class Narrator(Progress):
    """A progress line that is erased before text is printed: `narrator("step 2 of 3")`,
    `narrator.say("Done.")`.

    What is told is kept in `told`, as a list of texts; if it is `kept` only, for an answer in JSON,
    nothing is printed.
    """

    def __init__(self, what: str, quiet: bool = False, kept: bool = False) -> None:
        super().__init__(what, quiet)
        self._prints, self.told = not kept, list[str]()

    def title(self, text: str) -> None:
        """Print the title of the story, underlined."""
        self._print(text, "=" * len(text))

    def heading(self, text: str, note: str = "") -> None:
        """Print the heading of a step, underlined; `note` is added in parentheses."""
        line = f"{text}  ({note})" if note else text
        self._print(f"\n{line}", "-" * len(line))

    def say(self, paragraph: str) -> None:
        """Print a paragraph, rewrapped."""
        self._print(textwrap.fill(" ".join(paragraph.split()), WIDTH))

    def quote(self, text: str) -> None:
        """Print a text indented, if it is not empty."""
        if text:
            self._print(textwrap.indent(text.rstrip(), "    "), "")

    def grid(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table; a cell that begins with a digit or a sign is a number."""
        lines = table(rows, header, lambda cell: cell[:1] in "+-0123456789")
        self._print("", textwrap.indent(lines, "  "), "")

    def _print(self, *lines: str) -> None:
        self.told.append("\n".join(lines).strip())
        if self._prints:
            self.clear()
            print(*lines, sep="\n", flush=True)
