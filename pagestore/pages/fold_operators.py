"""Scan operators over words: one record lifted to a fold, two folds combined, a run of records folded (*Scans*).

A tree's scans are rows of ``scans`` int64[F, 3]: (operator, column, address of a compiled function), and a
fold is F words side by side. An operator that needs more than one word leads a group of rows:

    (SUM, c) (CARRY, c)           an exact 128-bit sum: the low word, then the high one
    (MAX, a) (THEN, b) ...        the greatest tuple (a, b, ...); with MIN the least.  Also arg-max
    (COUNT, 0)                    records
    (CHECKSUM, m)                 sum of a hash of each record's first m columns: modulo 2^64, in any order
    (user, c)                     a registered function of two words; codes from USER on

Every operator is associative; folds are taken in key order, so an operator need not be commutative. Combining two
folds of one scan is one *application*; functions that fold return how many they made.
"""

from pagestore.pages.page import field
from pagestore.runtime.intrinsics import call_operator
from pagestore.runtime.kernel import kernel

COUNT, SUM, MIN, MAX, CARRY, THEN, CHECKSUM = range(7)
USER = 256  # a registered operator's code is its name, read as a number


@kernel
def group_end(scans, f, end):
    """Return the first row after the group that row f leads."""
    f += 1
    while f < end and (scans[f, 0] == CARRY or scans[f, 0] == THEN):
        f += 1
    return f


@kernel
def combine(scans, first, end, a, i, da, b, j, db):
    """Replace a by ``a ⊕ b``, for fold words first..end.  Word f is at a[i + f * da] and b[j + f * db].

    Return the number of applications: one for each scan.
    """
    applied = 0
    f = first
    while f < end:
        op = scans[f, 0]
        x, y = a[i + f * da], b[j + f * db]
        if op == MAX and end == f + 1:  # the most common last row: a single word, no tuple to compare
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
def beats(op, first, end, b, j, db, a, i, da):
    """Return whether tuple b is greater than tuple a (less, for MIN); False if they are equal."""
    for f in range(first, end):
        x, y = a[i + f * da], b[j + f * db]
        if x != y:
            return (y > x) == (op == MAX)
    return False


@kernel
def mixed(x):
    """Spread every bit over the word, by a bijection (the finisher of splitmix64)."""
    x = (x ^ (x >> 30 & 0x3FFFFFFFF)) * -4658895280553007687
    x = (x ^ (x >> 27 & 0x1FFFFFFFFF)) * -7723592293110705685
    return x ^ (x >> 31 & 0x1FFFFFFFF)


@kernel
def chained(h, x):
    """Extend the hash h of a record's first words by its next word x."""
    return mixed(h ^ mixed(x + 7046029254386353131)) + 1442695040888963407


@kernel
def lift(op, x):
    """Return the fold word of a single record whose column holds x; not for COUNT and CHECKSUM."""
    return x >> 63 if op == CARRY else x


@kernel
def lift_entry(words, page, level, keys, scans, f, i):
    """Return fold word f of entry i of an encoded page: of the record, or of the child's subtree."""
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
def lift_decoded(node, level, keys, scans, f, i):
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

    `spare` is the index of F free words of out.  Return the number of applications: hi - lo - 1 for each scan,
    none for a count of records.
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
def plain_run(node, level, keys, op, c, f, lo, hi):
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
def sum_run(values, out, o, stride):
    """Write the exact sum of values as two words; the 32-bit halves are summed apart, without a carry."""
    low = 0
    high = 0
    for i in range(values.shape[0]):
        low += values[i] & 0xFFFFFFFF
        high += values[i] >> 32
    out[o] = (high << 32) + low
    out[o + stride] = (high + (low >> 32)) >> 32
