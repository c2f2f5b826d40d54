"""The map of a store's file, as every kernel that reads it takes it: `kernel(*pages, ...)`.

    words   | meta | meta | page 2 | page 3 | ...      page p begins at words[p * page_words]
    seen    |  0   |  0   |   3    |   0    | ...      page 2 was verified and has 3 columns

Both arrays are shared with other threads; a longer file gets longer ones (storage/mapping.py).
"""

from typing import NamedTuple

from pagestore.runtime.arguments import Bytes, MappedWords


class Pages(NamedTuple):
    """The words of the file int64[n], the columns of each verified page uint8[n], and the words of a page."""

    words: MappedWords
    seen: Bytes
    page_words: int
