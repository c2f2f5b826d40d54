"""A round of a recursion in memory whose queued facts threads share. No thread writes what another
one reads.

    queued  (1, 2)  thread 0    puts aside   (1, 3)  (1, 7)         `propose`: facts are read only
            (1, 9)  thread 1                 (1, 7)  (1, 8)
    slots   0 to 63 thread 0    chooses      (1, 7), once           `choose`: one of each key
            64, ..  thread 1                 (1, 3)  (1, 8)
    rows    from 50 thread 0    adds         50: (1, 7)             `place`, then `chain`
            from 51 thread 1                 51: (1, 3), 52: (1, 8)

Each fact belongs to the thread that owns its slot in the table of facts, or its number; each chain
likewise.
"""

from ivm.ways.recursion.kernels.rounds import (
    CHAINED,
    CHOSEN,
    DONE,
    FACT,
    FOLD,
    LOW,
    MOST_KEYS,
    NEXT,
    PREDICATE,
    RANK,
    RING,
    SIZE,
    SLOT,
    SPAN,
    THERE,
    WAIT,
    WAITS,
    Bodies,
    Facts,
    Run,
    cost_of,
    join,
    link,
)
from pagestore.compiled import Table, Words, kernel

BLOCK = 16  # queued facts that a thread takes at a time


@kernel
def propose(bodies: Bodies, facts: Facts, run: Run, part: int, parts: int, waiting: int):
    """Join one part of the first queued facts, from progress[NEXT] on, and put aside the facts
    derived.

    Return DONE, or why it stopped. After GROW call it again once the facts put aside are added.
    """
    progress = run.progress
    own, ring = facts.rows.shape[1] - FACT, facts.ring.shape[0]
    while progress[NEXT] < waiting:
        place = progress[RING] + progress[NEXT]
        fact = facts.ring[place - ring if place >= ring else place]
        predicate = facts.rows[fact, own + PREDICATE]
        for b in range(bodies.of[predicate], bodies.of[predicate + 1]):
            status = join(bodies, facts, run, b, fact)
            if status != DONE:
                return status
        if progress[FOLD]:
            facts.rows[fact, own + WAITS] = 0
        progress[NEXT] += 1
        if progress[NEXT] % BLOCK == 0:
            progress[NEXT] += BLOCK * (parts - 1)
    return DONE


@kernel
def choose(facts: Facts, progress: Words, aside: Table, counts: Table, again: Words, part: int):
    """Choose one of each key among the facts that were put aside for a part, with the best value.

    Of aside[P * P * n, W] part p put counts[p, q] facts for part q. Existing facts get a better
    value, and those to be queued again are appended to again[n]. Return how many were chosen, and
    how many are queued again.
    """
    own, fold, parts = facts.rows.shape[1] - FACT, progress[FOLD], counts.shape[0]
    room = aside.shape[0] // (parts * parts)
    chosen = waiting = 0
    for p in range(parts):
        first = (p * parts + part) * room
        for n in range(first, first + counts[p, part]):
            row = aside[n, own + THERE] - 1
            if row < 0:
                row = twin(facts, progress, aside, n)
                if row < 0:
                    aside[n, own + THERE] = CHOSEN
                    chosen += 1
                elif fold and cost_of(aside[n, own - 1], fold) < cost_of(aside[row, own - 1], fold):
                    aside[row, own - 1], aside[row, own + RANK] = (
                        aside[n, own - 1],
                        aside[n, own + RANK],
                    )
            elif cost_of(aside[n, own - 1], fold) < cost_of(facts.rows[row, own - 1], fold):
                facts.rows[row, own - 1], facts.rows[row, own + RANK] = (
                    aside[n, own - 1],
                    aside[n, own + RANK],
                )
                if not facts.rows[row, own + WAITS]:
                    facts.rows[row, own + WAITS] = 1
                    again[waiting] = row
                    waiting += 1
    return chosen, waiting


@kernel
def twin(facts: Facts, progress: Words, aside: Table, n: int):
    """Return the row put aside that was chosen for the key of row n; if none, enter row n in the
    table, and return -1.

    The table refers to a row put aside by a negative number, until the row is placed.
    """
    own = facts.rows.shape[1] - FACT
    slot = aside[n, own + SLOT]
    if progress[SPAN] and not progress[FOLD]:
        if (facts.dense[slot >> 6] >> (slot & 63)) & 1:
            return n
        facts.dense[slot >> 6] |= 1 << (slot & 63)
        return -1
    if progress[SPAN]:
        if facts.dense[slot]:
            return -1 - facts.dense[slot]
        facts.dense[slot] = -1 - n
        return -1
    found = facts.begins[0, slot]
    keys = own - 1 if progress[FOLD] else own
    while found < 0:
        row = -1 - found
        same = aside[row, own + PREDICATE] == aside[n, own + PREDICATE]
        for i in range(keys):
            same &= aside[row, i] == aside[n, i]
        if same:
            return row
        found = aside[row, own + CHAINED]
    aside[n, own + CHAINED] = facts.begins[0, slot]
    facts.begins[0, slot] = -1 - n
    return -1


@kernel
def place(facts: Facts, progress: Words, aside: Table, counts: Table, row: int, part: int):
    """Add the chosen facts of a part, from a row on, and queue them."""
    own, ring, parts = facts.rows.shape[1] - FACT, facts.ring.shape[0], counts.shape[0]
    room = aside.shape[0] // (parts * parts)
    behind = progress[RING] + progress[WAIT] - progress[SIZE]
    for p in range(parts):
        first = (p * parts + part) * room
        for n in range(first, first + counts[p, part]):
            if aside[n, own + THERE] != CHOSEN:
                continue
            for i in range(own + WAITS):
                facts.rows[row, i] = aside[n, i]
            facts.rows[row, own + WAITS] = 1
            slot = aside[n, own + SLOT]
            if not progress[SPAN]:
                found = facts.begins[0, slot]
                while found < 0:
                    found = aside[-1 - found, own + CHAINED]
                facts.nexts[0, row] = found
                facts.begins[0, slot] = row + 1
            elif progress[FOLD]:
                facts.dense[slot] = row + 1
            facts.ring[(behind + row) % ring] = row
            row += 1


@kernel
def learn(facts: Facts, progress: Words, keys: Words, first: int):
    """Set the bits of all facts from a row on in a thread's own table; keys[p] counts the key
    words of predicate p.
    """
    own, low, span = facts.rows.shape[1] - FACT, progress[LOW], progress[SPAN]
    for row in range(first, progress[SIZE]):
        number = predicate = facts.rows[row, own + PREDICATE]
        for i in range(progress[MOST_KEYS]):
            number = number * span + (facts.rows[row, i] - low if i < keys[predicate] else 0)
        facts.dense[number >> 6] |= 1 << (number & 63)


@kernel
def chain(bodies: Bodies, facts: Facts, first: int, last: int, part: int, parts: int):
    """Put facts into the chains that a part owns."""
    for row in range(first, last):
        link(bodies, facts, row, part, parts)
