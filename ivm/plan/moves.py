"""Moves of a lone row that only bounds ranges, such as the clock: which bindings come and go.

    fresh(id) <- event(id, ts), clock(now), ts >= now - 3600.        clock: 7200 becomes 7260

    gone      under the old moment, but not under the new one: now = 7200, ts < 7260 - 3600
    new       none: what the new moment's bound admits, the old one's did

A bound is narrower under one of the two moments. A move is a probe that begins with both, has the
bounds of its own one, and misses one bound under the other: nothing that lies in both ranges.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from ivm.join.kernels.tries import GE, LE
from ivm.plan.conjunction import Conjunction
from ivm.plan.plan import MIRRORED, Bound, Move, Plan, Trie


def moves_of(
    conjunction: Conjunction,
    probes: Iterable[Plan],
    needed: Collection[str],
    is_lone: Callable[[Trie], bool],
) -> Iterator[Move]:
    """Yield the moves of each relation of one row whose variable only bounds ranges of others: one
    for each bound, which is sought right after it.

    `needed` are the variables on which heads and filters depend.
    """
    for t, probe in enumerate(probes):
        level, ranged = probe.tries[t].levels[0], _ranged(conjunction, probe, t)
        name, before = probe.variables[level], probe.variables[:level]
        after = probe.variables[level + 1 :]
        if not ranged or name in needed or not is_lone(probe.tries[t]):
            continue
        for bounded in ranged:
            rest = (other for other in after if other != bounded)
            led = conjunction.plan((*before, name, bounded, *rest))
            for bound in led.bounds:
                if bound.level == level + 1 and level in dict(bound.others):
                    rises = (bound.kind == GE) == (bound.others[0][1] > 0)
                    yield Move(t, rises, _missing(led, t, bound))


def order_of(move: Move) -> tuple[str, ...]:
    """Return the key order of a move, as it is saved."""
    second = move.plan.tries[move.trie].levels[1]
    return (*move.plan.variables[:second], *move.plan.variables[second + 1 :])


def _ranged(conjunction: Conjunction, probe: Plan, t: int) -> list[str]:
    """Return the variables of which trie t of its probe only bounds ranges; none if it does more."""
    trie, fixed, level = probe.tries[t], conjunction.equal, probe.tries[t].levels[0]
    bounds = [b for b in probe.bounds if b.level == level or level in dict(b.others)]
    ranged = [*dict.fromkeys(probe.variables[b.level] for b in bounds)]
    only_bounds = (
        trie.levels == (level,)
        and not trie.negated
        and not any(read.trie == t for read in probe.reads)
        and not any(level in other.levels for other in probe.tries if other is not trie)
        and all(b.kind in (GE, LE) and len(b.others) == 1 for b in bounds)
        and all(conjunction.holding[name] and name not in fixed for name in ranged)
        and fixed.keys() >= {*probe.variables[:level]}
    )
    return ranged if only_bounds else []


def _missing(probe: Plan, t: int, bound: Bound) -> Plan:
    """Return a probe with a level more, for another value of that of trie t, under which its
    bindings miss a bound.
    """
    ((level, sign),) = bound.others

    def moved(at: int) -> int:
        return at + (at > level)

    bounds = [
        b._replace(level=moved(b.level), others=tuple((moved(at), s) for at, s in b.others))
        for b in probe.bounds
    ]
    past = bound.constant + (-1 if bound.kind == GE else 1)
    bounds.append(Bound(level + 2, MIRRORED[bound.kind], ((level + 1, sign),), past))
    tries = [replace(trie, levels=tuple(map(moved, trie.levels))) for trie in probe.tries]
    tries[t] = replace(tries[t], levels=(level, level + 1))
    names = probe.variables
    return replace(
        probe,
        variables=(*names[: level + 1], f"{names[level]}'", *names[level + 1 :]),
        tries=(*tries,),
        bounds=(*bounds,),
    )
