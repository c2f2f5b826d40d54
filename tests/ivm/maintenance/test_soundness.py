"""Matched rules under edits that are chosen to collide: after each transaction the views equal the
slow truth, and the intervals that are kept are sound.

What is sound `ivm/check/soundness.py` says: a value that a level refuses is in an interval of an
atom that refuses it, and one that it accepts in an interval of each atom.
"""

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from ivm.engine import schedule, sweep
from ivm.errors import ConstructError
from pagestore.sorting.tuples import FEW
from tests.support.mirror import Mirror
from tests.support.programs.amounts import TIMES, times
from tests.support.strategies import DECLARATIONS, FULL, STORED, programs

TRANSACTIONS = 8 if TIMES == 1 else 40  # of a program; making one costs as much as ten


class Edits:
    """Draws transactions over the rows that there are; `rows` are those of each relation."""

    def __init__(self, seed, names):
        self.random, self.rows = random.Random(seed), {name: set() for name in names}

    def transaction(self, least=1, most=3):
        """Some kinds of edits in one transaction."""
        kinds = [self.anything, self.witness, self.ends, self.both_sides, self.value, self.group]
        found = [
            edit
            for kind in self.random.choices(kinds, k=self.random.randint(least, most))
            for edit in kind()
        ]
        for name, row, inserted in found:
            rows, (keys, is_function) = self.rows[name], STORED[name]
            if is_function or not inserted:
                rows -= {one for one in rows if one[:keys] == row[:keys]}
            if inserted:
                rows.add(row)
        return found

    def anything(self):
        name = self.random.choice([*self.rows])
        width = sum(STORED[name])
        return [
            (name, tuple(self.random.choices(range(4), k=width)), self.random.random() < 0.7)
            for _ in range(3)
        ]

    def some(self, functions=(False, True)):
        """A relation and one of its rows, if there are any."""
        there = [
            (name, row)
            for name, rows in self.rows.items()
            for row in sorted(rows)
            if STORED[name][1] in functions
        ]
        return [self.random.choice(there)] if there else []

    def witness(self):
        """Return the deletion of one of the rows."""
        return [(name, row, False) for name, row in self.some()]

    def ends(self):
        """Return the insertion of a row that differs from another by one."""
        found = []
        for name, row in self.some():
            column = self.random.randrange(len(row))
            beside = row[column] + self.random.choice([-1, 1])
            found.append((name, (*row[:column], beside, *row[column + 1 :]), True))
        return found

    def both_sides(self):
        """A row goes and comes back turned around, as both sides of a self-join may read it."""
        return [
            edit
            for name, row in self.some(functions=(False,))
            for edit in ((name, row, False), (name, row[::-1], True))
        ]

    def value(self):
        """A function's value changes and its key does not."""
        return [
            (name, (*row[:-1], row[-1] + 1), True) for name, row in self.some(functions=(True,))
        ]

    def group(self):
        """All rows with a first value go; half of the time they come back at once."""
        found = []
        for name, chosen in self.some():
            rows = [row for row in sorted(self.rows[name]) if row[0] == chosen[0]]
            found += [(name, row, False) for row in rows]
            found += [(name, row, True) for row in rows] if self.random.random() < 0.5 else []
        return found


@settings(max_examples=times(12), suppress_health_check=list(HealthCheck))
@given(programs(FULL), st.integers(0, 1 << 30), st.sampled_from([FEW, FEW, 0]))
def test_intervals_are_sound_after_each_transaction(text, seed, few):
    """Small changes are matched by a kernel, with no `few` by Python; indices are swept whenever
    they grow, a few rows at a time.
    """
    rules = text.removeprefix(DECLARATIONS)
    edits = Edits(seed, [name for name in STORED if name + "(" in rules or name + "[" in rules])
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "FEW", few)
        for module, name, value in (
            (schedule, "GROWN", 0),
            (sweep, "GROWN", 0),
            (sweep, "BATCH", 4),
        ):
            patch.setattr(module, name, value)
        try:
            mirror = Mirror(Path(folder) / "store.pages", text, maintenance="match")
        except ConstructError:
            reject()
        for number in range(TRANSACTIONS):
            mirror.change(edits.transaction() if number else edits.transaction(30, 30))
            edits.rows = {name: {*mirror.workspace[name]} for name in edits.rows}
            assert mirror.workspace.check() == []
        mirror.close()


CONSTRUCTS = {  # of the paper's Figure 1, and what comes with it
    "join": "v(x, z) <- e(x, y), r(y, z), t(x, z, y).",
    "existential": "v(x) <- e(x, y), r(z, y), a(z).",
    "function": "v(x, w) <- e(y, x), f[y] = w, r(w, x).",
    "disjunction": "v(x) <- a(x), (e(x, y) ; r(y, x)), a(y).",
    "negation": "v(x, z) <- e(x, y), r(z, y), !(e(y, z), r(x, z)).",
    "disjunction in a negation": "v(x, y) <- e(x, y), r(z, y), !(e(y, x) ; t(x, y, w), a(w)).",
    "negation in a disjunction": "v(x) <- a(x), (e(x, y), r(z, y), !e(y, z) ; r(y, x), e(z, y), a(z)).",
    "heads": "v(x, y), w(y) <- e(x, y), r(z, y), e(z, x).",
    "comparison": "v(x, y) <- e(x, z), r(y, z), x < y, a(z).",
    "computed value": "v(x, n) <- e(x, y), r(z, y), n = x + z, a(n).",
    "self-join": "v(x, y, z) <- e(x, y), e(z, y), e(z, x).",
    "view on a view": "v(x, z) <- e(x, y), r(z, y). w(x) <- v(x, y), v(y, x), a(x).",
    "aggregate": "v[x] = n <- agg<<n = count()>> e(x, y), r(z, y), e(z, x).",
    "constant": "v(x) <- e(x, y), r(1, y), e(y, 2).",
}


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_each_construct_is_matched_with_an_interval_for_each_operation(construct, tmp_path):
    rules = CONSTRUCTS[construct]
    edits = Edits(7, [name for name in STORED if f"{name}(" in rules or f"{name}[" in rules])
    mirror = Mirror(tmp_path / "store.pages", DECLARATIONS + rules, maintenance="match")
    for number in range(times(5)):
        mirror.change(edits.transaction() if number else edits.transaction(30, 30))
        edits.rows = {name: {*mirror.workspace[name]} for name in edits.rows}
        assert mirror.workspace.check() == []
    assert mirror.workspace.stats("v")["sensitivity_rows"] > 0
    assert "granularity" not in mirror.workspace.explain("v")
    mirror.close()
