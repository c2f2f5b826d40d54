"""The model of commits: in no order of steps does anything go wrong, and without a part of the
protocol it does.
"""

import re
from pathlib import Path

import pytest

import pagestore
from pagestore.relations import turn
from pagestore.relations.transaction import Transaction
from pagestore.storage import meta
from pagestore.versions import recovery
from pagestore.versions.committer import Committer
from pagestore.versions.handle import Handle
from pagestore.versions.locks import FileLock
from pagestore.versions.offers import Offers
from pagestore.versions.shared_syncs import SharedSyncs
from pagestore.versions.sync_modes import SharingCommitter
from tests.pagestore.versions.commit_model import MENDS, STEPS, explored

# writer 0 has the lock of the slots, and does not know yet that writer 1 shows a commit
LEADS = [0] * 11 + [1] * 8
FAILS = [0] * 14 + [1] * 5 + [0, 1]  # writer 0 is about to sync, writer 1 has begun to write
SMALL = [
    {"commits": [2, 1], "kills": 1, "failures": 1},
    {"commits": [1, 1, 1], "kills": 2, "first": LEADS},
    {"commits": [1, 1, 2], "kills": 1, "first": LEADS},
    {"commits": [1, 1, 1], "failures": 1, "first": FAILS},
    {"commits": [1, 1, 1], "kills": 1, "failures": 1, "first": FAILS[:13] + [1] * 9},
    {"commits": [1, 1], "kills": 1, "failures": 1, "offers": True},
    {"commits": [2, 1], "kills": 1, "offers": True},
]
LARGE = [
    {"commits": [1, 1, 1], "kills": 1, "failures": 1, "offers": True},
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
    "doubt": {
        "commits": [1, 1, 1],
        "failures": 1,
        "first": FAILS,
        "without": ["doubt", "first again"],
    },
    "ensure": {"commits": [1, 1], "kills": 1},
    "taken first": {"commits": [1, 1], "offers": True},
    "history": {"commits": [1, 1], "offers": True},
    "its own time": {"commits": [1, 1, 1], "kills": 1, "offers": True, "first": [0] * 5 + [1] * 2},
    "first again": {"commits": [1, 1, 1], "kills": 1, "failures": 1, "first": FAILS[:13] + [1] * 9},
}
# the commits that were once lost so (695d0496 looked at slots last, 162b8143 claims): steps of which
# the shortest way to each has all, in this order
LOST = {
    # 0 finds its own commit in the newest slot, 1 writes a newer one and shows it no more, 0 looks
    # what is shown
    "slots last": "0 knows.slots, 1 slot, 1 is killed, 0 knows.shown, 0 edit",
    # 0 finds the commit that 1 shows, and sleeps; 2 takes its pages, and 0 writes its slot
    "claim": "0 complete, 1 is killed, 2 take, 2 newest.again, 0 slot, 2 edit",
}
PARTS = {
    one.__name__: one
    for one in (Committer, FileLock, Handle, Offers, SharedSyncs, SharingCommitter, Transaction)
}


@pytest.mark.parametrize(
    "about", [*SMALL, *(pytest.param(one, marks=pytest.mark.campaign) for one in LARGE)], ids=str
)
def test_nothing_goes_wrong(about):
    found = explored(**about)
    assert found.violation is None, found
    assert found.states > 1000


@pytest.mark.parametrize("mend", MENDS)
def test_without_any_part_of_it_something_does(mend):
    about = {"without": [mend], **WITHOUT[mend]}
    assert explored(**about).violation
    also = {*about["without"]} - {mend}
    assert not also or explored(**about | {"without": also}).violation is None


@pytest.mark.parametrize("mend", LOST)
def test_commits_that_were_once_lost_are_found_from_the_start(mend):
    commits = {"slots last": [2, 1], "claim": [1, 1, 1]}[mend]
    found = explored(commits, kills=1, without=[mend])
    assert found.violation and found.violation.endswith("which is not whole")
    steps = iter(found.steps)
    assert all(step in steps for step in LOST[mend].split(", ")), found.steps


def test_the_steps_are_those_of_the_table_and_of_the_code():
    text = Path(pagestore.__file__).parents[1].joinpath("docs/format.md").read_text()
    table = re.findall(r"^\| `([a-z. ]+)` \| .* \| `([A-Za-z_.]+)` \|$", text, re.MULTILINE)
    assert table == [(name, method) for name, (_, method) in STEPS.items()]
    for _, method in table:
        owner, _, name = method.rpartition(".")
        assert (
            hasattr(PARTS[owner], name)
            if owner
            else any(hasattr(one, name) for one in (recovery, meta, turn))
        ), method
