"""What belongs to the whole store and seldom changes: retention, tags and the names of branches."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from pagestore.errors import CorruptionError, SchemaError
from pagestore.pages.layout import WORD_MAX
from pagestore.storage.meta import NUMBER_END
from pagestore.storage.record import SETTINGS, RecordReader, RecordWriter, utf8
from pagestore.storage.word_list import WordList
from pagestore.versions.commit_record import lie_within

RETAIN_DEFAULT = 16
RETAIN_ALL = 0
RETAIN_MAX = WORD_MAX
MAIN, MAIN_ID = "main", 1


class Settings(NamedTuple):
    """Immutable settings. `retain` is a number of versions per branch, or RETAIN_ALL."""

    retain: int = RETAIN_DEFAULT
    tags: Mapping[str, int] = MappingProxyType({})
    branches: Mapping[str, int] = MappingProxyType({MAIN: MAIN_ID})

    def encode(self) -> WordList:
        """Encode the settings as a record."""
        out = RecordWriter(SETTINGS)
        out.put(self.retain)
        for names in (self.tags, self.branches):
            out.put(len(names))
            for name, number in names.items():
                out.put_text(name)
                out.put(number)
        return out.words

    @classmethod
    def decode(cls, content: np.ndarray) -> "Settings":
        """Decode the settings of a record. Raises CorruptionError."""
        source = RecordReader(content, SETTINGS)
        retain = source.take()
        tags, branches = ({source.take_text(): source.take() for _ in range(source.take())} for _ in range(2))
        if retain < 0 or branches.get(MAIN) != MAIN_ID or not lie_within([*tags.values()], 0, NUMBER_END):
            raise CorruptionError(f"the settings say what cannot be: {retain} versions of {branches}, tags {tags}")
        return cls(retain, tags, branches)


def check_name(name: str, what: str) -> None:
    """Raise SchemaError for a name that a tag or branch (`what`) cannot have."""
    if not utf8(name, what) or name.isdigit():
        raise SchemaError(f"{name!r} cannot be a {what}: it would read as a version number")


def retain_number(retain: int | str) -> int:
    """Return the number for a `retain=` argument.

    >>> retain_number("all"), retain_number(5)
    (0, 5)
    """
    if retain == "all":
        return RETAIN_ALL
    if isinstance(retain, bool) or not isinstance(retain, int) or not 1 <= retain <= RETAIN_MAX:
        raise SchemaError(f'retain={retain!r}: give a number of versions from 1 on, or "all"')
    return retain
