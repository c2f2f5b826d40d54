"""The model of commits: in no order of steps does anything go wrong, and without a part of the
protocol it does.
"""

import re
from pathlib import Path

import pytest

import pagestore
from pagestore.relations.transaction import Transaction
from pagestore.storage import meta
from pagestore.versions import recovery
from pagestore.versions.committer import Committer
from pagestore.versions.handle import Handle
from pagestore.versions.locks import FileLock
from pagestore.versions.shared_syncs import SharedSyncs
from tests.pagestore.versions.commit_model import MENDS, STEPS, explored

# writer 0 has the lock of the slots, and does not know yet that writer 1 shows a commit
LEADS = [0] * 11 + [1] * 8
FAILS = [0] * 14 + [1] * 5 + [0, 1]  # writer 0 is about to sync, writer 1 has begun to write
SMALL = [
    {"commits": [2, 1], "kills": 1, "failures": 1},
    {"commits": [1, 1, 1], "kills": 2, "first": LEADS},
    {"commits": [1, 1, 2], "kills": 1, "first": LEADS},
    {"commits": [1, 1, 1], "failures": 1, "first": FAILS},
]
LARGE = [
    {"commits": [1, 1, 1], "kills": 1, "failures": 1},
    {"commits": [2, 1, 1], "kills": 1},
    {"commits": [2, 2], "kills": 2, "failures": 1},
    {"commits": [1, 1, 1, 1], "kills": 2, "first": LEADS},
]
WITHOUT = {
    "slots last": {"commits": [2, 1], "kills": 1},
    "claim": {"commits": [1, 1, 1], "kills": 1, "first": LEADS},
    "claim lock": {"commits": [1, 1, 1, 1], "kills": 2, "first": LEADS},
    "pages are listed": {"commits": [1, 1]},
    "slots alternate": {"commits": [1, 1]},
    "doubt": {"commits": [1, 1, 1], "failures": 1, "first": FAILS},
    "ensure": {"commits": [1, 1], "kills": 1},
}
PARTS = {one.__name__: one for one in (Committer, FileLock, Handle, SharedSyncs, Transaction)}


@pytest.mark.parametrize(
    "about", [*SMALL, *(pytest.param(one, marks=pytest.mark.campaign) for one in LARGE)], ids=str
)
def test_nothing_goes_wrong(about):
    found = explored(**about)
    assert found.violation is None, found
    assert found.states > 1000


@pytest.mark.parametrize("mend", MENDS)
def test_without_any_part_of_it_something_does(mend):
    found = explored(without=mend, **WITHOUT[mend])
    assert found.violation and found.steps


def test_the_steps_are_those_of_the_table_and_of_the_code():
    text = Path(pagestore.__file__).parents[1].joinpath("docs/format.md").read_text()
    table = re.findall(r"^\| `([a-z. ]+)` \| .* \| `([A-Za-z_.]+)` \|$", text, re.MULTILINE)
    assert table == [(name, method) for name, (_, method) in STEPS.items()]
    for _, method in table:
        owner, _, name = method.rpartition(".")
        assert (
            hasattr(PARTS[owner], name) if owner else hasattr(recovery, name) or hasattr(meta, name)
        ), method
