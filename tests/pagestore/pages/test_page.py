"""Columns of every width in and out of a page, and searches on them, against a sorted list."""

from bisect import bisect_left, bisect_right

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pagestore.pages.build import write_page
from pagestore.pages.layout import ENTRY_COUNT, HEADER, Entries, FreshPage
from pagestore.pages.page import field, gallop, lower, run_end, unpack
from pagestore.runtime.kernel import TypedKernel
from pagestore.trees.kernels.compare import equal_values
from pagestore.trees.kernels.lookup import lower_far

PAGE_WORDS = 512
WIDTHS = [0, 1, 2, 7, 8, 31, 32, 33, 56, 57, 58, 59, 63, 64]


@st.composite
def columns(draw):
    """Draws a sorted column of exactly `width` bits, anywhere in the range of words, and a short
    column behind it.
    """
    width = draw(st.sampled_from(WIDTHS))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(2, min(400, 64 * 450 // max(1, width))))
    low = draw(st.sampled_from([-(1 << 63), (1 << 63) - (1 << width), min(-1 << width >> 1, 0), 0]))
    low = min(low, (1 << 63) - (1 << width))
    spread = [int.from_bytes(random.bytes(8)) % (1 << width) for _ in range(n - 2)]
    return width, sorted(low + offset for offset in [0, (1 << width) - 1, *spread])


def page_of(values):
    """The third page of an arena, and its first word."""
    node = np.array([values, range(len(values))], np.int64)
    arena = np.full(4 * PAGE_WORDS, -1)
    TypedKernel(write_page, FreshPage, int, int, Entries).call(
        FreshPage(arena, 2 * PAGE_WORDS, PAGE_WORDS, 2, 1), 1, 2, Entries(node, 0, len(values))
    )
    return arena, 2 * PAGE_WORDS


@given(columns(), st.data())
def test_what_goes_in_comes_out(column, data):
    width, values = column
    words, page = page_of(values)
    assert words[page + ENTRY_COUNT] == len(values) and words[page + HEADER + 1] & 255 == width
    assert [field(words, page, 0, i) for i in range(len(values))] == values
    lo = data.draw(st.integers(0, len(values)))
    hi = data.draw(st.integers(lo, len(values)))
    out = np.full(len(values) + 9, 7)
    unpack(words, page, 0, lo, hi, out, 5)
    assert out.tolist() == [7] * 5 + values[lo:hi] + [7] * (len(values) + 4 - (hi - lo))


@given(columns(), st.data())
def test_searches(column, data):
    _, values = column
    words, page = page_of(values)
    lo = data.draw(st.integers(0, len(values)))
    hi = data.draw(st.integers(lo, len(values)))
    near = data.draw(st.sampled_from(values)) + data.draw(st.integers(-1, 1))
    x = min(max(near, -(1 << 63)), (1 << 63) - 1)
    first = bisect_left(values, x, lo, hi)
    assert lower(words, page, 0, lo, hi, x) == gallop(words, page, 0, lo, hi, x) == first
    assert lower_far(words, page, 0, lo, hi, x) == first
    if lo < hi and values[lo] <= x:
        assert run_end(words, page, 0, lo, hi, x) == bisect_right(values, x, lo, hi)


@given(columns(), st.data())
def test_how_far_two_columns_are_the_same(column, data):
    _, values = column
    at = data.draw(st.integers(0, len(values) - 1))
    edited = list(values)
    edited[at : at + data.draw(st.integers(0, 1))] = data.draw(
        st.lists(st.sampled_from(values), max_size=1)
    )
    edited = edited or values
    (words, page), (more, other) = page_of(values), page_of(edited)
    slot, place = data.draw(st.integers(0, len(values))), data.draw(st.integers(0, len(edited)))
    if data.draw(st.booleans()):
        slot = place = min(slot, place)
    pairs = list(zip(values[slot:], edited[place:], strict=False))
    wanted = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
    words = np.concatenate([words, more])
    assert equal_values(words, page, slot, len(more) + other, place, 0, len(pairs)) == wanted
