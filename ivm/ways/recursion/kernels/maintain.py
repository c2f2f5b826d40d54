"""Maintain the views of a recursive stratum in one call, fact by fact.

    changes ──▶ derivations lost, gained
                     │
                     ▼
    withdraw         the fact of the least rank that may have lost its support: if no search finds a derivation from
                     facts before it, it is suspended, and the facts that it supported wait for the
                     same
    restore          suspended facts with a derivation from facts that stand return, the others are gone
    rounds           what follows from facts that returned or are new, round by round

Nothing is written meanwhile: trees hold the facts of before, and a table says of each fact that was
looked at whether it still stands, and with which rank. Only facts that later rounds join with one
another go into their trees after each round (WRITE), and so does all that has changed, at the end.

Groups of arguments of this kernel (see pagestore/runtime/types.py).
"""

from typing import NamedTuple

from ivm.ways.kernels.probe import (
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
from ivm.ways.recursion.kernels.facts import (
    ABSENT,
    ATOMS,
    ATOMS_END,
    BEFORE,
    BODIES,
    BODIES_END,
    COLUMNS,
    COUNT,
    DEPTH,
    DERIVATION,
    DERIVATIONS,
    DERIVED,
    DERIVES,
    DONE,
    EXAMINED,
    FACT,
    FACTS,
    FATE,
    FRESH,
    GAINED,
    GONE,
    HEAD,
    HEAD_KEY,
    IN_ROUNDS,
    LIMITED,
    MARK,
    NEXT,
    NO_ROOM,
    OLD,
    ORDER,
    PENDING,
    PLANS_END,
    PROBES,
    PROBES_END,
    QUEUE,
    RANK,
    READERS,
    READERS_END,
    ROUNDS,
    SEARCHES,
    SEARCHES_END,
    SLOT,
    SOURCE_VIEW,
    SOURCES,
    SOURCES_END,
    STANDS,
    STATE,
    SUSPENDED,
    SUSPENDED_MAX,
    TREES,
    TREES_END,
    VIEW,
    WITHDRAWN,
    WORK,
    WORK_MAX,
    WRITE,
    WRITTEN_FIRST,
    FactsRoom,
    Strata,
    StrataTrees,
    append,
    fact_of,
    pop,
    push,
    read_own,
)
from pagestore.compiled import ERASE, INSERT, WORD_MAX, Pages, function_pointer, inlined, kernel


class Probing(NamedTuple):
    """Buffers of probes, as `probe_next` takes them, and its address."""

    run: ProbeRun
    found: Found
    composing: Composing
    address: int


@kernel
def maintain(pages, stratum, trees, changes, room, probing, number):
    """Follow changes (Branches, with a span for each source) through one of some strata, as far as
    possible.

    Returns DONE; LIMITED, if that would be more work than is allowed; WRITE, if facts that are in
    no tree are to be written there, after which another call goes on; NO_ROOM, after which another
    call goes on with more room, or begins again if there were no rounds yet; or ``-page_id``. A
    first call has 0 in state[IN_ROUNDS].
    """
    state = room.state
    place(stratum, trees, number)
    if not state[IN_ROUNDS]:
        forget(room)
        status = follow(pages, stratum, trees, changes, room, probing, number)
        if status == DONE:
            status = withdraw(pages, stratum, trees, room, probing)
        if status != DONE:
            return status
        restore(room)
        adopt_gained(room)
        state[IN_ROUNDS] = 1
    return derive_rounds(pages, stratum, trees, room, probing)


@kernel
def place(stratum: Strata, trees: StrataTrees, number: int):
    """Copy root, height and keys of the trees that the plans of a stratum read."""
    for p in range(stratum.strata[number, BODIES], stratum.strata[number, PLANS_END]):
        first, n = stratum.plans[p, TREES], stratum.plans[p, TREES_END] - stratum.plans[p, TREES]
        for i in range(n):
            before = trees.before[stratum.trees[first + i]]
            now = trees.now[stratum.trees[first + i]]
            for word in range(3):
                trees.placed[6 * first + 3 * i + word] = before[word]
                trees.placed[6 * first + 3 * (n + i) + word] = now[word]


@kernel
def forget(room: FactsRoom):
    """Forget all facts of the call before."""
    for e in range(room.state[FACTS]):
        room.slots[room.facts[e, SLOT]] = 0
    for word in range(STATE):
        if word != WORK_MAX and word != SUSPENDED_MAX:
            room.state[word] = 0


# -- derivations lost and gained


@kernel
def follow(pages, stratum, trees, changes, room, probing, number):
    """Queue the facts that lost a derivation by changes outside the stratum, and note the
    derivations gained.
    """
    for p in range(stratum.strata[number, BODIES], stratum.strata[number, BODIES_END]):
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
                status = note_change(
                    pages, stratum, trees, room, found.bindings, found.signs[b], p, b
                )
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
def note(room: FactsRoom, e: int, count: int, before: int):
    """Note that fact e follows from the first `count` of room.own; return whether there was
    room.
    """
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
def withdraw(pages: Pages, stratum: Strata, trees: StrataTrees, room: FactsRoom, probing: Probing):
    """Suspend all facts without a derivation from facts before them, in the order of their
    ranks.
    """
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
def search(
    pages: Pages, stratum: Strata, trees: StrataTrees, room: FactsRoom, probing: Probing, e: int
):
    """Return 1 if a fact has a derivation from facts before it; else 0, with all its derivations
    noted.
    """
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
            head = fact_of(
                pages, stratum, trees, room, plan[HEAD], probing.found.bindings, b, plan[HEAD_KEY]
            )
            if head < 0:
                return head
            if facts[head, FATE] == STANDS and facts[head, RANK] > facts[e, RANK]:
                push(room, head)
    room.state[WORK] += probing.run.progress[OPERATIONS]
    return DONE


@kernel
def restore(room: FactsRoom):
    """Let suspended facts return that follow from facts that stand, with new ranks; the others
    are gone.
    """
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
def rank_after(room: FactsRoom, d: int):
    """Return the rank directly after those of the facts of a derivation; WORD_MAX if one of them
    does not stand.
    """
    greatest = 0
    for i in range(room.derivations[d, COUNT]):
        e = room.derivations[d, DERIVATION + i]
        if room.facts[e, FATE] != STANDS:
            return WORD_MAX
        greatest = max(greatest, room.facts[e, RANK])
    return greatest + 1


@kernel
def adopt_gained(room: FactsRoom):
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
def derive_rounds(
    pages: Pages, stratum: Strata, trees: StrataTrees, room: FactsRoom, probing: Probing
):
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
            head = fact_of(
                pages, stratum, trees, room, plan[HEAD], probing.found.bindings, b, plan[HEAD_KEY]
            )
            if head < 0:
                return head
            propose(room, head, rank + 1)
    room.state[WORK] += probing.run.progress[OPERATIONS]
    return DONE


@inlined
def propose(room: FactsRoom, e: int, rank: int):
    """Let a fact with a derivation exist from the next round on, with the least rank proposed,
    unless it stands.
    """
    facts = room.facts
    if facts[e, FATE] == PENDING:
        facts[e, RANK] = min(facts[e, RANK], rank)
    elif facts[e, FATE] == ABSENT or facts[e, FATE] == GONE:
        facts[e, FATE], facts[e, RANK] = PENDING, rank
        append(room, NEXT, e)


@kernel
def begin_round(room: FactsRoom):
    """Let the facts proposed stand, and be the fresh ones."""
    state, listed = room.state, room.listed
    for i in range(state[NEXT]):
        e = listed[NEXT, i]
        room.facts[e, FATE] = STANDS
        append(room, FRESH, e)
    state[NEXT] = 0


# -- probes


@inlined
def has_more(stratum: Strata, probing: Probing, p: int):
    """Return whether the probes of a plan have not finished."""
    return probing.run.progress[STEP] < 2 * (
        stratum.plans[p, PROBES_END] - stratum.plans[p, PROBES]
    )


@inlined
def alone(probing: Probing):
    """Return room for composing that has none: the bindings of a single fact need not be sorted."""
    composing = probing.composing
    return Composing(composing.order[:0], composing.fresh, composing.found)


@kernel
def probe(pages, stratum, trees, branches, probing, composing, p):
    """Return how many of the next bindings of a plan are in probing.found, or ``-page_id``."""
    plan = stratum.plans[p]
    n = plan[TREES_END] - plan[TREES]
    versions = trees.placed[6 * plan[TREES] : 6 * plan[TREES_END]].reshape((2, n, 3))
    table = ProbeTable(
        stratum.static, stratum.probes[plan[PROBES] : plan[PROBES_END]], plan[COLUMNS]
    )
    return probe_next_at(
        probing.address, pages, table, versions, branches, probing.run, probing.found, composing
    )


@kernel
def aimed(stratum: Strata, room: FactsRoom, probing: Probing, p: int, e: int):
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


maintain_at = function_pointer(
    maintain, Pages, Strata, StrataTrees, Branches, FactsRoom, Probing, int
)
