"""total: the sum of floats, exact and rounded once, bit for bit that of math.fsum whatever came
and went.
"""

import math
import re
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import ivm
from ivm.errors import RangeError
from ivm.join.groups import added, summed
from ivm.views.exact_sum import _rounded, parts_of, round_parts, split_floats
from pagestore.values.codec import float_values, float_words
from tests.support.mirror import Mirror
from tests.support.programs.amounts import times

BASE = "w[x, y] = v -> int(x), int(y), float(v). e(x) -> int(x)."
PROGRAMS = [
    "s[x] = t <- agg<<t = total(v)>> w[x, y] = v.",
    "s[] = t <- agg<<t = total(v)>> w[x, y] = v, !e(y). big(x, y) <- w[x, y] = v, s[] = t, v > t.",
    "s[y] = t <- agg<<t = total(d)>> w[x, y] = v, d = v * 0.1. r[] = m <- agg<<m = max(t)>> s[_] = "
    "t.",
]
FLOATS = st.floats(-1e300, 1e300).map(lambda v: v + 0.0) | st.sampled_from(
    [0.0, 0.1, 5e-324, -5e-324, 1e300, -1e300, 1.0]
)
KEYS = st.integers(0, 3)
EDITS = st.one_of(
    st.tuples(st.just("w"), st.tuples(KEYS, KEYS, FLOATS), st.booleans()),
    st.tuples(st.just("e"), st.tuples(KEYS), st.booleans()),
)


@pytest.mark.parametrize("program", PROGRAMS)
@settings(max_examples=times(15), suppress_health_check=list(HealthCheck))
@given(case=st.lists(st.lists(EDITS, max_size=10), min_size=1, max_size=6))
def test_totals_are_the_truth(program, case):
    with tempfile.TemporaryDirectory() as folder:
        mirror = Mirror(Path(folder) / "store.pages", f"{BASE} {program}")
        for edits in case:
            mirror.change(edits)
        mirror.reopen()
        mirror.workspace.verify("s")
        mirror.close()


@settings(max_examples=times(150))
@given(
    st.lists(
        st.floats(allow_nan=False, allow_infinity=False, min_value=-1e307, max_value=1e307),
        min_size=1,
        max_size=9,
    )
)
@example([2.0**500, -1.0, -(2.0**500), 5e-324])
@example([1.7976931348623157e308, 1e292, -1e292])
@example([1.0, 2.0**-53, 2.0**-1074])  # half an ulp, and the least that there is above it
def test_parts_add_up_to_the_rounded_sum(values):
    places, found, _ = split_floats(float_words(np.array(values)))
    together = sorted((p, sum(found[places == p].tolist())) for p in set(places.tolist()))
    total = float_values(round_parts("total", *np.array(together).T, np.array([0]), None)[0])[0]
    assert total == float(sum(map(Fraction, values))) and math.copysign(1, total) == (
        -1 if total < 0 else 1
    )


@settings(max_examples=times(60))
@given(
    groups=st.lists(
        st.lists(st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(-999, 999), min_size=1),
        min_size=1,
    ),
    scale=st.integers(0, 18),
    op=st.sampled_from(["total", "avg"]),
)
def test_ratios_of_integers_are_rounded_once(groups, scale, op):
    """Also next to groups that float64s hold no more."""
    places, amounts, starts = [], [], []
    for group in groups:
        starts.append(len(places))
        low, high = sum(n & (1 << 32) - 1 for n in group), sum(n >> 32 for n in group)
        places += [0, 1, *[512] * (op == "avg")]
        amounts += [low, high, *[len(group)] * (op == "avg")]
    words, there = round_parts(op, *map(np.array, (places, amounts, starts)), scale)
    below = [10**scale * (len(group) if op == "avg" else 1) for group in groups]
    assert there.all()
    assert float_values(words).tolist() == [
        float(Fraction(sum(group), n)) for group, n in zip(groups, below, strict=True)
    ]


OPERATIONS = "total", "avg", "variance", "var_pop", "stddev", "stddev_pop"
NUMBERS = {
    "floats": (None, [0.0, 0.1, -0.1, 5e-324, 1e300, -1e300, 2.0**-53, 1.0, 1e16, math.pi]),
    "extreme floats": (None, [1.7e308, 2.2250738585072014e-308, -5e-324, math.inf, math.nan]),
    "small integers": (0, [0, 1, -1, 7, 999, -998]),
    "decimals": (2, [0, 5, -5, 10**15, -(10**15), 2**31]),
    "great integers": (18, [2**62, -(2**62), 2**32, 2**32 - 1, 1, 0]),
}


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("kind", NUMBERS)
def test_a_kernel_rounds_as_python_does(op, kind):
    """Groups of one, of two and of many numbers together, also those that the kernel leaves."""
    scale, numbers = NUMBERS[kind]
    chance, squared, floats = np.random.default_rng(1), op not in ("total", "avg"), scale is None
    groups = [[one] for one in numbers]
    groups += [chance.choice(numbers, n).tolist() for n in (2, 2, 2, 3, 50)]
    for group in groups:
        words = float_words(np.array(group)) if floats else np.array(group, np.int64)
        sums = dict[int, int]()
        for places, parts, _ in parts_of(words, floats, squared, op != "total"):
            for place, part in zip(places.tolist(), parts.tolist(), strict=True):
                sums[place] = sums.get(place, 0) + part
        places, amounts = map(np.array, zip(*sorted(sums.items()), strict=True))
        repeated = np.tile(places, 3), np.tile(amounts, 3), np.arange(3) * len(places)
        try:
            expected = _rounded(op, sorted(sums.items()), scale)
        except RangeError as error:
            with pytest.raises(RangeError, match=re.escape(str(error))):
                round_parts(op, *repeated, scale)
            continue
        words, there = round_parts(op, *repeated, scale)
        assert there.tolist() == [expected is not None] * 3
        assert (
            words.tolist() == []
            if expected is None
            else np.array_equal(words, float_words(np.array([expected] * 3)))
        )


INTEGERS = st.sampled_from([0, 1, -1, 2**32 - 1, 2**32, -(2**32), 2**62, -(2**62)])


def told(words: np.ndarray, squared: bool) -> dict[int, tuple[int, int]]:
    """Return the sum of the parts at each place, and how many numbers have one."""
    found = dict[int, tuple[int, int]]()
    for places, parts, _ in parts_of(words, False, squared, True):
        for place, part in zip(places.tolist(), parts.tolist(), strict=True):
            total, times = found.get(place, (0, 0))
            found[place] = total + part, times + 1
    return found


@settings(max_examples=times(100))
@given(st.lists(st.integers(0, 2**33) | INTEGERS, min_size=1, max_size=6), st.booleans(), st.data())
def test_the_parts_of_integers_do_not_depend_on_those_beside(values, squared, data):
    cut = data.draw(st.integers(0, len(values)))
    whole, *some = (
        told(np.array(part, np.int64), squared) for part in (values, values[:cut], values[cut:])
    )
    for place, (total, times_) in whole.items():
        assert total == sum(part.get(place, (0, 0))[0] for part in some)
        assert times_ == sum(part.get(place, (0, 0))[1] for part in some)


@pytest.mark.parametrize("first", [None, 0, 1])
def test_a_key_that_is_broadcast_is_added_up_as_any_other(first):
    chance = np.random.default_rng(1)
    columns = [*chance.integers(0, 5, (2, 400)), *chance.integers(-9, 9, (2, 400))]
    if first == 1:  # columns that are not in one piece
        columns = [np.repeat(column, 2)[::2] for column in columns]
    same = np.broadcast_to(np.int64(7), 400)
    keys = [same] if first is None else [*columns[:first], same, *columns[first:2]]
    table = [*keys, *columns[2:]]
    found, truth = summed(table, len(keys)), dict[tuple[int, ...], np.ndarray]()
    for row in np.stack(table).T:
        key = (*row[: len(keys)].tolist(),)
        truth[key] = truth.get(key, 0) + row[len(keys) :]
    assert {(*row[: len(keys)],): [*row[len(keys) :]] for row in found.T.tolist()} == {
        key: sums.tolist() for key, sums in truth.items()
    }


@pytest.mark.parametrize("seed", range(times(12)))
def test_parts_are_added_up_by_key_in_order(seed):
    """Of few values, of which a key column may be one number in a part; far ones are left."""
    chance = np.random.default_rng(seed)
    keys, parts = int(chance.integers(1, 4)), list[np.ndarray]()
    for _ in range(chance.integers(1, 6)):
        rows = chance.integers(-3, 9, (keys + 2, int(chance.integers(1, 60))))
        rows[: int(chance.integers(0, keys + 1))] = chance.integers(-3, 9)
        parts.append(rows)
    found, truth = added(parts, keys), dict[tuple[int, ...], np.ndarray]()
    for row in np.concatenate(parts, axis=1).T:
        key = (*row[:keys].tolist(),)
        truth[key] = truth.get(key, 0) + row[keys:]
    assert found is not None
    assert found.T.tolist() == [[*key, *truth[key].tolist()] for key in sorted(truth)]
    assert added([*parts, np.full((keys + 2, 2), 2**61)], keys) is None, "sums beyond 64 bits"
    assert added([np.array([[0, 2**40], [1, 1]])], 1) is None, "too far apart"


def test_what_is_kept_knows_no_history(tmp_path):
    """The same summands, put in at once or after many others came and went: the same records
    apart.
    """
    rng = np.random.default_rng(3)
    left = [
        (int(x), int(y), float(v))
        for x, y, v in zip(*rng.integers(0, 30, (2, 80)), rng.normal(0, 1e5, 80), strict=True)
    ]
    kept = []
    for detour in (False, True):
        with ivm.open(tmp_path / f"{detour}.pages", sync="off") as ws:
            ws.install(f"{BASE} {PROGRAMS[0]}")
            for _ in range(5 if detour else 0):
                with ws.transaction() as txn:
                    values = 10.0 ** rng.integers(-300, 300, 50)
                    txn.set("w", [rng.integers(0, 30, 50), rng.integers(0, 30, 50), values])
            with ws.transaction() as txn:
                txn.delete("w", [row[:2] for row in ws["w"]])
            with ws.transaction() as txn:
                txn.set("w", left)
            with ws.store.snapshot() as snap:
                kept.append([batch.tolist() for batch in snap["$apart:s"].words()])
    assert kept[0] == kept[1]


def test_totals_beyond_floats(tmp_path):
    with ivm.open(tmp_path / "t.pages") as ws:
        ws.install(f"{BASE} {PROGRAMS[0]}")
        with (
            pytest.raises(RangeError, match="^s: a total is beyond the range of float64"),
            ws.transaction() as txn,
        ):
            txn.insert("w", [(1, 1, 1.7e308), (1, 2, 1.7e308)])
        with ws.transaction() as txn:
            txn.insert(
                "w",
                [(1, 1, 1.7e308), (1, 2, 1.7e308), (1, 3, -1.7e308), (2, 1, math.inf), (2, 2, 1.0)],
            )
        assert list(ws["s"]) == [(1, 1.7e308), (2, math.inf)]
        with (
            pytest.raises(RangeError, match="^s: a total of inf and -inf is not a number"),
            ws.transaction() as txn,
        ):
            txn.insert("w", [(2, 3, -math.inf)])
        with ws.transaction() as txn:
            txn.delete("w", [(2, 1)])
        assert list(ws["s"]) == [(1, 1.7e308), (2, 1.0)]
