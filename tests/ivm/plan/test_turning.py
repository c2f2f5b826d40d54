"""A rule turns from probing to matching where changes fall on long lists that its trace never
reached, and back where matching costs more.
"""

import numpy as np
import pytest

import ivm
from ivm.plan import costs

N = 30_000
CELEBRITIES = range(10**7, 10**7 + 3)
FACTS = "premium(s) -> int(s). follows(s, b) -> int(s), int(b). sponsored(b) -> int(b)."
REACH = "reach(s, b) <- premium(s), follows(s, b), sponsored(b)."


def opened(path, **options):
    """Premium users, who follow three others each, and celebrities whom all others follow."""
    workspace = ivm.open(path, sync="off", threads=1)
    workspace.install(FACTS, "facts")
    even = np.arange(0, 2 * N, 2)
    chosen = np.random.default_rng(1).integers(0, N, 3 * N)
    with workspace.transaction() as txn:
        txn.insert("premium", [even])
        txn.insert("follows", [np.repeat(even, 3), chosen])
        for celebrity in CELEBRITIES:
            txn.insert("follows", [even + 1, np.full(N, celebrity)])
        txn.insert("sponsored", [np.arange(0, N, 50)])
    workspace.install(REACH, "v", **options)
    return workspace


def sponsor(workspace, n):
    """Let celebrities become sponsored, one after the other, and no longer; return the operations
    of each change.
    """
    found = []
    for k in range(n):
        with workspace.transaction() as txn:
            edit = txn.delete if k % 2 else txn.insert
            edit("sponsored", [(CELEBRITIES[k // 2 % 3],)])
        found.append(workspace.stats("reach")["operations"])
    return found


def test_probes_of_long_lists_turn_to_matching(tmp_path):
    """Each change reads two lists of N users. The joins by columns and the index before the first
    probe count as well, so that some long probes are followed by recording, and none is long after that.
    """
    with opened(tmp_path / "a.pages") as probed, opened(tmp_path / "b.pages") as turning:
        probed.uninstall("v")
        probed.install(REACH, "v", maintenance="probe")
        always, found = sponsor(probed, 80), sponsor(turning, 80)
        assert min(always[10:]) > 2 * N - 10 > 40 * found[-1]
        turned = next(k for k, n in enumerate(found) if n < N)
        assert max(found[turned:]) == found[-1] and found[turned - 1] == always[-1]
        assert 10 < turned < 30
        assert "since probing cost more than recording" in turning.explain("reach")
        assert turning.check() == [] and sorted(turning["reach"]) == sorted(probed["reach"])
    with ivm.open(tmp_path / "b.pages", sync="off", threads=1) as again:
        assert "since probing cost more than recording" in again.explain("reach")
        assert max(sponsor(again, 4)) == found[-1]
        again.replan()
        assert max(sponsor(again, 4)) == found[-1]
        assert again.check() == []


def test_what_comes_before_the_first_probe_turns_no_rule(tmp_path):
    """Those become sponsored whom a few follow: joined by columns, then probed at once."""
    with opened(tmp_path / "s.pages") as workspace:
        for b in range(1, 40, 2):
            workspace.insert("sponsored", [(b,)])
        assert "since probing" not in workspace.explain("reach")
        assert 0 < workspace.stats("reach")["operations"] < 100


@pytest.mark.parametrize("requested", ["probe", "match"])
def test_what_is_requested_stays(tmp_path, requested):
    with opened(tmp_path / "s.pages", maintenance=requested) as workspace:
        found = sponsor(workspace, 80)
        assert len({*found[10:]}) == 1 and (found[-1] > N) == (requested == "probe")


def test_recording_that_costs_more_than_estimated_is_given_up(tmp_path, monkeypatch):
    """What it took is lost, and twice as much is to be paid before it is tried again."""
    monkeypatch.setattr(costs, "LONG_OPERATION", 20)
    monkeypatch.setattr(costs, "RECORDING", 10_000)
    with opened(tmp_path / "s.pages") as workspace:
        found = sponsor(workspace, 20)
        assert min(found) > N and "columns" in workspace.explain("reach")
        assert workspace.stats("reach")["sensitivity_rows"] == 0
        assert workspace.check() == []


def test_a_rule_turns_back_where_matching_costs_more(tmp_path, monkeypatch):
    """What others are followed by few is found by a probe at once, while matching renews
    intervals.
    """
    monkeypatch.setattr(costs, "LONG_OPERATION", 20)
    with opened(tmp_path / "s.pages") as workspace:
        sponsor(workspace, 12)
        assert "since probing cost more" in workspace.explain("reach")
        monkeypatch.setattr(costs, "RENEWED", 10_000)
        for k in range(20):
            with workspace.transaction() as txn:
                txn.insert("sponsored", [np.arange(50 * k + 1, 50 * k + 31)])
        assert "since matching cost more than recording anew" in workspace.explain("reach")
        assert workspace.check() == []
        workspace.verify("reach")
