"""Numbers of tuples: equal ones get the same, in the order in which they are met first.

rows       7 3 7 5        numbers    0 1 0 2        table: 8 slots, each 0 or a row's number + 1
"""

from pagestore.compiled import Table, Words, inlined, kernel


@inlined
def hash_of(code: int, word: int):
    """Mix one more word into a hash."""
    code = (code ^ word) * -7046029254386353131
    return code ^ ((code >> 29) & 0x7FFFFFFFF)


@inlined
def slot_of(columns: Table, table: Words, firsts: Words, sought: Table, i: int):
    """Return the slot of a table that has the number of tuple i of sought[K, m], or is free for it."""
    mask, code = table.shape[0] - 1, 0
    for k in range(sought.shape[0]):
        code = hash_of(code, sought[k, i])
    slot = code & mask
    while table[slot]:
        row, same = firsts[table[slot] - 1], True
        for k in range(sought.shape[0]):
            same &= columns[k, row] == sought[k, i]
        if same:
            break
        slot = (slot + 1) & mask
    return slot


@kernel
def number_tuples(columns: Table, table: Words, numbers: Words, firsts: Words):
    """Set numbers[n] to those of the tuples of columns[K, n], firsts to the row of each number, and
    return how many there are.  `table` has zeros, for more than n, a power of two.  O(n).
    """
    count = 0
    for i in range(columns.shape[1]):
        slot = slot_of(columns, table, firsts, columns, i)
        if not table[slot]:
            firsts[count] = i
            count += 1
            table[slot] = count
        numbers[i] = table[slot] - 1
    return count


@kernel
def find_numbers(columns: Table, table: Words, firsts: Words, sought: Table, numbers: Words):
    """Set numbers[m] to those of the tuples of sought[K, m], -1 for one that has none.  O(m)."""
    for i in range(numbers.shape[0]):
        numbers[i] = table[slot_of(columns, table, firsts, sought, i)] - 1
