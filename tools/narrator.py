"""Tells a story on stdout, in paragraphs and aligned columns, with a progress line on stderr meanwhile."""

import textwrap
from collections.abc import Sequence

from .progress import Progress

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
        """Columns as wide as their widest cell: those of numbers to the right, the others to the left."""
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        numeric = [all(cell[:1] in "+-0123456789" for cell in column) for column in zip(*rows, strict=True)]
        lines = []
        for row in (header, *rows):
            cells = zip(row, widths, numeric, strict=True)
            lines.append(
                "  ".join(text.rjust(width) if right else text.ljust(width) for text, width, right in cells)
            )
        self._print("", *(f"  {line}".rstrip() for line in lines), "")

    def _print(self, *lines: str) -> None:
        self.clear()
        print(*lines, sep="\n", flush=True)
