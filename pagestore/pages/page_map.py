"""The pages of a file as every reading kernel takes them.

words       | page 0 | page 1 | page 2 | ...        the mapped file, page_words words a page
seen        |   0    |   3    |   0    | ...        page 1 was verified, and has 3 columns
"""

from typing import NamedTuple

from pagestore.runtime.arguments import Bytes, MappedWords


class Pages(NamedTuple):
    """The map, how many columns each verified page has (0: not verified yet), and the words of a page."""

    words: MappedWords
    seen: Bytes
    page_words: int
