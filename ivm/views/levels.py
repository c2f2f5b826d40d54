"""Levels of detail: choose the groups of a rule's aggregates that share one state, and the order of its key.

    h[c, m] = a, h1[m] = b, h0[] = d <- agg<<a = max(x), b = max(x), d = max(x)>> r(c, m, x).

    state (m, c, x; eta)       h[c, m] the last record of (m, c)      h1[m], h0[] the greatest x of a range, by a scan

Groups form a chain if each has the variables of the next.  Its state has the key of the finest, ordered so that all
others are prefixes.  A coarser group repeats values of finer ones, so only operations that ignore repetition can use
it: extremes, and operators of semilattices.
"""

from typing import TypeAlias

from ivm.lang.ir import Var

Wanted: TypeAlias = tuple[str, tuple[Var, ...], tuple[Var, ...]]  # the kind of a state, a group's key, a value


def chains(wanted: list[Wanted | None], serving: list[bool]) -> dict[Wanted, tuple[Var, ...]]:
    """Map each group that shares a state with others to the key of that state; `serving` says for each aggregate
    whether it can be computed from finer groups."""
    found: dict[Wanted, tuple[Var, ...]] = {}
    distinct = [one for one in dict.fromkeys(wanted) if one and len({*one[1]}) == len(one[1])]
    free = {*distinct} - {one for one, serves in zip(wanted, serving, strict=True) if one and not serves}
    left = sorted(distinct, key=lambda one: (-len(one[1]), one in free))
    while left:
        chain = [left.pop(0)]
        for one in left:
            if one in free and one[::2] == chain[0][::2] and _fits(one, chain, chain[0] in free):
                chain.append(one)
        left = [one for one in left if one not in chain]
        if len(chain) > 1:
            levels = _key(chain) if chain[0] in free else chain[0][1]
            found |= dict.fromkeys(chain, levels)
    return found


def _fits(one: Wanted, chain: list[Wanted], free: bool) -> bool:
    """Return whether a group may be the next in a chain.  The order of a key that is not `free` is fixed."""
    finer = chain[-1][1] if free else chain[0][1][: len(one[1])]
    return {*one[1]} <= {*finer}


def _key(chain: list[Wanted]) -> tuple[Var, ...]:
    """Return the variables of the finest group, ordered so that those of each coarser one come first."""
    return tuple(dict.fromkeys(v for _, group, _ in reversed(chain) for v in group))
