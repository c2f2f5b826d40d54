"""Tells a story on stdout, in paragraphs and aligned columns, with a progress line on stderr meanwhile."""

import textwrap
from collections.abc import Sequence

from ..cli.answers import table
from ..cli.progress import Progress

WIDTH = 100


class Narrator(Progress):
    """A progress line that makes way for text: `narrator("step 2 of 3")`, then `narrator.say("Done.")`."""

    def title(self, text: str) -> None:
        self._print(text, "=" * len(text))

    def heading(self, text: str, note: str = "") -> None:
        line = f"{text}  ({note})" if note else text
        self._print(f"\n{line}", "-" * len(line))

    def say(self, paragraph: str) -> None:
        """Wraps; line breaks and indentation of the source do not count."""
        self._print(textwrap.fill(" ".join(paragraph.split()), WIDTH))

    def quote(self, text: str) -> None:
        """Indents, line by line; nothing at all for no text."""
        if text:
            self._print(textwrap.indent(text.rstrip(), "    "), "")

    def grid(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table, in which what begins with a digit or a sign is a number."""
        lines = table(rows, header, lambda cell: cell[:1] in "+-0123456789")
        self._print("", textwrap.indent(lines, "  "), "")

    def _print(self, *lines: str) -> None:
        self.clear()
        print(*lines, sep="\n", flush=True)
