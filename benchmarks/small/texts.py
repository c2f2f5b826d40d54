"""A keystroke in a text that several people write: a row that comes, or one that says it is
removed, under eleven rules that say which letter follows which.

The edits are those of the CRDT benchmark of the collection `dynamic-datalog` (`--text FOLDER` with
insert.parquet and remove.parquet), or else made up: runs of letters that follow one another.
"""

from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import ivm
from pagestore_tools.bench.harness import Row, Side

RULES = """insert[e] = p -> int(e), int(p). removed(e) -> int(e).
firstChild[p] = c <- agg<<c = max(e)>> insert[e] = p.
nextSibling[x] = y <- agg<<y = max(s)>> insert[x] = p, insert[s] = p, s < x.
nextAbove[x] = n <- nextSibling[x] = n.
nextAbove[x] = n <- insert[x] = p, !(nextSibling[x] = _), nextAbove[p] = n.
next[x] = n <- firstChild[x] = n.
next[x] = n <- insert[x] = _, !(firstChild[x] = _), nextAbove[x] = n.
hasValue(x) <- insert[x] = _, !removed(x).
skipBlank[x] = y <- next[x] = y, hasValue(y).
skipBlank[x] = y <- next[x] = z, !hasValue(z), skipBlank[z] = y.
nextVisible[x] = y <- hasValue(x), skipBlank[x] = y."""
# above each number of a writer: an element's number is its time's, then its writer's
NODES = 1 << 16
TYPED = 2_000  # letters that come one at a time, at the end
Edits = tuple[np.ndarray, np.ndarray, np.ndarray]  # elements, their parents; those that go


def keystrokes(about: str, folder: Path, text: Path | None, quick: bool) -> Row:
    """Return the row of a keystroke; a side of prepared edits, and one of transactions."""
    elements, parents, gone = _read(text) if text else _made_up(3_000 if quick else 30_000)
    typed = 100 if quick else TYPED
    events = [*_events(elements[-typed:], parents[-typed:], {*gone.tolist()})]
    before = gone[~np.isin(gone, elements[-typed:])]
    sides = []
    for name, how in {"ivm": _in_transactions, "ivm, prepared": _prepared}.items():
        workspace = ivm.open(folder / f"text of {name}.pages", sync="off", threads=1)
        workspace.install(RULES, name="text")
        with workspace.transaction() as txn:
            txn.insert("insert", np.stack([elements[:-typed], parents[:-typed]], 1).tolist())
            txn.insert("removed", [(e,) for e in before.tolist()])
        sides.append(Side(name, how(workspace, cycle(_there_and_back(events)))))
    name = f"{about} of {len(elements):,} letters"
    return Row(name, sides, len(events) // 2, stretch=len(events) // 4)


def _read(folder: Path) -> Edits:
    """Read the edits of a text, in the order of their time."""
    inserted, removed = (
        np.array(pq.read_table(folder / f"{name}.parquet").columns, np.int64)
        for name in ("insert", "remove")
    )
    elements, parents = (row[0] * NODES + row[1] for row in (inserted[:2], inserted[2:]))
    order = np.argsort(elements)
    return elements[order], parents[order], removed[0] * NODES + removed[1]


def _made_up(letters: int) -> Edits:
    """Make up a text: one letter in ten follows any, others the one before; two in five go."""
    random = np.random.default_rng(1)
    elements = np.arange(1, letters + 1)
    parents = np.where(random.random(letters) < 0.1, random.integers(0, elements), elements - 1)
    return elements, parents, elements[random.random(letters) < 0.4]


def _events(
    elements: np.ndarray, parents: np.ndarray, gone: set[int]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield rows that come, a letter's removal after the letter."""
    for element, parent in zip(elements.tolist(), parents.tolist(), strict=True):
        yield "insert", (element, parent)
        if element in gone:
            yield "removed", (element,)


def _there_and_back(
    events: list[tuple[str, tuple[int, ...]]],
) -> list[tuple[str, str, tuple[int, ...]]]:
    """Return edits that type a text, then take it back from its end, as often as it is wanted."""
    return [("insert", *event) for event in events] + [("delete", *e) for e in events[::-1]]


def _in_transactions(workspace: ivm.Workspace, edits: Iterator) -> Callable[[], None]:
    def run() -> None:
        action, relation, row = next(edits)
        with workspace.transaction() as txn:
            getattr(txn, action)(relation, [row])

    return run


def _prepared(workspace: ivm.Workspace, edits: Iterator) -> Callable[[], None]:
    put = {relation: workspace.prepare(relation) for relation in ("insert", "removed")}

    def run() -> None:
        action, relation, row = next(edits)
        getattr(put[relation], action)(*row)
        put[relation].commit()

    return run
