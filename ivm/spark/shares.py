"""Shares of variables: the integers whose product is at most the number of cells and whose cost is least.

    tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).    64 cells, n edges    shares 4 4 4, 3 n / 16 rows in a cell

A cell holds size / (product of the shares of its variables) rows of an atom. The search tries every vector of integers,
as Chu, Balazinska and Suciu do (*From Theory to Practice: Efficient Join Query Evaluation in a Parallel Database
System*, SIGMOD 2015), rather than round the real solution. The cost of a vector is, in rows of one cell,

    the rows that the cell holds of all atoms, plus those of them that are sent there, plus the head's that it sends
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

from ivm.lang.ir import Atom, Disjunct, Var, atoms
from ivm.spark.routing import Dimension, Distribution

VARIABLES_MAX = 6  # that may have a share; further variables of a conjunction have none
Hot = Mapping[tuple[str, int], frozenset[int]]  # hashes of the hot values of a relation's column


class Shares(NamedTuple):
    """Shares by variable, each at least 2, in the order of the cube's dimensions; and their cost."""

    of: dict[str, int]
    held: float  # rows of all atoms in a cell
    cost: float

    @property
    def cells(self) -> int:
        """The number of cells that get rows."""
        return prod(self.of.values())


def choose_shares(
    body: Disjunct,
    sizes: Mapping[str, float],
    cells: int,
    first: Sequence[str] = (),
    is_there: Callable[[Atom, dict[str, int]], bool] = lambda atom, shares: False,
    sent: Callable[[dict[str, int]], float] = lambda shares: 0.0,
    among: Collection[str] | None = None,
) -> Shares:
    """Return the shares of least cost; of equals, those with the most cells, then with larger shares of `first`.

    O(cells * (log cells)^variables).
    `is_there(atom, shares)` says whether an atom's rows are distributed that way already, `sent(shares)` how many rows
    of the head all cells send with these shares. If `among` is given, only these variables have shares.
    """
    held_of = [(atom, {v.name for v in atom.terms if isinstance(v, Var)}) for atom in atoms(body)]
    best: tuple[float, int, list[int]] | None = None
    chosen = Shares({}, 0.0, 0.0)
    names = _variables(body, first, among)
    for shares in _vectors(names, cells):
        used = prod(shares.values())
        held = received = 0.0
        for atom, own in held_of:
            rows = sizes[atom.predicate] / prod(share for name, share in shares.items() if name in own)
            held += rows
            received += 0 if is_there(atom, shares) else rows
        cost = held + received + sent(shares) / used
        rank = (cost, -used, [-shares.get(name, 1) for name in names])
        if best is None or rank < best:
            best, chosen = rank, Shares(shares, held, cost)
    return chosen


def distribution_of(
    atom: Atom, shares: Mapping[str, int], hot: Mapping[str, tuple[int, ...]], spread: set[str]
) -> Distribution:
    """Return the distribution of an atom's rows; `hot` has hot hashes of variables, `spread` those it spreads."""
    columns = {term.name: place for place, term in reversed([*enumerate(atom.terms)]) if isinstance(term, Var)}
    return tuple(
        Dimension(share, (columns[name],), hot.get(name, ()), name in spread and bool(hot.get(name)))
        if name in columns
        else Dimension(share, ())
        for name, share in shares.items()
    )


def hot_of(
    body: Disjunct, shares: Mapping[str, int], sizes: Mapping[str, float], hot: Hot
) -> tuple[dict[str, tuple[int, ...]], dict[str, Atom]]:
    """Return the hot hashes of variables with shares, and for each the largest atom whose rows can be spread."""
    found: dict[str, tuple[int, ...]] = {}
    spreaders: dict[str, Atom] = {}
    for name in shares:
        hashes = {
            hash_
            for atom in atoms(body)
            for place, term in enumerate(atom.terms)
            if isinstance(term, Var) and term.name == name
            for hash_ in hot.get((atom.predicate, place), ())
        }
        able = [atom for atom in body if isinstance(atom, Atom) and Var(name) in atom.terms and len({*atom.terms}) > 1]
        if hashes and able:
            found[name] = tuple(sorted(hashes))
            spreaders[name] = max(able, key=lambda atom: sizes[atom.predicate])
    return found, spreaders


def _variables(body: Disjunct, first: Sequence[str], among: Collection[str] | None) -> list[str]:
    """Return the variables that may have shares, those in most atoms first; each is in an atom that is not negated."""
    counts = dict.fromkeys(variables_of(body) if among is None else variables_of(body).intersection(among), 0)
    for atom in atoms(body):
        for name in counts.keys() & {v.name for v in atom.terms if isinstance(v, Var)}:
            counts[name] += 1
    places = {name: place for place, name in reversed([*enumerate(first)])}
    return sorted(counts, key=lambda name: (-counts[name], places.get(name, len(places))))[:VARIABLES_MAX]


def variables_of(body: Disjunct) -> set[str]:
    """Return the variables of a conjunction's atoms, without those inside negations."""
    return {v.name for atom in body if isinstance(atom, Atom) for v in atom.terms if isinstance(v, Var)}


def _vectors(names: Sequence[str], cells: int) -> Iterator[dict[str, int]]:
    """Yield every choice of shares whose product is at most `cells`; shares of 1 are omitted."""
    if not names:
        yield {}
        return
    for share in range(1, cells + 1):
        for others in _vectors(names[1:], cells // share):
            yield ({names[0]: share} if share > 1 else {}) | others
