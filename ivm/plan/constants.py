"""Constants of rules and edits as words; texts go through the dictionary of a store."""

from collections.abc import Callable
from typing import Any

from ivm.lang.ir import Const
from pagestore.host import Column, TextFinder, Transaction, Type, encode

Encode = Callable[[Const], int]


def encoder(source: Any) -> Encode:
    """How constants become words, by a snapshot, sketch or transaction."""
    return lambda const: int(source.encode(const.type, [const.value])[0])


def finder(txn: Transaction) -> Encode:
    """How constants of what is deleted become words: a text never seen is 0, which no record holds, and stays unknown,
    since nothing is ever taken out of the dictionary.
    """
    known = TextFinder(txn.dictionary)
    return lambda const: int(encode(Column("value", Type.parse(const.type)), [const.value], known)[0])
