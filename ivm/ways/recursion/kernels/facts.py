"""The facts of recursive strata that a kernel looks at: a table of what has become of each, and
edits that follow.

    facts       reach(2)  rank 1, in the tree 1, stands         reach(5)  rank 4, in no tree, derived in this round
    slots       a hash of a view and a key ──▶ the fact with it, which is read from its tree when it is first looked at

Groups of arguments of the kernels that maintain strata (see pagestore/runtime/types.py).
"""

from typing import NamedTuple

from ivm.join.kernels.numbers import hash_of
from pagestore.compiled import (
    CHANGES,
    ERASE,
    INSERT,
    KEYS,
    LEAF_PAGE,
    LEAF_SLOT,
    SET,
    WORD_MAX,
    WORD_MIN,
    Pages,
    Queues,
    Reordering,
    Table,
    Tables,
    Words,
    compose_few,
    field,
    inlined,
    kernel,
    seek,
    tree_at,
)

# statuses; a negative one is ``-page_id``, or NO_ROOM
DONE, LIMITED, WRITE = range(3)
NO_ROOM = WORD_MIN
# columns of `plans`: the spans of its probes, of the trees that they read, of its sources and of
# its own atoms; the columns of a binding, the view of its head, and where `lists` has the columns
# of a binding that are the head's key
(
    PROBES, PROBES_END, TREES, TREES_END, SOURCES, SOURCES_END, ATOMS, ATOMS_END, COLUMNS, HEAD,
    HEAD_KEY,
) = range(11)  # fmt: skip
# columns of `sources`: the stratum's view that a fact may begin with, -1 for none; where `lists`
# has the columns of its key that make a branch, and how many; the tree from whose changes the
# branches are, -1 for the stratum's own; whether a branch is a whole key of it
SOURCE_VIEW, ORDER, DEPTH, SOURCE_TREE, IS_WHOLE = range(5)
# columns of `atoms`: its view, and where `lists` has the columns of a binding that are its key
ATOM_VIEW, ATOM_KEY = range(2)
# columns of `views`: key words; spans of `lists` with the plans that read the view and those that
# search for derivations of its facts; whether new facts are written before they are joined; the
# span of its tree and its permuted indices; the number of its queue
(
    KEY_WORDS, READERS, READERS_END, SEARCHES, SEARCHES_END, WRITTEN_FIRST, VIEW_TREE,
    VIEW_TREES_END, VIEW_QUEUE,
) = range(9)  # fmt: skip
# columns of `strata`: spans of the plans of its conjunctions, and then of those that search; the
# span of its views
BODIES, BODIES_END, PLANS_END, VIEWS, VIEWS_END = range(5)
# words of a fact, and then its key: its rank now and in the tree (-1 if it is not there), what has
# become of it, a mark, its newest derivation (from 1), its view, its slot
RANK, OLD, FATE, MARK, DERIVED, VIEW, SLOT, FACT = range(8)
ABSENT, STANDS, SUSPENDED, GONE, PENDING = range(5)  # PENDING: derived in this round
WRITTEN = -1  # the mark of a fact that was written before it was joined
# words of a derivation, and then the facts that it follows from: the one noted before, of how many
# facts, its fact
BEFORE, COUNT, DERIVES, DERIVATION = range(4)
# rows of `listed`: facts waiting to be examined (a heap), suspended ones, those of this round and
# of the next
QUEUE, WITHDRAWN, FRESH, NEXT, LISTS = range(5)
# words of `state`: of each list how many it has; whether rounds have begun; facts and derivations
# noted, the newest derivation that was gained (from 1); operations, the most of them, the most
# suspended facts; facts examined, rounds
IN_ROUNDS, FACTS, DERIVATIONS, GAINED, WORK, WORK_MAX, SUSPENDED_MAX, EXAMINED, ROUNDS, STATE = (
    range(4, 14)
)


class Strata(NamedTuple):
    """Some strata: strata[S], plans[P], probes[Q], sources[R], atoms[A] and views[V] have the
    columns above.

    `static` and `probes` are those of `ProbeTable`; trees[I] are the numbers of the trees that the
    plans read.
    """

    static: Words
    probes: Table
    strata: Table
    plans: Table
    sources: Table
    atoms: Table
    views: Table
    lists: Words
    trees: Words


class StrataTrees(NamedTuple):
    """Trees by number, as they were before and as they are now, in rows that begin with ROOT,
    HEIGHT and KEYS.

    placed[6 * I] is scratch: for each plan [2, I, 3] words of the trees that it reads, old and new.
    """

    before: Table
    now: Table
    placed: Words


class FactsRoom(NamedTuple):
    """What is known of facts: facts[N, FACT + K], slots[M] to find them, derivations[D, DERIVATION
    + A] and lists.

    listed[LISTS, N] and `state` are as above; own[A], cursor, words and spans[S, 3] are scratch:
    facts of a binding, a cursor, the branch of a fact for each source, and where it is; actions[2]
    as for `probe_next`.
    """

    facts: Table
    slots: Words
    derivations: Table
    listed: Table
    state: Words
    own: Words
    cursor: Words
    words: Words
    spans: Table
    actions: Words


@kernel
def read_own(pages, stratum, trees, room, bindings, p, b):
    """Put the stratum's facts in a binding into room.own; return the greatest rank, WORD_MAX if
    one does not stand.
    """
    facts, atoms, first = room.facts, stratum.atoms, stratum.plans[p, ATOMS]
    greatest = 0
    for a in range(first, stratum.plans[p, ATOMS_END]):
        e = fact_of(
            pages, stratum, trees, room, atoms[a, ATOM_VIEW], bindings, b, atoms[a, ATOM_KEY]
        )
        if e < 0:
            return e
        room.own[a - first] = e
        greatest = max(greatest, facts[e, RANK]) if facts[e, FATE] == STANDS else WORD_MAX
    return greatest


@kernel
def fact_of(pages, stratum, trees, room, view, bindings, b, at):
    """Return the number of a view's fact whose key a binding has; it is read from its tree when it
    is first looked at.

    `at` is where stratum.lists has the columns of the key.
    """
    facts = room.facts
    slots = room.slots
    lists = stratum.lists
    keys = stratum.views[view, KEY_WORDS]
    code = hash_of(0, view)
    for i in range(keys):
        code = hash_of(code, bindings[lists[at + i], b])
    slot = code & (slots.shape[0] - 1)
    while slots[slot]:
        e = slots[slot] - 1
        same = facts[e, VIEW] == view
        for i in range(keys):
            same &= facts[e, FACT + i] == bindings[lists[at + i], b]
        if same:
            return e
        slot = (slot + 1) & (slots.shape[0] - 1)
    e = room.state[FACTS]
    if e == facts.shape[0]:
        return NO_ROOM
    for i in range(keys):
        facts[e, FACT + i] = bindings[lists[at + i], b]
    status = read_fact(pages, stratum, trees, room, view, e)
    if status < 0:
        return status
    facts[e, VIEW], facts[e, SLOT], facts[e, MARK], facts[e, DERIVED] = view, slot, 0, 0
    slots[slot] = e + 1
    room.state[FACTS] = e + 1
    return e


@kernel
def read_fact(
    pages: Pages, stratum: Strata, trees: StrataTrees, room: FactsRoom, view: int, e: int
):
    """Set the rank and the fate of a fact as its tree has it."""
    fact = room.facts[e]
    cursor = room.cursor
    words = pages.words
    keys = stratum.views[view, KEY_WORDS]
    status = seek(
        tree_at(pages, trees.now[stratum.views[view, VIEW_TREE]], 0), fact[FACT:], keys, cursor, 0
    )
    if status < 0:
        return status
    fact[RANK], fact[OLD], fact[FATE] = -1, -1, ABSENT
    if status == 1:
        page, slot, same = cursor[LEAF_PAGE], cursor[LEAF_SLOT], True
        for i in range(keys):
            same &= field(words, page, i, slot) == fact[FACT + i]
        if same:
            fact[RANK] = fact[OLD] = field(words, page, keys, slot)
            fact[FATE] = STANDS
    return DONE


@kernel
def place_again(stratum: Strata, facts: Table, slots: Words, count: int):
    """Put the first `count` facts into other slots, all of which are empty."""
    for e in range(count):
        code = hash_of(0, facts[e, VIEW])
        for i in range(stratum.views[facts[e, VIEW], KEY_WORDS]):
            code = hash_of(code, facts[e, FACT + i])
        slot = code & (slots.shape[0] - 1)
        while slots[slot]:
            slot = (slot + 1) & (slots.shape[0] - 1)
        facts[e, SLOT], slots[slot] = slot, e + 1


@inlined
def append(room: FactsRoom, which: int, e: int):
    """Append a fact to a list."""
    room.listed[which, room.state[which]] = e
    room.state[which] += 1


@kernel
def push(room: FactsRoom, e: int):
    """Queue a fact to be examined, by its rank, unless it was queued before."""
    facts, heap = room.facts, room.listed[QUEUE]
    if facts[e, MARK]:
        return
    facts[e, MARK] = 1
    i = room.state[QUEUE]
    room.state[QUEUE] = i + 1
    while i > 0 and facts[heap[(i - 1) >> 1], RANK] > facts[e, RANK]:
        heap[i] = heap[(i - 1) >> 1]
        i = (i - 1) >> 1
    heap[i] = e


@kernel
def pop(room: FactsRoom):
    """Remove and return the queued fact of the least rank."""
    facts, heap, n = room.facts, room.listed[QUEUE], room.state[QUEUE] - 1
    room.state[QUEUE] = n
    first, last = heap[0], heap[n]
    i = 0
    while 2 * i + 1 < n:
        child = 2 * i + 1
        if child + 1 < n and facts[heap[child + 1], RANK] < facts[heap[child], RANK]:
            child += 1
        if facts[heap[child], RANK] >= facts[last, RANK]:
            break
        heap[i] = heap[child]
        i = child
    heap[i] = last
    return first


# -- in a schedule


@kernel
def changed_sources(stratum: Strata, number: int, tallies: Table, deltas: Tables, spans: Table):
    """Set the changes of each source of a stratum; return how many there are, -1 if a branch is
    part of a key.
    """
    total, tree_words, stride = 0, deltas.shape[1] * deltas.shape[2], deltas.shape[2]
    for p in range(stratum.strata[number, BODIES], stratum.strata[number, BODIES_END]):
        for s in range(stratum.plans[p, SOURCES], stratum.plans[p, SOURCES_END]):
            t, span = stratum.sources[s, SOURCE_TREE], spans[s]
            span[0] = max(t, 0) * tree_words
            span[1] = tallies[t, CHANGES] if t >= 0 else 0
            span[2] = stride
            if span[1] and not stratum.sources[s, IS_WHOLE]:
                return -1
            total += span[1]
    return total


@kernel
def queue_facts(stratum: Strata, room: FactsRoom, queues: Queues, number: int):
    """Queue the edits of a stratum's views that make their trees what is known; if too many,
    none, and return False.
    """
    facts, waiting, waits = room.facts, queues.waiting, queues.waits
    for v in range(stratum.strata[number, VIEWS], stratum.strata[number, VIEWS_END]):
        n = 0
        for e in range(room.state[FACTS]):
            n += facts[e, VIEW] == v and rank_now(facts[e]) != facts[e, OLD]
        if n > waiting.shape[2]:
            return False
    for e in range(room.state[FACTS]):
        now, old, view = rank_now(facts[e]), facts[e, OLD], stratum.views[facts[e, VIEW]]
        if now == old:
            continue
        edits, at, keys = waiting[view[VIEW_QUEUE]], waits[view[VIEW_QUEUE]], view[KEY_WORDS]
        edits[0, at] = ERASE if now < 0 else INSERT if old < 0 else SET
        for i in range(keys):
            edits[1 + i, at] = facts[e, FACT + i]
        edits[1 + keys, at] = now
        waits[view[VIEW_QUEUE]] = at + 1
    return True


@kernel
def queue_fresh(stratum: Strata, room: FactsRoom, queues: Queues):
    """Queue the facts of this round that are to be written first; return False if they are too
    many.
    """
    facts, waiting, waits = room.facts, queues.waiting, queues.waits
    for i in range(room.state[FRESH]):
        e = room.listed[FRESH, i]
        view = stratum.views[facts[e, VIEW]]
        if facts[e, OLD] >= 0 or not view[WRITTEN_FIRST]:
            continue
        edits, at, keys = waiting[view[VIEW_QUEUE]], waits[view[VIEW_QUEUE]], view[KEY_WORDS]
        if at == waiting.shape[2]:
            return False
        edits[0, at] = INSERT
        for k in range(keys):
            edits[1 + k, at] = facts[e, FACT + k]
        edits[1 + keys, at] = facts[e, RANK]
        waits[view[VIEW_QUEUE]] = at + 1
        facts[e, OLD], facts[e, MARK] = facts[e, RANK], WRITTEN
    return True


@kernel
def note_changes(stratum: Strata, room: FactsRoom, queues: Queues, reordering: Reordering, v: int):
    """Make the changes of the trees of view v, which was flushed several times, those of all
    flushes together.
    """
    facts, view, moving, n = room.facts, stratum.views[v], reordering.moving[0], 0
    for t in range(view[VIEW_TREE], view[VIEW_TREES_END]):
        keys, width, n = queues.trees[t, KEYS], view[KEY_WORDS], 0
        for e in range(room.state[FACTS]):
            was, stands = facts[e, OLD] >= 0 and facts[e, MARK] != WRITTEN, facts[e, FATE] == STANDS
            if facts[e, VIEW] != v or was == stands:
                continue
            moving[0, n] = ERASE if was else INSERT
            for c in range(width):
                place = c if t == view[VIEW_TREE] else queues.places[t, c]
                moving[1 + c, n] = facts[e, FACT + place]
            n += 1
        out, order = queues.deltas[t], reordering.order[: 2 * n]
        compose_few(
            keys, width, moving[0, :n], moving[1:], order, reordering.fresh, out[0], out[1:]
        )
        queues.tallies[t, CHANGES] = n


@kernel
def count_changes(stratum: Strata, room: FactsRoom, v: int):
    """Return how many facts of a view have come or gone."""
    facts, n = room.facts, 0
    for e in range(room.state[FACTS]):
        was, stands = facts[e, OLD] >= 0 and facts[e, MARK] != WRITTEN, facts[e, FATE] == STANDS
        n += facts[e, VIEW] == v and was != stands
    return n


@inlined
def rank_now(fact: Words):
    """Return the rank of a fact; -1 if there is none."""
    return fact[RANK] if fact[FATE] == STANDS else -1
