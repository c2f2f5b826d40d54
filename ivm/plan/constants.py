"""Constants of rules and edits as words; texts become ids by the store's dictionary."""

from collections.abc import Callable
from typing import Any

from ivm.lang.ir import Const
from pagestore.host import Column, TextFinder, Transaction, Type, encode

Encode = Callable[[Const], int]


def encoder(source: Any) -> Encode:
    """A function from constants to words, by a snapshot, sketch or transaction; it interns new texts."""
    return lambda const: int(source.encode(const.type, [const.value])[0])


def finder(txn: Transaction) -> Encode:
    """A function from constants to words for deletions: a text that is not in the dictionary becomes 0.

    No record holds 0 as a text, so nothing is deleted, and the dictionary does not grow.
    """
    known = TextFinder(txn.dictionary)
    return lambda const: int(encode(Column("value", Type.parse(const.type)), [const.value], known)[0])
