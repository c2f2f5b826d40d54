"""Scan operators over words: one record lifted to a fold, two folds combined, a run of records
folded (*Scans*).

A tree's scans are rows of ``scans`` int64[F, 3]: (operator, column, address of a compiled
function), and a fold is F words side by side. An operator that needs more than one word leads a
group of rows:

    (SUM, c) (CARRY, c)           an exact 128-bit sum: the low word, then the high one
    (MAX, a) (THEN, b) ...        the greatest tuple (a, b, ...); with MIN the least.  Also arg-max
    (COUNT, 0)                    records
    (CHECKSUM, m)                 sum of a hash of each record's first m columns: modulo 2^64, in any order
    (user, c)                     a registered function of two words; codes from USER on

Every operator is associative; folds are taken in key order, so an operator need not be commutative.
Combining two folds of one scan is one *application*; functions that fold return how many they made.

Scan operators that a host registers: compiled functions of two words, known by a short name.

The catalog stores the name as the operator's code, so a store opened elsewhere can say which
operator is missing.

The fold operators in plain Python, which shares no code with the kernels: for checks, and for folds
over texts.
"""

import ctypes
import re
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from pagestore.errors import ExistsError, MissingError, SchemaError
from pagestore.pages.page import field
from pagestore.runtime.intrinsics import CALLBACK, call_operator
from pagestore.runtime.kernel import JIT, c_function, kernel
from pagestore.runtime.types import MappedWords, Table, Words

COUNT, SUM, MIN, MAX, CARRY, THEN, CHECKSUM = range(7)
USER = 256  # a registered operator's code is its name, read as a number


@kernel
def group_end(scans: Table, f: int, end: int):
    """Return the first row after the group that row f leads."""
    f += 1
    while f < end and (scans[f, 0] == CARRY or scans[f, 0] == THEN):
        f += 1
    return f


@kernel
def combine(
    scans: Table, first: int, end: int, a: Words, i: int, da: int, b: Words, j: int, db: int
):
    """Replace a by ``a ⊕ b``, for fold words first..end.  Word f is at a[i + f * da] and b[j + f *
    db].

    Return the number of applications: one for each scan.
    """
    applied = 0
    f = first
    while f < end:
        op = scans[f, 0]
        x, y = a[i + f * da], b[j + f * db]
        # the most common last row: a single word, no tuple to compare
        if op == MAX and end == f + 1:
            a[i + f * da] = max(x, y)
            return applied + 1
        after = group_end(scans, f, end)
        if op == MIN or op == MAX:
            if beats(op, f, after, b, j, db, a, i, da):
                for g in range(f, after):
                    a[i + g * da] = b[j + g * db]
        elif op >= USER:
            a[i + f * da] = call_operator(scans[f, 2], x, y)
        else:
            total = x + y
            a[i + f * da] = total
            if after > f + 1:
                carry = ((x & y) | ((x | y) & ~total)) >> 63 & 1
                a[i + (f + 1) * da] += b[j + (f + 1) * db] + carry
        applied += 1
        f = after
    return applied


@kernel
def beats(op: int, first: int, end: int, b: Words, j: int, db: int, a: Words, i: int, da: int):
    """Return whether tuple b is greater than tuple a (less, for MIN); False if they are equal."""
    for f in range(first, end):
        x, y = a[i + f * da], b[j + f * db]
        if x != y:
            return (y > x) == (op == MAX)
    return False


@kernel
def mixed(x: int):
    """Spread every bit over the word, by a bijection (the finisher of splitmix64)."""
    x = (x ^ (x >> 30 & 0x3FFFFFFFF)) * -4658895280553007687
    x = (x ^ (x >> 27 & 0x1FFFFFFFFF)) * -7723592293110705685
    return x ^ (x >> 31 & 0x1FFFFFFFF)


@kernel
def chained(h: int, x: int):
    """Extend the hash h of a record's first words by its next word x."""
    return mixed(h ^ mixed(x + 7046029254386353131)) + 1442695040888963407


@kernel
def lift(op: int, x: int):
    """Return the fold word of a single record whose column holds x; not for COUNT and CHECKSUM."""
    return x >> 63 if op == CARRY else x


@kernel
def lift_entry(words: MappedWords, page: int, level: int, keys: int, scans: Table, f: int, i: int):
    """Return fold word f of entry i of an encoded page: of the record, or of the child's
    subtree.
    """
    if level > 0:
        return field(words, page, keys + 1 + f, i)
    op = scans[f, 0]
    if op == COUNT:
        return 1
    if op == CHECKSUM:
        h = 0
        for c in range(scans[f, 1]):
            h = chained(h, field(words, page, c, i))
        return h
    return lift(op, field(words, page, scans[f, 1], i))


@kernel
def lift_decoded(node: Table, level: int, keys: int, scans: Table, f: int, i: int):
    """Like `lift_entry`, for entry i of a node buffer int64[C, n]."""
    if level > 0:
        return node[keys + 1 + f, i]
    op = scans[f, 0]
    if op == COUNT:
        return 1
    if op == CHECKSUM:
        h = 0
        for c in range(scans[f, 1]):
            h = chained(h, node[c, i])
        return h
    return lift(op, node[scans[f, 1], i])


@kernel
def fold_run(node, level, keys, scans, lo, hi, out, o, stride, spare):
    """Fold entries lo..hi of a node buffer, all scans, into out[o + f * stride].

    `spare` is the index of F free words of out.  Return the number of applications: hi - lo - 1 for
    each scan, none for a count of records.
    """
    F = scans.shape[0]
    applied = 0
    f = 0
    while f < F:
        after = group_end(scans, f, F)
        op = scans[f, 0]
        if op == SUM and level == 0 and after == f + 2:
            sum_run(node[scans[f, 1], lo:hi], out, o + f * stride, stride)
        elif op < CARRY and after == f + 1:
            out[o + f * stride] = plain_run(node, level, keys, op, scans[f, 1], f, lo, hi)
        else:
            for g in range(f, after):
                out[o + g * stride] = lift_decoded(node, level, keys, scans, g, lo)
            for i in range(lo + 1, hi):
                for g in range(f, after):
                    out[spare + g] = lift_decoded(node, level, keys, scans, g, i)
                combine(scans, f, after, out, o, stride, out, spare, 1)
        applied += 0 if op == COUNT and level == 0 else hi - lo - 1
        f = after
    return applied


@kernel
def plain_run(node: Table, level: int, keys: int, op: int, c: int, f: int, lo: int, hi: int):
    """Fold COUNT, MIN or MAX of one word, in loops that the compiler can vectorize."""
    if op == COUNT and level == 0:
        return hi - lo
    if level > 0:
        c = keys + 1 + f
    values = node[c, lo:hi]
    result = values[0]
    if op == MAX:
        for i in range(1, values.shape[0]):
            result = max(result, values[i])
    elif op == MIN:
        for i in range(1, values.shape[0]):
            result = min(result, values[i])
    else:
        for i in range(1, values.shape[0]):
            result += values[i]
    return result


@kernel
def sum_run(values: Words, out: Words, o: int, stride: int):
    """Write the exact sum of values as two words; the 32-bit halves are summed apart, without a
    carry.
    """
    low = 0
    high = 0
    for i in range(values.shape[0]):
        low += values[i] & 0xFFFFFFFF
        high += values[i] >> 32
    out[o] = (high << 32) + low
    out[o + stride] = (high + (low >> 32)) >> 32


NAMES_TAKEN = ("count", "sum", "min", "max", "argmin", "argmax", "checksum", "concat")


class Operator(NamedTuple):
    """A registered operator; `call` is the compiled function as Python calls it, and keeps its code
    alive.

    A `semilattice` is commutative and idempotent.  An operator with an `inverse` is an Abelian
    group.
    """

    name: str
    identity: int
    address: int
    call: Any
    semilattice: bool = False
    inverse: Any = None


_registered: dict[int, Operator] = {}


def register_operator(
    name: str,
    combine: Callable[[int, int], int],
    identity: int,
    semilattice: bool = False,
    inverse: Callable[[int], int] | None = None,
) -> None:
    """Make `combine`, associative over int64 words, a scan operator of this process; compiled by
    numba.

    `name` has 2 to 7 lower-case letters; `identity` is the fold of no records. Every process that
    writes, folds or checks a relation with this scan registers the operator first, and always the
    same one. A `semilattice` is commutative as well, and `combine(a, a)` is a, so that rules may
    aggregate by it within a recursion. One with an `inverse` is commutative, and `combine(a,
    inverse(a))` is the identity: rules then keep one value for each group, not the values folded
    into it. Raise SchemaError for a bad name, ExistsError for one that is taken, CompilerError if
    numba is not installed.

    >>> import math
    >>> register_operator("bitxor", lambda a, b: a ^ b, 0, inverse=lambda a: a)
    >>> register_operator("union", lambda a, b: a | b, 0, semilattice=True)  # of sets of up to 64 members, as bits
    """
    if not is_name(name):
        raise SchemaError(
            f"{name!r}: an operator's name is 2 to 7 letters a-z and none of "
            f"{', '.join(NAMES_TAKEN)}"
        )
    code = code_of(name)
    if code in _registered:
        raise ExistsError(f"there is an operator {name!r} already in this process")
    if not JIT:
        call = CALLBACK(combine)
        address = ctypes.cast(call, ctypes.c_void_p).value or 0
    else:
        compiled = c_function(combine, "int64(int64, int64)", f"the operator {name!r}")
        call, address = compiled.ctypes, compiled.address
    undo = inverse
    if inverse and JIT:
        undo = c_function(inverse, "int64(int64)", f"the operator {name!r}").ctypes
    _registered[code] = Operator(name, identity, address, call, semilattice, undo)


def is_name(name: str) -> bool:
    """Return whether an operator can have that name."""
    return bool(re.fullmatch(r"[a-z]{2,7}", name)) and name not in NAMES_TAKEN


def code_of(name: str) -> int:
    """Return the code of an operator's name: its letters as a little-endian word."""
    return int.from_bytes(name.encode(), "little")


def name_of(code: int) -> str:
    """Return the name of the operator with a code."""
    return code.to_bytes(8, "little").rstrip(b"\0").decode("ascii", "replace")


def is_operator(name: str) -> bool:
    """Return whether an operator of that name is registered in this process."""
    return is_name(name) and code_of(name) in _registered


def is_semilattice(name: str) -> bool:
    """Return whether an operator of that name is registered in this process as a semilattice."""
    return is_operator(name) and _registered[code_of(name)].semilattice


def has_inverse(name: str) -> bool:
    """Return whether an operator of that name is registered with an inverse."""
    return is_operator(name) and _registered[code_of(name)].inverse is not None


def operator(code: int) -> Operator:
    """Return the registered operator with a code. Raise MissingError."""
    found = _registered.get(code)
    if found is None:
        raise MissingError(
            f"this process has no scan operator {name_of(code)!r}; call "
            f"pagestore.register_operator first"
        )
    return found


def address_of(code: int) -> int:
    """Return the address of an operator's machine code; 0 for a built-in one. Raise
    MissingError.
    """
    return operator(code).address if code >= USER else 0


Scans = tuple[tuple[int, int], ...]
Fold = tuple[int, ...]


def fold_of(scans: Scans, level: int, keys: int, columns: np.ndarray) -> Fold:
    """Fold all entries in columns int64[C, n], n > 0: records of a leaf, children of an index
    page.
    """
    out: list[int] = []
    for f, op, c, group in _groups(scans):
        if level:
            out += _join_many(op, columns[keys + 1 + f : keys + 1 + f + group].T.tolist())
        elif op == COUNT:
            out.append(columns.shape[1])
        elif op == CHECKSUM:
            out.append(_signed(sum(record_hashes(columns[:c]).tolist())))
        elif op == SUM:
            total = sum(columns[c].tolist())
            out += [_signed(total), total >> 64][:group]
        else:
            chosen = [scans[g][1] for g in range(f, f + group)]
            out += _join_many(op, columns[chosen].T.tolist())
    return tuple(out)


def join(scans: Scans, a: Fold, b: Fold) -> Fold:
    """Return a ⊕ b."""
    out: list[int] = []
    for f, op, _, group in _groups(scans):
        out += _join_many(op, [list(a[f : f + group]), list(b[f : f + group])])
    return tuple(out)


def record_hashes(columns: np.ndarray) -> np.ndarray:
    """Return the hash of each record, uint64[n]; a checksum is their sum."""
    h = np.zeros(columns.shape[1], np.uint64)
    for column in columns.view(np.uint64):
        h = _mixed(h ^ _mixed(column + np.uint64(7046029254386353131))) + np.uint64(
            1442695040888963407
        )
    return h


def _mixed(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def _groups(scans: Scans) -> Iterator[tuple[int, int, int, int]]:
    """Yield (row, operator, column, number of rows) of each scan."""
    leaders = [f for f, (op, _) in enumerate(scans) if op not in (CARRY, THEN)]
    for f, after in zip(leaders, [*leaders[1:], len(scans)], strict=False):
        yield f, *scans[f], after - f


def _join_many(op: int, folds: list[list[int]]) -> list[int]:
    if op == MAX:
        return max(folds)
    if op == MIN:
        return min(folds)
    if op >= USER:
        function = operator(op).call
        return [reduce(function, (fold[0] for fold in folds))]
    if op == SUM and len(folds[0]) == 2:
        total = sum((fold[0] & (1 << 64) - 1) + (fold[1] << 64) for fold in folds)
        return [_signed(total), total >> 64]
    return [_signed(sum(fold[0] for fold in folds))]


def _signed(word: int) -> int:
    """Return a word's low 64 bits as a signed number."""
    return (word + (1 << 63) & (1 << 64) - 1) - (1 << 63)
