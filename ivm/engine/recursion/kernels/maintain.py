"""Maintain the views of a recursive stratum in one call, fact by fact.

    changes ──▶ derivations lost, gained
                     │
                     ▼
    withdraw         the fact of the least rank that may have lost its support: if no search finds a derivation from
                     facts before it, it is suspended, and the facts that it supported wait for the same
    restore          suspended facts with a derivation from facts that stand return, the others are gone
    rounds           what follows from facts that returned or are new, round by round

Nothing is written meanwhile: trees hold the facts of before, and a table says of each fact that was looked at whether
it still stands, and with which rank. Only facts that later rounds join with one another go into their trees after
each round (WRITE), and so does all that has changed, at the end.

Groups of arguments of this kernel (see pagestore/runtime/types.py).
"""

from typing import NamedTuple

from ivm.engine.recursion.kernels.rounds import hash_of
from ivm.maintenance.kernels.probe import (
    COMPOSED,
    OPERATIONS,
    STEP,
    Branches,
    Composing,
    Found,
    ProbeRun,
    ProbeTable,
    probe_next_at,
)
from pagestore.compiled import (
    ERASE,
    INSERT,
    LEAF_PAGE,
    LEAF_SLOT,
    WORD_MAX,
    WORD_MIN,
    Table,
    Words,
    field,
    inlined,
    kernel,
    seek,
    tree_at,
)

# statuses; a negative one is ``-page_id``, or NO_ROOM
DONE, LIMITED, WRITE = range(3)
NO_ROOM = WORD_MIN
# columns of `plans`: the spans of its probes, of the trees that they read, of its sources and of its own atoms; the
# columns of a binding, the view of its head, and where `lists` has the columns of a binding that are the head's key
PROBES, PROBES_END, TREES, TREES_END, SOURCES, SOURCES_END, ATOMS, ATOMS_END, COLUMNS, HEAD, HEAD_KEY = range(11)
# columns of `sources`: the stratum's view that a fact may begin with, -1 for none; where `lists` has the columns of its
# key that make a branch, and how many
SOURCE_VIEW, ORDER, DEPTH = range(3)
# columns of `atoms`: its view, and where `lists` has the columns of a binding that are its key
ATOM_VIEW, ATOM_KEY = range(2)
# columns of `views`: key words; spans of `lists` with the plans that read the view and those that search for
# derivations of its facts; whether new facts are written before they are joined
KEY_WORDS, READERS, READERS_END, SEARCHES, SEARCHES_END, WRITTEN_FIRST = range(6)
# words of a fact, and then its key: its rank now and in the tree (-1 if it is not there), what has become of it, a
# mark, its newest derivation (from 1), its view, its slot
RANK, OLD, FATE, MARK, DERIVED, VIEW, SLOT, FACT = range(8)
ABSENT, STANDS, SUSPENDED, GONE, PENDING = range(5)  # PENDING: derived in this round
# words of a derivation, and then the facts that it follows from: the one noted before, of how many facts, its fact
BEFORE, COUNT, DERIVES, DERIVATION = range(4)
# rows of `listed`: facts waiting to be examined (a heap), suspended ones, those of this round and of the next
QUEUE, WITHDRAWN, FRESH, NEXT, LISTS = range(5)
# words of `state`: of each list how many it has; whether rounds have begun; facts and derivations noted, the newest
# derivation that was gained (from 1); operations, the most of them, the most suspended facts; facts examined, rounds
IN_ROUNDS, FACTS, DERIVATIONS, GAINED, WORK, WORK_MAX, SUSPENDED_MAX, EXAMINED, ROUNDS, STATE = range(4, 14)


class Stratum(NamedTuple):
    """The plans of a stratum: those of its conjunctions, of which there are `bodies`, then those that search.

    plans[P], probes[Q], sources[S], atoms[A] and views[V] have the columns above, and those of `ProbeTable`, whose
    words `static` is.
    """

    static: Words
    probes: Table
    plans: Table
    sources: Table
    atoms: Table
    views: Table
    lists: Words
    bodies: int


class StratumTrees(NamedTuple):
    """The trees: for each plan [2, I, 3] words of those that it reads, old and new; own[V, 3], those of the views."""

    placed: Words
    own: Table


class FactsRoom(NamedTuple):
    """What is known of facts: facts[N, FACT + K], slots[M] to find them, derivations[D, DERIVATION + A] and lists.

    listed[LISTS, N] and `state` are as above; own[A], cursor, words and spans[S, 3] are scratch: facts of a binding,
    a cursor, the branch of a fact for each source, and where it is; actions[2] as for `probe_next`.
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


class Probing(NamedTuple):
    """Buffers of probes, as `probe_next` takes them, and its address."""

    run: ProbeRun
    found: Found
    composing: Composing
    address: int


@kernel
def maintain(pages, stratum, trees, changes, room, probing):
    """Follow changes (Branches, with a span for each source of the conjunctions) as far as possible.

    Returns DONE; LIMITED, if that would be more work than is allowed; WRITE, if facts that are in no tree are to be
    written there, after which another call goes on; NO_ROOM, after which another call goes on with more room, or begins
    again if there were no rounds yet; or ``-page_id``.
    """
    state = room.state
    if not state[IN_ROUNDS]:
        status = follow(pages, stratum, trees, changes, room, probing)
        if status == DONE:
            status = withdraw(pages, stratum, trees, room, probing)
        if status != DONE:
            return status
        restore(room)
        adopt_gained(room)
        state[IN_ROUNDS] = 1
    return derive_rounds(pages, stratum, trees, room, probing)


# -- derivations lost and gained


@kernel
def follow(pages, stratum, trees, changes, room, probing):
    """Queue the facts that lost a derivation by changes outside the stratum, and note the derivations gained."""
    for p in range(stratum.bodies):
        first, end = stratum.plans[p, SOURCES], stratum.plans[p, SOURCES_END]
        total = 0
        for s in range(first, end):
            total += changes.spans[s, 1]
        if not total:
            continue
        branches = Branches(changes.words, changes.spans[first:end], changes.actions)
        probing.run.progress[:] = 0
        while has_more(stratum, probing, p):
            n = probe(pages, stratum, trees, branches, probing, probing.composing, p)
            if n < 0:
                return n
            found = probing.composing.found if probing.run.progress[COMPOSED] else probing.found
            for b in range(n):
                status = note_change(pages, stratum, trees, room, found.bindings, found.signs[b], p, b)
                if status < 0:
                    return status
        room.state[WORK] += probing.run.progress[OPERATIONS]
    return DONE


@kernel
def note_change(pages, stratum, trees, room, bindings, sign, p, b):
    """Queue the fact of a binding that is lost, or note a derivation that is gained."""
    plan, facts = stratum.plans[p], room.facts
    rank = read_own(pages, stratum, trees, room, bindings, p, b)
    if rank < 0:
        return rank
    e = fact_of(pages, stratum, trees, room, plan[HEAD], bindings, b, plan[HEAD_KEY])
    if e < 0:
        return e
    if sign == ERASE:
        if facts[e, FATE] == STANDS and rank < facts[e, RANK]:
            push(room, e)
        return DONE
    if not note(room, e, plan[ATOMS_END] - plan[ATOMS], room.state[GAINED]):
        return NO_ROOM
    room.state[GAINED] = room.state[DERIVATIONS]
    return DONE


@kernel
def note(room, e, count, before):
    """Note that fact e follows from the first `count` of room.own; return whether there was room."""
    state, derivations = room.state, room.derivations
    d = state[DERIVATIONS]
    if d == derivations.shape[0]:
        return False
    derivations[d, BEFORE], derivations[d, COUNT], derivations[d, DERIVES] = before, count, e
    for i in range(count):
        derivations[d, DERIVATION + i] = room.own[i]
    state[DERIVATIONS] = d + 1
    return True


# -- withdrawal


@kernel
def withdraw(pages, stratum, trees, room, probing):
    """Suspend all facts without a derivation from facts before them, in the order of their ranks."""
    state, facts = room.state, room.facts
    while state[QUEUE]:
        e = pop(room)
        state[EXAMINED] += 1
        supported = search(pages, stratum, trees, room, probing, e)
        if supported < 0:
            return supported
        if supported:
            continue
        facts[e, FATE] = SUSPENDED
        append(room, WITHDRAWN, e)
        view = facts[e, VIEW]
        for r in range(stratum.views[view, READERS], stratum.views[view, READERS_END]):
            status = examine(pages, stratum, trees, room, probing, stratum.lists[r], e)
            if status < 0:
                return status
        if state[WORK] > state[WORK_MAX] or state[WITHDRAWN] >= state[SUSPENDED_MAX]:
            return LIMITED
    return DONE


@kernel
def search(pages, stratum, trees, room, probing, e):
    """Return 1 if a fact has a derivation from facts before it; else 0, with all its derivations noted."""
    state, facts, view = room.state, room.facts, room.facts[e, VIEW]
    first = state[DERIVATIONS]
    for s in range(stratum.views[view, SEARCHES], stratum.views[view, SEARCHES_END]):
        p = stratum.lists[s]
        count = stratum.plans[p, ATOMS_END] - stratum.plans[p, ATOMS]
        branches = aimed(stratum, room, probing, p, e)
        while has_more(stratum, probing, p):
            n = probe(pages, stratum, trees, branches, probing, alone(probing), p)
            if n < 0:
                return n
            for b in range(n):
                rank = read_own(pages, stratum, trees, room, probing.found.bindings, p, b)
                if rank < 0:
                    return rank
                if rank < facts[e, RANK]:
                    state[DERIVATIONS], facts[e, DERIVED] = first, 0
                    state[WORK] += probing.run.progress[OPERATIONS]
                    return 1
                if not note(room, e, count, facts[e, DERIVED]):
                    return NO_ROOM
                facts[e, DERIVED] = state[DERIVATIONS]
        state[WORK] += probing.run.progress[OPERATIONS]
    return 0


@kernel
def examine(pages, stratum, trees, room, probing, p, e):
    """Queue the facts that plan p derived from fact e, which is suspended."""
    plan, facts = stratum.plans[p], room.facts
    branches = aimed(stratum, room, probing, p, e)
    while has_more(stratum, probing, p):
        n = probe(pages, stratum, trees, branches, probing, alone(probing), p)
        if n < 0:
            return n
        for b in range(n):
            head = fact_of(pages, stratum, trees, room, plan[HEAD], probing.found.bindings, b, plan[HEAD_KEY])
            if head < 0:
                return head
            if facts[head, FATE] == STANDS and facts[head, RANK] > facts[e, RANK]:
                push(room, head)
    room.state[WORK] += probing.run.progress[OPERATIONS]
    return DONE


@kernel
def restore(room):
    """Let suspended facts return that follow from facts that stand, with new ranks; the others are gone."""
    state, facts, derivations = room.state, room.facts, room.derivations
    for i in range(state[WITHDRAWN]):
        e = room.listed[WITHDRAWN, i]
        best, d = WORD_MAX, facts[e, DERIVED]
        while d:
            best = min(best, rank_after(room, d - 1))
            d = derivations[d - 1, BEFORE]
        facts[e, MARK] = best
    for i in range(state[WITHDRAWN]):
        e = room.listed[WITHDRAWN, i]
        if facts[e, MARK] == WORD_MAX:
            facts[e, FATE] = GONE
        else:
            facts[e, FATE], facts[e, RANK] = STANDS, facts[e, MARK]
            append(room, FRESH, e)


@kernel
def rank_after(room, d):
    """Return the rank directly after those of the facts of a derivation; WORD_MAX if one of them does not stand."""
    greatest = 0
    for i in range(room.derivations[d, COUNT]):
        e = room.derivations[d, DERIVATION + i]
        if room.facts[e, FATE] != STANDS:
            return WORD_MAX
        greatest = max(greatest, room.facts[e, RANK])
    return greatest + 1


@kernel
def adopt_gained(room):
    """Adopt the facts of derivations that were gained, as part of the first round."""
    d = room.state[GAINED]
    while d:
        rank = rank_after(room, d - 1)
        if rank < WORD_MAX:
            propose(room, room.derivations[d - 1, DERIVES], rank)
        d = room.derivations[d - 1, BEFORE]
    begin_round(room)


# -- rounds


@kernel
def derive_rounds(pages, stratum, trees, room, probing):
    """Derive what follows from fresh facts, round by round."""
    state, facts, listed = room.state, room.facts, room.listed
    while state[FRESH]:
        for i in range(state[FRESH]):
            e = listed[FRESH, i]
            if facts[e, OLD] < 0 and stratum.views[facts[e, VIEW], WRITTEN_FIRST]:
                return WRITE
        for i in range(state[FRESH]):
            e = listed[FRESH, i]
            view = facts[e, VIEW]
            for r in range(stratum.views[view, READERS], stratum.views[view, READERS_END]):
                status = derive(pages, stratum, trees, room, probing, stratum.lists[r], e)
                if status < 0:
                    return status
            if state[WORK] > state[WORK_MAX]:
                return LIMITED
        state[ROUNDS] += 1
        state[FRESH] = 0
        begin_round(room)
    return DONE


@kernel
def derive(pages, stratum, trees, room, probing, p, e):
    """Propose the facts that plan p derives from fact e."""
    plan = stratum.plans[p]
    branches = aimed(stratum, room, probing, p, e)
    while has_more(stratum, probing, p):
        n = probe(pages, stratum, trees, branches, probing, alone(probing), p)
        if n < 0:
            return n
        for b in range(n):
            rank = read_own(pages, stratum, trees, room, probing.found.bindings, p, b)
            if rank < 0:
                return rank
            if rank == WORD_MAX:
                continue
            head = fact_of(pages, stratum, trees, room, plan[HEAD], probing.found.bindings, b, plan[HEAD_KEY])
            if head < 0:
                return head
            propose(room, head, rank + 1)
    room.state[WORK] += probing.run.progress[OPERATIONS]
    return DONE


@inlined
def propose(room, e, rank):
    """Let a fact with a derivation exist from the next round on, with the least rank proposed, unless it stands."""
    facts = room.facts
    if facts[e, FATE] == PENDING:
        facts[e, RANK] = min(facts[e, RANK], rank)
    elif facts[e, FATE] == ABSENT or facts[e, FATE] == GONE:
        facts[e, FATE], facts[e, RANK] = PENDING, rank
        append(room, NEXT, e)


@kernel
def begin_round(room):
    """Let the facts proposed stand, and be the fresh ones."""
    state, listed = room.state, room.listed
    for i in range(state[NEXT]):
        e = listed[NEXT, i]
        room.facts[e, FATE] = STANDS
        append(room, FRESH, e)
    state[NEXT] = 0


# -- probes


@inlined
def has_more(stratum, probing, p):
    """Return whether the probes of a plan have not finished."""
    return probing.run.progress[STEP] < 2 * (stratum.plans[p, PROBES_END] - stratum.plans[p, PROBES])


@inlined
def alone(probing):
    """Return room for composing that has none: the bindings of a single fact need not be sorted."""
    composing = probing.composing
    return Composing(composing.order[:0], composing.fresh, composing.found)


@kernel
def probe(pages, stratum, trees, branches, probing, composing, p):
    """Return how many of the next bindings of a plan are in probing.found, or ``-page_id``."""
    plan = stratum.plans[p]
    n = plan[TREES_END] - plan[TREES]
    versions = trees.placed[6 * plan[TREES] : 6 * plan[TREES_END]].reshape((2, n, 3))
    table = ProbeTable(stratum.static, stratum.probes[plan[PROBES] : plan[PROBES_END]], plan[COLUMNS])
    return probe_next_at(probing.address, pages, table, versions, branches, probing.run, probing.found, composing)


@kernel
def aimed(stratum, room, probing, p, e):
    """Return a fact as the branches of a plan's probes, and begin these."""
    plan, sources, fact, words = stratum.plans[p], stratum.sources, room.facts[e], room.words
    first, at = plan[SOURCES], 0
    spans = room.spans[: plan[SOURCES_END] - first]
    for s in range(spans.shape[0]):
        source, depth = sources[first + s], sources[first + s, DEPTH]
        spans[s, 0], spans[s, 1], spans[s, 2] = at, source[SOURCE_VIEW] == fact[VIEW], 1
        if source[SOURCE_VIEW] == fact[VIEW]:
            words[at] = INSERT
            for i in range(depth):
                words[at + 1 + i] = fact[FACT + stratum.lists[source[ORDER] + i]]
            at += 1 + depth
    probing.run.progress[:] = 0
    return Branches(words, spans, room.actions)


# -- facts


@kernel
def read_own(pages, stratum, trees, room, bindings, p, b):
    """Put the stratum's facts in a binding into room.own; return the greatest rank, WORD_MAX if one does not stand."""
    facts, atoms, first = room.facts, stratum.atoms, stratum.plans[p, ATOMS]
    greatest = 0
    for a in range(first, stratum.plans[p, ATOMS_END]):
        e = fact_of(pages, stratum, trees, room, atoms[a, ATOM_VIEW], bindings, b, atoms[a, ATOM_KEY])
        if e < 0:
            return e
        room.own[a - first] = e
        greatest = max(greatest, facts[e, RANK]) if facts[e, FATE] == STANDS else WORD_MAX
    return greatest


@kernel
def fact_of(pages, stratum, trees, room, view, bindings, b, at):
    """Return the number of a view's fact whose key a binding has; it is read from its tree when it is first looked at.

    `at` is where stratum.lists has the columns of the key.
    """
    facts, slots, lists, keys = room.facts, room.slots, stratum.lists, stratum.views[view, KEY_WORDS]
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
    status = read_fact(pages, trees, room, view, keys, e)
    if status < 0:
        return status
    facts[e, VIEW], facts[e, SLOT], facts[e, MARK], facts[e, DERIVED] = view, slot, 0, 0
    slots[slot] = e + 1
    room.state[FACTS] = e + 1
    return e


@kernel
def read_fact(pages, trees, room, view, keys, e):
    """Set the rank and the fate of a fact as its tree has it."""
    fact, cursor, words = room.facts[e], room.cursor, pages.words
    status = seek(tree_at(pages, trees.own[view], 0), fact[FACT:], keys, cursor, 0)
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
def place_again(stratum, facts, slots, count):
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
def append(room, which, e):
    """Append a fact to a list."""
    room.listed[which, room.state[which]] = e
    room.state[which] += 1


@kernel
def push(room, e):
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
def pop(room):
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
