"""Tuples by hashes: their numbers, look-ups and sums are those of a dict, however far apart the
words are and however many rows there are.
"""

import numpy as np
import pytest

from ivm.join.groups import FAR, Lookup, Numbers, added, summed
from pagestore.host import WORD_MAX, WORD_MIN

SPANS = {"few": (0, 3), "many": (-500, 500), "all": (WORD_MIN, WORD_MAX)}


def drawn(span, columns, rows):
    """Tuples of which many are equal, the extreme words among them."""
    chance = np.random.default_rng(columns * rows + 1)
    some = chance.integers(*SPANS[span], (columns, max(1, rows // 3)), endpoint=True)
    some[:, :1] = WORD_MIN
    return some[:, chance.integers(0, some.shape[1], rows)]


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("columns", [1, 2, 5])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 1000])
def test_numbers_are_those_of_tuples_that_are_met_first(span, columns, rows):
    tuples = drawn(span, columns, rows)
    known = dict[tuple[int, ...], int]()
    expected = [known.setdefault(tuple(one), len(known)) for one in tuples.T.tolist()]
    made = Numbers(tuples)
    assert made.numbers.tolist() == expected
    assert tuples[:, made.firsts].T.tolist() == [list(one) for one in known]
    sought = np.concatenate([tuples, drawn(span, columns, rows) ^ 1], axis=1)
    assert made.find([*sought]).tolist() == [known.get(tuple(o), -1) for o in sought.T.tolist()]


def test_no_tuples_have_no_numbers():
    made = Numbers(np.empty((2, 0), np.int64))
    assert len(made.numbers) == len(made.firsts) == 0
    assert made.find([np.arange(3), np.arange(3)]).tolist() == [-1, -1, -1]


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_rows_of_a_key_are_next_to_each_other(span, columns):
    keys = drawn(span, columns, 900)
    lookup, places = Lookup(keys), dict[tuple[int, ...], list[int]]()
    for row, key in enumerate(keys.T.tolist()):
        places.setdefault(tuple(key), []).append(row)
    found = lookup.find([*keys])
    for row, key in enumerate(keys.T.tolist()):
        start, times = found.start[row], found.times[row]
        assert lookup.order[start : start + times].tolist() == places[tuple(key)]


@pytest.mark.parametrize("ascend", [True, False])
@pytest.mark.parametrize("columns", [1, 2])
def test_many_that_are_sought_are_addressed_directly(columns, ascend):
    """Where more keys are sought than there could be, each is one look-up in an array."""
    chance = np.random.default_rng(columns)
    keys = chance.integers(-70, 70, (columns, 60)) * (90 if columns == 1 else 1)
    keys = keys[:, np.lexsort(keys[::-1])] if ascend else keys
    lookup, rows = Lookup(keys), dict[tuple[int, ...], set[int]]()
    for row, key in enumerate(keys.T.tolist()):
        rows.setdefault(tuple(key), set()).add(row)
    for count, addressed in ((20, False), (20_000, True), (20, True)):
        sought = np.concatenate([keys, chance.integers(-9000, 9000, (columns, count))], axis=1)
        sought[:, -1] = WORD_MAX
        found = lookup.find([*sought])
        for key, start, times in zip(sought.T.tolist(), found.start, found.times, strict=True):
            assert {*lookup.order[start : start + times].tolist()} == rows.get(tuple(key), set())
        assert (len(lookup._place) > 0) == addressed


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("keys", [1, 2, 4])
@pytest.mark.parametrize("repeated", [True, False])
def test_sums_of_equal_keys(span, keys, repeated):
    """Of parts, and of rows of one; where few are equal, parts are left to be sorted."""
    chance = np.random.default_rng(keys)
    tuples = drawn(span, keys, 3000)
    if not repeated:
        tuples = np.unique(tuples, axis=1) ^ np.arange(2)[:, None, None] * 5
        tuples = np.unique(np.concatenate([*tuples], axis=1), axis=1)
    rows = np.concatenate([tuples, chance.integers(-9, 9, (2, tuples.shape[1]))])
    truth = dict[tuple[int, ...], np.ndarray]()
    for row in rows.T:
        key = tuple(row[:keys].tolist())
        truth[key] = truth.get(key, 0) + row[keys:]
    expected = [[*key, *sums.tolist()] for key, sums in sorted(truth.items())]
    assert summed(rows, keys, sorting=True).T.tolist() == expected
    found = added(np.array_split(rows, 3, axis=1), keys)
    assert found is not None or not repeated
    assert found is None or found.T.tolist() == expected
    rows[-1, 0] = FAR // rows.shape[1] + 1
    assert added(np.array_split(rows, 3, axis=1), keys) is None  # whose sums may exceed a word
