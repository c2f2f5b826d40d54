"""Recursion in memory: join each queued fact with the other atoms of all bodies, and queue the new
facts.

    path(x, z) <- path(x, y), edge(y, z).       the fact path(1, 2) is queued

    step 0   path    x = 1, y = 2
    step 1   edge    looked up by y = 2: (2, 3), (2, 7)
    head     path    (1, 3) exists already, (1, 7) is new: its rank is 1 + that of (1, 2); it is appended and queued

Rows of relations are sorted by the columns that they are looked up by, and a hash table says where
those with a key begin. Facts with a key form a chain, the newest first. A combination of facts is
found from the last of them: the others come before it.

Groups of arguments of the kernel that evaluates a recursion in memory (see
pagestore/runtime/types.py).

Build hash tables: those of relations that a recursion reads, and the chains of its facts.

Join values of a semilattice by the operator that a user registered.
"""

from typing import NamedTuple

from ivm.join.kernels.numbers import hash_of
from pagestore.compiled import Table, Words, call_operator, inlined, kernel

# columns of a fact after its words
RANK, PREDICATE, WAITS, FACT = range(4)
# columns of a fact put aside, after its words: the first two as above, its slot or its number, its
# row from 1 if it exists with a worse value (later CHOSEN if it is the one of its key that is
# added), the one before it in its chain
SLOT, THERE, CHAINED, ASIDE = range(2, 6)
CHOSEN = -1
# columns of `bodies`: its first step, the end of its steps, the head's predicate, where its
# variables are in `lists` and how many are keys, the variable of its value, or -1
FIRST, LAST, HEAD, TERMS, KEYS, VALUE, BODY = range(7)
# columns of `steps`: its kind, which relation or index it looks up, the columns and variables to
# look up by, the columns that give variables their values, tests; for facts, whether they come
# before the queued one
KIND, OF, BY, BY_COUNT, TAKES, TAKE_COUNT, TESTS, TEST_COUNT, BEFORE, STEP = range(10)
WAITING, RELATION, FACTS = range(3)  # kinds
NOT_LATER, EARLIER, ANY = range(3)  # than the queued fact
ASSIGN, EQUAL = range(2)  # whether a column sets a variable or is compared with it
# columns of `tests`: the kind of a test that compares a variable with constant + sign * another +
# sign * another
TEST, LEFT, CONSTANT, ONE, ONE_SIGN, TWO, TWO_SIGN, TEST_WORDS = range(8)
# ABSENT: LEFT is a relation, looked up by TWO columns, from lists[ONE] on
COMPUTE, EQ, GE, LE, NE, ABSENT = range(6)
# columns of `indices`: the predicate, its columns in `lists`, and how many
INDEXED, COLUMNS, COLUMN_COUNT = range(3)
# columns of `relations`: where its rows begin in `data`, how many, how wide, where its hash table
# begins, its mask
ROWS, COUNT, WIDTH, TABLE, MASK = range(5)
# words of `progress`: facts, queued facts, where the ring begins, rows read; the most facts and the
# greatest rank allowed; the aggregate: 0 for none, 1 for min, -1 for max; the span of words that
# facts are numbered by, 0 for none, the least word in it, and the most key words; how many must be
# queued for threads to share a round, the rank of the last queued fact taken, and which queued fact
# a thread takes next
SIZE, WAIT, RING, OPERATIONS, SIZE_MAX, RANK_MAX, FOLD, SPAN, LOW, MOST_KEYS = range(10)
SHARED_MIN, LEVEL, NEXT, PROGRESS = range(10, 14)
DONE, GROW, LIMIT, OVERFLOW, UNORDERED, SHARE = range(6)  # how a run ends


class Bodies(NamedTuple):
    """The conjunctions of a stratum, once for each recursive atom that a new fact may match (see
    the top of this file).

    of[P + 1] says which rows of `bodies` begin with facts of predicate p; these refer to `steps`,
    `tests` and `lists`; `indices` are the indices of facts, `relations` those read from outside the
    stratum, whose rows are in `data`.
    """

    of: Words
    bodies: Table
    steps: Table
    tests: Table
    lists: Words
    indices: Table
    relations: Table
    data: Words


class Facts(NamedTuple):
    """The facts of a stratum.

    rows[n, W] hold their words, then RANK, PREDICATE, WAITS; nexts[I, n] are chains of rows by
    index, begins[I, m] where these begin, and `ring` is the queue of facts. If facts have numbers,
    `dense` says by number which facts exist: a bit for each, or for an aggregate the row, from 1.
    """

    rows: Table
    nexts: Table
    begins: Table
    ring: Words
    dense: Words


class Run(NamedTuple):
    """The state of a run.

    `progress` is described above, `values` are those of variables; at, costs and ranks hold for
    each step its current row, and the greatest cost and rank of the facts up to it. If threads
    share rounds, aside[P * n, W] has space for n facts that a thread derives for each part while
    others read existing facts, puts[P] counts them, and recent[M] is the last one derived with a
    slot; else these are empty.
    """

    progress: Words
    values: Words
    at: Words
    costs: Words
    ranks: Words
    aside: Table
    puts: Words
    recent: Words


@kernel
def run_rounds(bodies: Bodies, facts: Facts, run: Run):
    """Derive until no fact is queued. Return DONE, or why it stopped; after GROW call it again with
    more capacity.

    It stops with SHARE if enough facts are queued for threads to share a round. Unless values are
    aggregated, these then all have one rank, and the facts derived from them the next.
    """
    progress = run.progress
    own = facts.rows.shape[1] - FACT
    while progress[WAIT]:
        fact = facts.ring[progress[RING]]
        rank = facts.rows[fact, own + RANK]
        fresh = rank != progress[LEVEL]
        progress[LEVEL] = rank
        if progress[WAIT] >= progress[SHARED_MIN] and (fresh or progress[FOLD]):
            return SHARE
        facts.rows[fact, own + WAITS] = 0
        predicate = facts.rows[fact, own + PREDICATE]
        for b in range(bodies.of[predicate], bodies.of[predicate + 1]):
            status = join(bodies, facts, run, b, fact)
            if status != DONE:
                return status
        progress[RING] = progress[RING] + 1 if progress[RING] + 1 < facts.ring.shape[0] else 0
        progress[WAIT] -= 1
    return DONE


@inlined
def join(bodies: Bodies, facts: Facts, run: Run, b: int, fact: int):
    """Join a queued fact with the other atoms of a body, and add the facts derived."""
    first, last = bodies.bodies[b, FIRST], bodies.bodies[b, LAST]
    at = run.at
    step = first
    at[0] = fact
    fresh = False
    while True:
        depth = step - first
        if fresh:
            at[depth] = begin(bodies, facts, run, step, fact)
        elif depth:
            at[depth] = follow(bodies, facts, run, step, at[depth], fact)
        if at[depth] < 0:
            step -= 1
            if step == first:
                return DONE
            fresh = False
            continue
        run.progress[OPERATIONS] += 1
        admitted = admit(bodies, facts, run, step, at[depth], depth)
        if admitted == OVERFLOW:
            return OVERFLOW
        if admitted and step + 1 < last:
            step += 1
            fresh = True
            continue
        if admitted:
            status = derive(bodies, facts, run, b, depth)
            if status != DONE:
                return status
        fresh = False
        if depth == 0:
            return DONE


@inlined
def begin(bodies: Bodies, facts: Facts, run: Run, step: int, fact: int):
    """Return the first row that a step finds; -1 for none."""
    steps, lists, values = bodies.steps, bodies.lists, run.values
    at, n = steps[step, BY], steps[step, BY_COUNT]
    if steps[step, KIND] == RELATION:
        return look_up(bodies, values, steps[step, OF], at, n)
    index = steps[step, OF]
    code = hash_of(0, n)
    for i in range(n):
        code = hash_of(code, values[lists[at + 2 * i + 1]])
    row = facts.begins[index, code & (facts.begins.shape[1] - 1)] - 1
    return matching(bodies, facts, run, step, row, fact)


@inlined
def look_up(bodies: Bodies, values: Words, relation: int, at: int, n: int):
    """Return the first row of a relation whose columns have the values of variables; -1 for
    none.
    """
    relations, data, lists = bodies.relations, bodies.data, bodies.lists
    count, width = relations[relation, COUNT], relations[relation, WIDTH]
    if n == 0 or count == 0:
        return 0 if count else -1
    code = hash_of(0, n)
    for i in range(n):
        code = hash_of(code, values[lists[at + 2 * i + 1]])
    mask = relations[relation, MASK]
    table = relations[relation, TABLE]
    rows = relations[relation, ROWS]
    slot = code & mask
    while data[table + slot]:
        row = data[table + slot] - 1
        same = True
        for i in range(n):
            same &= data[rows + row * width + lists[at + 2 * i]] == values[lists[at + 2 * i + 1]]
        if same:
            return row
        slot = (slot + 1) & mask
    return -1


@inlined
def follow(bodies: Bodies, facts: Facts, run: Run, step: int, row: int, fact: int):
    """Return the next row that a step finds; -1 at the end."""
    steps = bodies.steps
    if steps[step, KIND] == FACTS:
        return matching(bodies, facts, run, step, facts.nexts[steps[step, OF], row] - 1, fact)
    relation, lists, values = steps[step, OF], bodies.lists, run.values
    row += 1
    if row == bodies.relations[relation, COUNT]:
        return -1
    o = bodies.relations[relation, ROWS] + row * bodies.relations[relation, WIDTH]
    at = steps[step, BY]
    for i in range(steps[step, BY_COUNT]):
        if bodies.data[o + lists[at + 2 * i]] != values[lists[at + 2 * i + 1]]:
            return -1
    return row


@inlined
def matching(bodies: Bodies, facts: Facts, run: Run, step: int, row: int, fact: int):
    """Return the first fact of a chain, from a row on, that a step may take; -1 for none."""
    steps, lists, values = bodies.steps, bodies.lists, run.values
    own = facts.rows.shape[1] - FACT
    index, before, at = steps[step, OF], steps[step, BEFORE], steps[step, BY]
    predicate = bodies.indices[index, INDEXED]
    while row >= 0:
        same = before == ANY or row < fact or (row == fact and before == NOT_LATER)
        same &= facts.rows[row, own + PREDICATE] == predicate
        for i in range(steps[step, BY_COUNT]):
            same &= facts.rows[row, lists[at + 2 * i]] == values[lists[at + 2 * i + 1]]
        if same:
            return row
        row = facts.nexts[index, row] - 1
    return -1


@inlined
def admit(bodies: Bodies, facts: Facts, run: Run, step: int, row: int, depth: int):
    """Set variables from a row and run its tests; return 1 if all hold, 0 if not, or OVERFLOW."""
    steps, lists, values = bodies.steps, bodies.lists, run.values
    own = facts.rows.shape[1] - FACT
    at = steps[step, TAKES]
    relation = steps[step, OF]
    o = 0
    if steps[step, KIND] == RELATION:
        o = bodies.relations[relation, ROWS] + row * bodies.relations[relation, WIDTH]
    for i in range(steps[step, TAKE_COUNT]):
        column, how, variable = lists[at + 3 * i], lists[at + 3 * i + 1], lists[at + 3 * i + 2]
        word = bodies.data[o + column] if steps[step, KIND] == RELATION else facts.rows[row, column]
        if how == ASSIGN:
            values[variable] = word
        elif values[variable] != word:
            return 0
    cost, rank = (0, 0) if depth == 0 else (run.costs[depth - 1], run.ranks[depth - 1])
    if steps[step, KIND] != RELATION:
        one = cost_of(facts.rows[row, own - 1], run.progress[FOLD])
        its_rank = facts.rows[row, own + RANK]
        if depth == 0 or one > cost or (one == cost and its_rank > rank):
            cost, rank = one, its_rank
    run.costs[depth], run.ranks[depth] = cost, rank
    for t in range(steps[step, TESTS], steps[step, TESTS] + steps[step, TEST_COUNT]):
        held = test(bodies, values, t)
        if held != 1:
            return held
    return 1


@inlined
def cost_of(word: int, fold: int):
    """Return the cost of a fact: 0 if nothing is aggregated, else the value, inverted for max."""
    if fold == 0:
        return 0
    return word if fold > 0 else ~word


@kernel
def test(bodies: Bodies, values: Words, t: int):
    """Compute a variable, or test one; return 1 if the test holds, 0 if not, or OVERFLOW."""
    tests = bodies.tests
    kind, left, right = tests[t, TEST], tests[t, LEFT], tests[t, CONSTANT]
    if kind == ABSENT:
        return 1 if look_up(bodies, values, left, tests[t, ONE], tests[t, TWO]) < 0 else 0
    for other, sign in ((tests[t, ONE], tests[t, ONE_SIGN]), (tests[t, TWO], tests[t, TWO_SIGN])):
        if other >= 0:
            word = values[other]
            total = right + word if sign > 0 else right - word
            beyond = (
                (right ^ total) & (word ^ total) if sign > 0 else (right ^ word) & (right ^ total)
            )
            if beyond < 0:
                return OVERFLOW
            right = total
    if kind == COMPUTE:
        values[left] = right
        return 1
    word = values[left]
    if kind == EQ:
        return 1 if word == right else 0
    if kind == GE:
        return 1 if word >= right else 0
    if kind == LE:
        return 1 if word <= right else 0
    return 1 if word != right else 0


@inlined
def derive(bodies: Bodies, facts: Facts, run: Run, b: int, depth: int):
    """Add the fact that a body's head makes of the variables, unless it exists with a value that
    is not a worse.
    """
    progress, values, lists = run.progress, run.values, bodies.lists
    table, fold = bodies.bodies, progress[FOLD]
    predicate, terms, keys = table[b, HEAD], table[b, TERMS], table[b, KEYS]
    cost, rank = run.costs[depth], run.ranks[depth] + 1
    value = values[table[b, VALUE]] if fold else 0
    if fold and cost_of(value, fold) != cost:
        if cost_of(value, fold) < cost:
            return UNORDERED
        rank = 1
    return add(bodies, facts, run, predicate, values, lists, terms, keys, value, rank)


@inlined
def add(bodies, facts, run, predicate, values, lists, terms, keys, value, rank):
    """Add a fact of a predicate with the key values[lists[terms + i]], or put it aside in a
    shared round.
    """
    progress = run.progress
    rows, own, fold = facts.rows, facts.rows.shape[1] - FACT, progress[FOLD]
    if progress[SPAN]:
        number = number_of(progress, predicate, values, lists, terms, keys)
        if number < 0:
            return OVERFLOW
        slot = number if fold else number >> 6
        known = facts.dense[slot] if fold else (facts.dense[slot] >> (number & 63)) & 1
        if known and not fold:
            return DONE
        row = known - 1
    else:
        slot, row = chained(facts, predicate, values, lists, terms, keys)
        number = slot
    if run.aside.shape[0]:
        if row >= 0 and (not fold or cost_of(value, fold) >= cost_of(rows[row, own - 1], fold)):
            return DONE
        return put_aside(
            facts, run, predicate, values, lists, terms, keys, value, rank, number, row
        )
    if row >= 0:
        if fold and cost_of(value, fold) < cost_of(rows[row, own - 1], fold):
            rows[row, own - 1], rows[row, own + RANK] = value, rank
            if not rows[row, own + WAITS]:
                wait(facts, progress, row)
        return DONE
    return append(bodies, facts, run, predicate, values, lists, terms, keys, value, rank, number)


@inlined
def append(bodies, facts, run, predicate, values, lists, terms, keys, value, rank, number):
    """Append a new fact to the rows, and enter it by its number in the dense table or the chains."""
    progress = run.progress
    rows, own, fold = facts.rows, facts.rows.shape[1] - FACT, progress[FOLD]
    row = progress[SIZE]
    if row == rows.shape[0]:
        return GROW
    if row >= progress[SIZE_MAX] or rank > progress[RANK_MAX]:
        return LIMIT
    for i in range(keys):
        rows[row, i] = values[lists[terms + i]]
    if fold:
        rows[row, own - 1] = value
    rows[row, own + RANK], rows[row, own + PREDICATE] = rank, predicate
    progress[SIZE] = row + 1
    if progress[SPAN]:
        if fold:
            facts.dense[number] = row + 1
        else:
            facts.dense[number >> 6] |= 1 << (number & 63)
    else:
        facts.nexts[0, row] = facts.begins[0, number]
        facts.begins[0, number] = row + 1
    link(bodies, facts, row, 0, 1)
    wait(facts, progress, row)
    return DONE


@inlined
def put_aside(facts, run, predicate, values, lists, terms, keys, value, rank, slot, row):
    """Put a fact aside for the part that owns it, until all threads have finished, unless it
    already exists.
    """
    aside, recent, own = run.aside, run.recent, run.aside.shape[1] - ASIDE
    progress, parts = run.progress, run.puts.shape[0]
    part, room = owner(progress, slot, parts), aside.shape[0] // parts
    n = recent[slot & (recent.shape[0] - 1)]
    bits = progress[SPAN] and not progress[FOLD]
    if (
        not bits
        and part * room <= n < part * room + run.puts[part]
        and aside[n, own + SLOT] == slot
    ):
        same = aside[n, own + PREDICATE] == predicate
        for i in range(keys):
            same &= aside[n, i] == values[lists[terms + i]]
        if same:
            if cost_of(value, progress[FOLD]) < cost_of(aside[n, own - 1], progress[FOLD]):
                aside[n, own - 1], aside[n, own + RANK] = value, rank
            return DONE
    if run.puts[part] == room:
        return GROW
    n = part * room + run.puts[part]
    for i in range(own):
        aside[n, i] = values[lists[terms + i]] if i < keys else value
    aside[n, own + RANK], aside[n, own + PREDICATE] = rank, predicate
    aside[n, own + SLOT], aside[n, own + THERE] = slot, row + 1
    if bits:
        facts.dense[slot >> 6] |= 1 << (slot & 63)
    else:
        recent[slot & (recent.shape[0] - 1)] = n
    run.puts[part] += 1
    return DONE


@inlined
def owner(progress: Words, slot: int, parts: int):
    """Return the part that owns a fact; if each fact has a bit, all facts of one word have the
    same part.
    """
    return part_of(slot >> 6 if progress[SPAN] and not progress[FOLD] else slot, parts)


@inlined
def number_of(progress: Words, predicate: int, values: Words, lists: Words, terms: int, keys: int):
    """Return the number of a fact, by predicate and then by words; -1 if a word lies outside the
    span.
    """
    number, low, span = predicate, progress[LOW], progress[SPAN]
    for i in range(progress[MOST_KEYS]):
        word = values[lists[terms + i]] - low if i < keys else 0
        if word < 0 or word >= span:
            return -1
        number = number * span + word
    return number


@inlined
def chained(facts: Facts, predicate: int, values: Words, lists: Words, terms: int, keys: int):
    """Return the slot where the chain of a fact begins, and its row, or -1."""
    rows, own = facts.rows, facts.rows.shape[1] - FACT
    code = hash_of(0, predicate)
    for i in range(keys):
        code = hash_of(code, values[lists[terms + i]])
    slot = code & (facts.begins.shape[1] - 1)
    row = facts.begins[0, slot] - 1
    while row >= 0:
        same = rows[row, own + PREDICATE] == predicate
        for i in range(keys):
            same &= rows[row, i] == values[lists[terms + i]]
        if same:
            break
        row = facts.nexts[0, row] - 1
    return slot, row


@inlined
def wait(facts: Facts, progress: Words, row: int):
    """Append a fact to the queue in the ring."""
    place = progress[RING] + progress[WAIT]
    facts.ring[place - facts.ring.shape[0] if place >= facts.ring.shape[0] else place] = row
    progress[WAIT] += 1
    facts.rows[row, facts.rows.shape[1] - FACT + WAITS] = 1


@kernel
def link(bodies: Bodies, facts: Facts, row: int, part: int, parts: int):
    """Put a fact at the head of its chains that a part owns, except in the first index, which
    has whole keys.
    """
    own = facts.rows.shape[1] - FACT
    for index in range(1, bodies.indices.shape[0]):
        if bodies.indices[index, INDEXED] == facts.rows[row, own + PREDICATE]:
            n, at = bodies.indices[index, COLUMN_COUNT], bodies.indices[index, COLUMNS]
            code = hash_of(0, n)
            for i in range(n):
                code = hash_of(code, facts.rows[row, bodies.lists[at + i]])
            slot = code & (facts.begins.shape[1] - 1)
            if parts == 1 or part_of(slot, parts) == part:
                facts.nexts[index, row] = facts.begins[index, slot]
                facts.begins[index, slot] = row + 1


@inlined
def part_of(slot: int, parts: int):
    """Return the part of a slot; adjacent slots, which share a cache line, have the same part."""
    return (slot >> 6) % parts


@kernel
def seed(bodies: Bodies, facts: Facts, run: Run, predicate: int, words: Table, terms: Words):
    """Add facts words[K, n] (the value of an aggregate last) with rank 1, from
    `progress[OPERATIONS]` on.
    """
    progress, values = run.progress, run.values
    keys = terms.shape[0] if progress[FOLD] == 0 else words.shape[0] - 1
    while progress[OPERATIONS] < words.shape[1]:
        n = progress[OPERATIONS]
        for i in range(words.shape[0]):
            values[i] = words[i, n]
        status = add(
            bodies, facts, run, predicate, values, terms, 0, keys, values[words.shape[0] - 1], 1
        )
        if status != DONE:
            return status
        progress[OPERATIONS] += 1
    return DONE


@kernel
def relink(bodies: Bodies, facts: Facts, keys: Words, size: int, first: int, part: int, parts: int):
    """Rebuild the chains that a part owns, of the first `size` facts; keys[P] are the key words of
    a predicate.

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
def hash_rows(
    data: Words, rows: int, count: int, width: int, columns: Words, table: int, mask: int
):
    """Fill a hash table of rows sorted by some columns: it holds the number of each key's first
    row, from 1.
    """
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


@kernel
def join_runs(address: int, values: Words, starts: Words, joined: Words):
    """Join each run of values, run r being values[starts[r] : starts[r + 1]], into joined[r]; no
    run is empty.
    """
    runs = starts.shape[0]
    for r in range(runs):
        end = starts[r + 1] if r + 1 < runs else values.shape[0]
        value = values[starts[r]]
        for i in range(starts[r] + 1, end):
            value = call_operator(address, value, values[i])
        joined[r] = value
