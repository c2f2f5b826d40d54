"""Sorting tuples of words, against Python's own sort."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagestore.sorting import tuples
from pagestore.sorting.codes import drop_repeats, merge_order, sort_words
from pagestore.sorting.tuples import (
    DIGIT,
    ascending,
    coding_of,
    coding_within,
    columns_of,
    count_of,
    distinct,
    encoded,
    near_order,
    repeats,
    sort_order,
)

LEAST, GREATEST = -(2**63), 2**63 - 1
words = st.integers(-3, 3) | st.sampled_from([LEAST, GREATEST, LEAST + 1, GREATEST - 1, 1 << 31])


@pytest.mark.parametrize("merged", [tuples.MERGED, 0])
@given(
    st.integers(1, 4).flatmap(
        lambda k: st.lists(st.tuples(*[words] * k), max_size=150).map(lambda r: (k, r))
    )
)
def test_order_and_distinct(merged, case):
    width, rows = case
    columns = np.array(rows, np.int64).reshape(-1, width).T.copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuples, "MERGED", merged)
        assert sort_order(columns).tolist() == sorted(range(len(rows)), key=lambda i: rows[i])
        assert list(map(tuple, distinct(columns).T.tolist())) == sorted(set(rows))
    if rows:
        found = repeats([columns[:, : len(rows) // 2], columns[:, len(rows) // 2 :]], 7)
        counts = sorted((*row, times) for row, times in Counter(rows).items())
        assert (
            found is None or [tuple(row) for batch in found for row in batch.T.tolist()] == counts
        )


@pytest.mark.parametrize("n", [0, 1, 2, 5, 24, 133, 302, 1000])
@pytest.mark.parametrize("span", [2, 40, 1 << 62])
def test_merging_is_stable(n, span):
    columns = np.random.default_rng(n).integers(0, span, (2, n))
    for some in (columns, columns[:1], columns[:, np.lexsort(columns)]):
        found = np.empty(2 * n, np.int64)
        merge_order(some, found)
        assert (found[:n] == np.lexsort(some[::-1])).all()


@pytest.mark.parametrize("span", [2, 1 << 20, 1 << 22, 1 << 24, 1 << 40, 1 << 62])
@pytest.mark.parametrize("ends", [False, True])
def test_long_batches_however_wide(span, ends):
    rng = np.random.default_rng(span % 97)
    columns = rng.integers(0, span, (3, 2500))[:, rng.integers(0, 2500, 5000)]
    if ends:
        columns[0, ::7], columns[2, ::5] = LEAST, GREATEST
    expected = np.lexsort(columns[::-1])
    assert (sort_order(columns) == expected).all()
    assert (distinct(columns) == np.unique(columns, axis=1)).all()


@pytest.mark.parametrize("n", [1, 2, 60, 5000])
@pytest.mark.parametrize("spans", [(1, 1), (9, 1 << 40), (1 << 20, 1 << 43), (1 << 31, 1 << 31, 2)])
def test_near_is_exact_up_to_63_bits(n, spans):
    columns = np.stack(
        [np.random.default_rng(n).integers(0, span, n) - span // 2 for span in spans]
    )
    expected = np.lexsort(columns[::-1])
    assert (near_order(columns) == expected).all()
    assert (near_order(columns.take(expected, axis=1)) == np.arange(n)).all()


@pytest.mark.parametrize("ends", [(LEAST, GREATEST), (-5, GREATEST), (LEAST, 9)])
def test_near_goes_by_the_leading_bits_of_wider_tuples(ends):
    columns = np.random.default_rng(1).integers(*ends, (3, 2000))
    columns[0, :2] = ends
    tuples = near_order(columns)
    assert sorted(tuples.tolist()) == [*range(2000)]
    first = columns[0, tuples].astype(object)
    # its last bit is left out where it has 64
    assert (np.maximum.accumulate(first) - first).max() <= 1


@pytest.mark.parametrize("others", [0, 1, 2])
@pytest.mark.parametrize(
    "ends", [(LEAST + 1, 0), (LEAST + 1, GREATEST - 1), (LEAST, GREATEST, LEAST + 2, 1 << 62)]
)
def test_a_first_column_of_all_64_bits(ends, others):
    rng = np.random.default_rng(others)
    columns = np.stack([rng.integers(-9, 9, 1000), *rng.integers(0, 2, (others, 1000))])
    columns[0, : len(ends)] = ends
    assert (distinct(columns) == np.unique(columns, axis=1)).all()
    assert (sort_order(columns) == np.lexsort(columns[::-1])).all()


def test_no_bounds_do_not_widen_a_column():
    columns = np.array([[LEAST, 3, GREATEST], [5, GREATEST, 9]])
    coding = coding_of([columns])
    assert coding is not None
    assert coding.bits == 2 + 3  # three codes for 3, seven for 5 to 9
    wide = np.array([[LEAST + 1, GREATEST - 1], [0, (1 << 62) - 3]])
    assert coding_of([wide]) is not None
    wide[1, 1] += 1
    assert coding_of([wide]) is None


@pytest.mark.parametrize("bits", [20, 22, 30, 42, 50])
@pytest.mark.parametrize("bucket", [tuples.BUCKET, 7])
def test_parts_in_batches(bits, bucket, monkeypatch):
    """Tuples of one word, of two, and of more; in few buckets, and in many."""
    monkeypatch.setattr(tuples, "BUCKET", bucket)
    rng = np.random.default_rng(bits)
    parts = [rng.integers(0, 1 << bits, (3, n)) for n in (500, 0, 3000)]
    parts.append(parts[0])
    batches = list(ascending(parts, batch=100))
    assert max(rows.shape[1] for rows in batches) == (100 if bits < 50 else 3500)
    assert (
        np.concatenate(batches, axis=1) == np.unique(np.concatenate(parts, axis=1), axis=1)
    ).all()
    assert list(ascending([])) == []


@pytest.mark.parametrize("bits", [20, 22, 30, 41])
def test_parts_kept_as_words(bits):
    """Coded parts sort as the columns that they stand for, also beside plain columns and beside
    other codings.
    """
    rng = np.random.default_rng(bits)
    parts = [rng.integers(0, 1 << bits, (3, n)) for n in (500, 0, 3000)]
    parts[0][:, 0], parts[0][0, 1:3] = (1 << bits) - 1, (LEAST, GREATEST)
    coding = coding_within([0] * 3, [(1 << bits) - 1] * 3)
    assert coding is not None
    kept = [encoded(part, coding) for part in parts]
    assert all(count_of(part) == len(part.words) for part in kept)
    assert all((columns_of(a) == b).all() for a, b in zip(kept, parts, strict=True))
    assert [len(part.tails) for part in kept] == [len(part.words) * (bits > 21) for part in kept]
    expected = np.unique(np.concatenate(parts, axis=1), axis=1)
    other = encoded(parts[0], coding_of(parts[:1]))
    for some in kept, [*kept[:2], parts[2]], [parts[0], *kept[1:]], [*kept, other]:
        assert (np.concatenate([*ascending(some)], axis=1) == expected).all()


@pytest.mark.parametrize("bits", [(9, 20), (40, 20), (20, 40), (9, 60), (60, 60)])
def test_the_last_columns_may_come_in_order(bits):
    """The sort ignores the last `ordered` columns, wherever their codes lie in the words."""
    before, behind = bits
    rng = np.random.default_rng(before + behind)
    context = np.sort(rng.integers(0, 1 << behind, 3000))
    rows = np.stack([rng.integers(0, 1 << before, 3000) >> (before - 4), context])
    coding = coding_within([0, 0], [(1 << before) - 1, (1 << behind) - 1])
    assert coding is not None
    parts = [encoded(part, coding._replace(ordered=1)) for part in (rows[:, :1000], rows[:, 1000:])]
    parts[1] = parts[1]._replace(coding=parts[0].coding)
    assert (np.concatenate([*ascending(parts)], axis=1) == np.unique(rows, axis=1)).all()
    shuffled = [encoded(rng.permuted(rows, axis=1), parts[0].coding)]
    found = np.concatenate([*ascending(shuffled)], axis=1)
    assert (np.diff(found[0]) >= 0).all()
    assert (np.diff(found[1])[np.diff(found[0]) == 0] < 0).any()


@given(st.lists(st.integers(0, (1 << 63) - 1), max_size=200), st.integers(1, 63))
def test_words_digit_by_digit(drawn, bits):
    """Sorting skips digits that are the same in all words; then repeats are dropped."""
    shared = drawn[0] >> bits << bits if drawn else 0
    drawn = [shared | word & (1 << bits) - 1 for word in drawn]
    words, spare = np.array(drawn, np.int64), np.empty(len(drawn), np.int64)
    if sort_words(words, words[:0], spare, spare[:0], 0, bits, np.empty(1 << DIGIT, np.int64)):
        words = spare
    assert words.tolist() == sorted(drawn)
    assert words[: drop_repeats(words, words[:0])].tolist() == sorted(set(drawn))


@given(
    st.lists(st.integers(0, 9) | st.integers(0, (1 << 40) - 1), min_size=1, max_size=200),
    st.integers(8, 23),
)
def test_places_go_with_their_words(drawn, places):
    words, spare = np.array(drawn) << places | np.arange(len(drawn)), np.empty(len(drawn), np.int64)
    if sort_words(
        words, words[:0], spare, spare[:0], places, places + 40, np.empty(1 << DIGIT, np.int64)
    ):
        words = spare
    assert (words & (1 << places) - 1).tolist() == sorted(range(len(drawn)), key=drawn.__getitem__)
