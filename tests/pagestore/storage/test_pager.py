"""Free pages and the pages of a transaction, without a store, against plain sets."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pagestore.storage.free_list import COUNT, FreeList
from pagestore.storage.records import word_list
from tests.support.programs.amounts import times


def pages_in(extents: np.ndarray) -> set[int]:
    """The pages of runs, no two of which may touch."""
    ends = [first + count for first, count in extents.tolist()]
    assert (extents[1:, 0] > ends[:-1]).all()
    return {
        page
        for (first, _), end in zip(extents.tolist(), ends, strict=True)
        for page in range(first, end)
    }


def test_pages_that_a_file_grew_by_after_a_kernel_counted_are_counted_later():
    space = FreeList(10)
    space.free(word_list([3, 4]))
    freed, lists, place = space.make_room(4)
    COUNT.call(*freed.buffer_info(), np.array([5]), lists, place)
    grown = space.allocate(3)  # before it is known whether the kernel's record is wanted
    space.counted(1)
    added, removed = space.difference()
    assert sorted(added) == [3, 4, *grown] and [*removed] == [5]


class SpaceMachine(RuleBasedStateMachine):
    """Allocate, use, free, trim and checkpoint in any order; the difference on disk always gives
    the free pages.
    """

    def __init__(self) -> None:
        super().__init__()
        self.free_list = FreeList(2)
        self.checkpoint: set[int] = set()
        self.used: set[int] = set()
        self.allocated: set[int] = set()

    @rule(n=st.integers(1, 9))
    def allocate(self, n: int) -> None:
        pages = self.free_list.allocate(n).tolist()
        assert pages == sorted(pages)
        assert not (set(pages) & (self.used | self.allocated))
        self.allocated |= set(pages)

    @rule(n=st.integers(1, 5))
    def allocate_run(self, n: int) -> None:
        first = self.free_list.allocate_run(n)
        pages = set(range(first, first + n))
        assert not (pages & (self.used | self.allocated))
        self.allocated |= pages

    @rule(share=st.integers(0, 3))
    def end(self, share: int) -> None:
        """A commit keeps some of what was allocated and gives the rest back."""
        kept = set(sorted(self.allocated)[: len(self.allocated) * share // 3])
        self.free_list.take_back(np.array(sorted(self.allocated - kept), np.int64))
        self.free_list.use(np.array(sorted(kept), np.int64))
        self.used |= kept
        self.allocated = set()

    @rule(share=st.integers(0, 3))
    def free(self, share: int) -> None:
        gone = set(sorted(self.used, key=hash)[: len(self.used) * share // 3])
        self.free_list.free(word_list(gone))
        assert not (gone & self.allocatable())  # not before the commit is durable
        self.free_list.reuse_pending(len(self.free_list.pending))
        self.used -= gone

    @rule()
    def retract(self) -> None:
        pages = sorted(self.allocated)
        n = self.free_list.retract(np.array(pages, np.int64))
        assert pages[len(pages) - n :] == [*range(self.free_list.top, self.free_list.top + n)]
        assert self.free_list.top - 1 not in self.allocated
        self.allocated -= {*range(self.free_list.top, self.free_list.top + n)}

    @rule()
    def trim(self) -> None:
        self.free_list.trim()
        assert (
            self.free_list.top
            == max(self.used | self.allocated | self.allocatable(), default=1) + 1
        )

    @rule()
    def write_checkpoint(self) -> None:
        self.checkpoint = pages_in(self.free_list.checkpoint(np.array([*self.allocated], np.int64)))

    def allocatable(self) -> set[int]:
        pages = pages_in(self.free_list.extents(np.zeros(0, np.int64))) - {*self.free_list.pending}
        assert len(pages) == len(self.free_list)
        return pages

    @invariant()
    def the_difference_is_no_longer_than_it_says(self) -> None:
        assert self.free_list.changed() >= len(self.still_free() ^ self.checkpoint)

    @rule()
    def the_difference_is_right(self) -> None:
        """Not an invariant after every step, since asking for the difference counts pages that
        were not counted yet.
        """
        space, free = self.free_list, self.still_free()
        added, removed = space.difference()
        assert sorted(added) == sorted(free - self.checkpoint)
        assert sorted(removed) == sorted(self.checkpoint - free)
        assert free | self.used == set(range(2, space.top))
        assert not (free & self.used)

    def still_free(self) -> set[int]:
        return self.allocatable() | self.allocated

    def teardown(self) -> None:
        self.the_difference_is_right()


SpaceMachine.TestCase.settings = settings(
    max_examples=times(50), stateful_step_count=30, deadline=None
)
test_space = SpaceMachine.TestCase
