"""Build hash tables: those of relations that a recursion reads, and the chains of its facts."""

from ivm.engine.recursion.kernels.flat_rounds import FACT, PREDICATE, hash_of, link, part_of
from pagestore.compiled import kernel


@kernel
def relink(bodies, facts, keys, size, first, part, parts):
    """Rebuild the chains that a part owns, of the first `size` facts; keys[P] are the key words of a predicate.

    `first` says whether the first index has chains.
    """
    own = facts.rows.shape[1] - FACT
    for row in range(size):
        link(bodies, facts, row, part, parts)
        if first:
            predicate = facts.rows[row, own + PREDICATE]
            code = hash_of(0, predicate)
            for i in range(keys[predicate]):
                code = hash_of(code, facts.rows[row, i])
            slot = code & (facts.begins.shape[1] - 1)
            if part_of(slot, parts) == part:
                facts.nexts[0, row] = facts.begins[0, slot]
                facts.begins[0, slot] = row + 1


@kernel
def hash_rows(data, rows, count, width, columns, table, mask):
    """Fill a hash table of rows sorted by some columns: it holds the number of each key's first row, from 1."""
    for row in range(count):
        fresh = row == 0
        o = rows + row * width
        code = hash_of(0, columns.shape[0])
        for i in range(columns.shape[0]):
            word = data[o + columns[i]]
            fresh |= row > 0 and data[o - width + columns[i]] != word
            code = hash_of(code, word)
        if fresh:
            slot = code & mask
            while data[table + slot]:
                slot = (slot + 1) & mask
            data[table + slot] = row + 1
