"""Rules and changes on which probing and matching differ: how much each reads of what a change
falls on.

    celebrity   reach(s, b) <- premium(s), follows(s, b), sponsored(b).
                she becomes sponsored, whom many follow, none of them premium: the trace never
                reached her, and a probe reads both lists
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from pagestore_tools.bench import graphs

Edit = tuple[str, str, Any]  # insert or delete, a relation, columns
FAR = 10**7  # numbers of hubs, beyond those of all others
HUBS = 3


class Family(NamedTuple):
    """A rule with the view q, what it reads, and endless changes of that."""

    declared: str
    rule: str
    facts: Mapping[str, Any]
    edits: Callable[[], Iterator[Edit]]


def _in_turns(
    relation: str, rows: np.ndarray, turns: Iterable[str] = ("insert", "delete")
) -> Iterator[Edit]:
    """Yield that each row comes and goes, or goes and comes, one after the other, without end."""
    while True:
        for i in range(rows.shape[1]):
            for edit in turns:
                yield edit, relation, [*rows[:, i : i + 1]]


HUB_NUMBERS = FAR + np.arange(HUBS)[None]


def celebrity(n: int) -> Family:
    """Premium users follow three of n others each; n who are not premium follow each celebrity."""
    even = np.arange(0, 2 * n, 2)
    ends = [np.repeat(even, 3), np.random.default_rng(1).integers(0, n, 3 * n)]
    followers = [np.tile(even + 1, HUBS), np.repeat(HUB_NUMBERS[0], n)]
    return Family(
        "premium(s) -> int(s). follows(s, b) -> int(s), int(b). sponsored(b) -> int(b).",
        "q(s, b) <- premium(s), follows(s, b), sponsored(b).",
        {
            "premium": [even],
            "follows": [np.concatenate(pair) for pair in zip(ends, followers, strict=True)],
            "sponsored": [np.arange(0, n, 50)],
        },
        lambda: _in_turns("sponsored", HUB_NUMBERS),
    )


def junction(n: int) -> Family:
    """A route changes at a place that is open; n legs lead to each hub, but none from a home."""
    homes = np.arange(0, 2 * n, 2)
    near = np.random.default_rng(2).integers(0, n, 2 * n)
    to_hubs = [np.tile(homes + 1, HUBS), np.repeat(HUB_NUMBERS[0], n)]
    return Family(
        "home(a) -> int(a). leg(a, h) -> int(a), int(h). exit(h, b) -> int(h), int(b). "
        "open(h) -> int(h).",
        "q(a, h, b) <- home(a), leg(a, h), open(h), exit(h, b).",
        {
            "home": [homes],
            "leg": [
                np.concatenate([np.repeat(homes, 2), to_hubs[0]]),
                np.concatenate([near, to_hubs[1]]),
            ],
            "exit": [
                np.concatenate([np.arange(n), HUB_NUMBERS[0]]),
                np.concatenate([np.arange(n) + 1, HUB_NUMBERS[0] + 1]),
            ],
            "open": [np.arange(0, n, 20)],
        },
        lambda: _in_turns("open", HUB_NUMBERS),
    )


def followed(n: int) -> Family:
    """As `celebrity`, but those come and go who are followed by a few, all of them premium."""
    family, some = celebrity(n), np.random.default_rng(3).integers(0, n, (1, 100))
    return family._replace(edits=lambda: _in_turns("sponsored", some | 1))


def triangles(edges: np.ndarray) -> Family:
    """Edges of a graph go and come back, and its triangles are listed."""
    chosen = edges[:, np.random.default_rng(4).permutation(edges.shape[1])[:1000]]
    return Family(
        "edge(x, y) -> int(x), int(y).",
        "q(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).",
        {"edge": [*edges]},
        lambda: _in_turns("edge", chosen, ("delete", "insert")),
    )


def of_hubs(edges: np.ndarray) -> Family:
    """The neighbours of those with the most edges are watched, and they are not: who of the
    watched is near two hubs of which the later comes and goes.
    """
    both = np.concatenate([edges, edges[::-1]], axis=1)
    hubs = np.argsort(np.bincount(both[0]))[-HUBS:]
    near = both[1, np.isin(both[0], hubs)]
    far = np.setdiff1d(both[0], near)
    return Family(
        "watched(s) -> int(s). edge(x, y) -> int(x), int(y). chosen(b) -> int(b).",
        "q(s, b) <- watched(s), edge(s, b), chosen(b).",
        {"watched": [far], "edge": [*both], "chosen": [far[::50]]},
        lambda: _in_turns("chosen", hubs[None]),
    )


MADE: dict[str, Callable[[int], Family]] = {
    "celebrity": celebrity,
    "junction": junction,
    "followed": followed,
    "even graph": lambda n: triangles(graphs.even(n)),
}
REAL = {"triangles": triangles, "hubs": of_hubs}
