"""Finish a commit in the call that makes its edits: what they decide goes into the record that was
laid out before.

    said     HEAD words   roots    ...   dead     ...   added   removed   message
                            │             │               │       │
                          new roots    pages replaced    pages written, no longer free

Nothing leads to the record yet: Python adopts it, or writes another one, before it writes a slot.

In a series (versions/series.py) the words said are those of the commit before: what differs is laid
out here, too.
"""

import numpy as np

from pagestore.pages.layout import BIRTH_AT, CRC, PAGE_MASK, WORD, Pages
from pagestore.runtime.intrinsics import words_at
from pagestore.runtime.kernel import kernel
from pagestore.runtime.types import Table, Words
from pagestore.storage.kernels.record import (
    ALONE,
    BRANCH,
    BRANCHES,
    CHECKSUM,
    DEAD,
    EXTENT_WORDS,
    HEAD,
    HEIGHT_BITS,
    IDS_FROM,
    IN_SERIES,
    LAST_VERSION,
    LISTED,
    LISTS,
    MADE_PAGES,
    NEXT_SEQUENCE,
    NEXT_TIME,
    NEXT_VERSION,
    NUMBER,
    ORIGIN,
    PAGES_OF,
    PARENT,
    READY,
    RECENT,
    RECENT_ROWS,
    RECORDED,
    ROOT_ROWS,
    ROOTS,
    TIMESTAMP,
    VERSION,
    WIDTHS,
    Counting,
    Finish,
    RecordRun,
    Span,
    write_commit,
)
from pagestore.storage.kernels.write import FD
from pagestore.trees.kernels.arguments import FlushRoom, PageAccounts, Queues
from pagestore.trees.kernels.cursor import HEIGHT, ROOT, TREE_ID
from pagestore.trees.kernels.edit_groups import CHANGES, GONE, MADE, NEWEST, OLDEST, flush_queue
from pagestore.trees.kernels.node_buffer import ALL, GAIN


@kernel
def flush_and_finish(
    pages: Pages, accounts: PageAccounts, queues: Queues, room: FlushRoom, apply: int, g: int
):
    """Flush the queue of group g, then finish the commit; return whether the queue was flushed."""
    accounts = begin_commit(accounts, queues)
    if not flush_queue(pages, accounts, queues, room, apply, g):
        return False
    finish_commit(pages, accounts, queues)
    return True


@kernel
def begin_commit(accounts: PageAccounts, queues: Queues):
    """Return the accounts of the next commit of a series, laying out what is known of its
    record; others as given.
    """
    finish, taken, ids, run = accounts.finish, accounts.taken, accounts.ids, accounts.finish.run
    state = finish.state
    if not state[IN_SERIES]:
        return accounts
    version, page = state[NEXT_VERSION], ids[state[IDS_FROM]]
    queues.tallies[:, :] = 0
    taken[MADE], taken[GONE], taken[OLDEST], taken[NEWEST] = 0, 0, ALL, 0
    lay_out_next(finish.said, state, page, run.record.shape[0])
    of_next = Finish(
        state,
        finish.said,
        finish.roots,
        finish.extents,
        finish.used,
        finish.checked,
        finish.freed,
        finish.lists,
        finish.place,
        RecordRun(run.record, page, version, run.arena, run.ids),
    )
    free = ids[state[IDS_FROM] + 1 :]
    return PageAccounts(
        accounts.writer, version, accounts.lineage, free, taken, accounts.retired, of_next
    )


@kernel
def lay_out_next(said: Words, state: Words, page: int, words: int):
    """Change the words of a commit to those of the next, whose record is a page of `words`
    words.
    """
    version, at = state[NEXT_VERSION], WIDTHS[RECENT] * state[RECENT_ROWS]
    if state[ALONE]:
        state[EXTENT_WORDS] = said[CHECKSUM] = 0
    said[PARENT] = said[VERSION]
    said[NUMBER], said[VERSION], said[TIMESTAMP] = state[NEXT_SEQUENCE], version, state[NEXT_TIME]
    said[LAST_VERSION] = version
    said[HEAD + 2 * RECENT + 1] = at + WIDTHS[RECENT]
    row = words_at(said[HEAD + 2 * RECENT] + WORD * at, WIDTHS[RECENT])
    row[0], row[1], row[2], row[3], row[4] = version, page, words, state[NEXT_TIME], said[BRANCH]
    branch = words_at(said[HEAD + 2 * BRANCHES], WIDTHS[BRANCHES])
    branch[1], branch[2] = version, page


@kernel
def finish_commit(pages: Pages, accounts: PageAccounts, queues: Queues):
    """Write the record of the commit, unless it was not laid out or does not fit; `finish.state`
    says what was done.

    Until it is known to fit, nothing is changed that Python needs to write another record.
    """
    finish, taken = accounts.finish, accounts.taken
    state, said = finish.state, finish.said
    if not state[READY] or accounts.writer[FD] < 0 or not is_plain(accounts, queues):
        return
    made = accounts.ids[: taken[MADE]]
    state[ROOT_ROWS] = place_roots(queues.trees, queues.tallies, finish.roots, state[ROOT_ROWS])
    set_list(said, ROOTS, np.int64(finish.roots.ctypes.data), WIDTHS[ROOTS] * state[ROOT_ROWS])
    set_list(said, DEAD, np.int64(accounts.retired.ctypes.data), WIDTHS[DEAD] * taken[GONE])
    state[MADE_PAGES] = made.shape[0]
    if state[LISTED]:
        if state[EXTENT_WORDS] + 2 * made.shape[0] > finish.extents.shape[0]:
            return
        state[EXTENT_WORDS] = list_extents(made, finish.extents, state[EXTENT_WORDS])
        set_list(said, PAGES_OF, np.int64(finish.extents.ctypes.data), state[EXTENT_WORDS])
        said[CHECKSUM] += sum_of_checksums(pages, made)
    if length_of(finish, made.shape[0]) > finish.run.record.shape[0]:
        return
    used = finish.used[: 1 + made.shape[0]]
    used[0] = finish.run.page
    for i in range(made.shape[0]):
        used[1 + i] = made[i]
    counting = Counting(finish.freed, used, finish.lists, finish.place)
    span = Span(np.int64(said.ctypes.data), said.shape[0])  # type: ignore[arg-type]
    state[RECORDED] = write_commit(
        accounts.writer, span, counting, finish.run, pages.page_words, pages.seen
    )


@kernel
def is_plain(accounts: PageAccounts, queues: Queues):
    """Return whether the dead list is the pages replaced, and no tree changed whose rows Python
    checks.
    """
    finish, taken = accounts.finish, accounts.taken
    if taken[GONE] and (taken[NEWEST] >= accounts.birth or taken[OLDEST] <= finish.state[ORIGIN]):
        return False
    for t in finish.checked:
        if queues.tallies[t, CHANGES] + queues.tallies[t, GAIN] > 0:
            return False
    return True


@kernel
def set_list(said: Words, number: int, address: int, length: int):
    """Say where a list of the commit is."""
    said[HEAD + 2 * number], said[HEAD + 2 * number + 1] = address, length


@kernel
def place_roots(trees: Table, tallies: Table, roots: Words, n: int):
    """Bring n rows (tree, root, height and birth, count) up to date with the trees that changed;
    return how many.
    """
    for t in range(trees.shape[0]):
        number, pointer, at = trees[t, TREE_ID], trees[t, ROOT], 0
        while at < n and roots[4 * at] != number:
            at += 1
        if at == n:
            roots[4 * at + 3] = 0
            n += 1
        row = roots[4 * at : 4 * at + 4]
        row[0], row[1], row[3] = number, pointer & PAGE_MASK, row[3] + tallies[t, GAIN]
        row[2] = trees[t, HEIGHT] | pointer >> BIRTH_AT << HEIGHT_BITS
        if pointer == 0:  # an empty tree has no row
            n -= 1
            for c in range(4):
                row[c] = roots[4 * n + c]
    return n


@kernel
def list_extents(pages: Words, extents: Words, n: int):
    """Append ascending pages as rows (first, count) to n words of them; return how many words
    these are then.
    """
    for i in range(pages.shape[0]):
        if i > 0 and pages[i] == pages[i - 1] + 1:
            extents[n - 1] += 1
        else:
            extents[n], extents[n + 1] = pages[i], 1
            n += 2
    return n


@kernel
def sum_of_checksums(pages: Pages, ids: Words):
    """Return the sum of the checksums of pages."""
    total = 0
    for page in ids:
        total += pages.words[page * pages.page_words + CRC]
    return total


@kernel
def length_of(finish: Finish, made: int):
    """Return how many words the record has at most."""
    said = finish.said
    words = (
        HEAD
        + len(WIDTHS)
        + said.shape[0]
        - LISTS
        + finish.freed.length
        + made
        + finish.run.ids.shape[0]
    )
    words += finish.lists[0, 0] + finish.lists[1, 0]
    for number in range(len(WIDTHS) - 2):
        words += said[HEAD + 2 * number + 1]
    return words
