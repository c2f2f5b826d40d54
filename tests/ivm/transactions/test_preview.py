"""A preview says what a commit then does, changes nothing, and is committed only on the version
it was tried on.
"""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings

import ivm
from ivm.errors import ConstraintError, EditError, FunctionConflictError, RangeError
from tests.support.mirror import Mirror
from tests.support.programs.amounts import times
from tests.support.strategies import FULL, cases

RULES = """
edge(x, y) -> int(x), int(y).   name[x] = s -> int(x), string(s).
hop(x, z) <- edge(x, y), edge(y, z).   degree[x] = n <- agg<<n = count()>> edge(x, _).
path(x, y) <- edge(x, y).   path(x, z) <- path(x, y), edge(y, z).
names[x] = s <- agg<<s = concat(t)>> edge(x, y), name[y] = t.
edge(x, y) -> x != y.
+edge(1, 2). +edge(2, 3). +name[2] = "two". +name[3] = "three".
"""


@pytest.fixture
def ws(tmp_path):
    with ivm.open(tmp_path / "g.pages") as workspace:
        workspace.install(RULES)
        workspace.sql("CREATE TABLE note (n INT, said TEXT)")
        yield workspace


def rows(tables):
    return {name: sorted(map(str, table.to_pylist())) for name, table in tables.items()}


def changed(ws, old, new):
    """What the store says after a commit, by name."""
    with ws.store.snapshot() as snap:
        tables = {
            name: ws.store.diff(old, new, name).read_all() for name in snap if "$" not in name
        }
    return rows({name: table for name, table in tables.items() if table.num_rows})


EDITS = [
    "+edge(3, 4). -edge(1, 2).",
    '+name[4] = "a text that the store does not have". +edge(1, 4).',
    "-edge(x, y) <- edge(x, y), x < 2.   +edge(9, y) <- edge(_, y).",
    lambda txn: txn.sql("INSERT INTO note VALUES (1, 'x'), (1, 'x'); DELETE FROM edge WHERE x = 2"),
    lambda txn: txn.insert("edge", [(n, n + 1) for n in range(20, 3000, 2)]),
]


@pytest.mark.parametrize("edits", EDITS)
def test_a_preview_is_what_the_commit_does(ws, edits):
    version = ws.store.version
    with ivm.open(ws.store.path, mode="r") as reader:
        told = reader.preview(edits)
    preview = ws.preview(edits)
    assert preview.version == told.version == version == ws.store.version
    assert preview.commit() == version + 1
    assert rows(preview.changes) == rows(told.changes) == changed(ws, version, version + 1) != {}
    assert ws.check() == []


@settings(max_examples=times(15), deadline=None)
@given(cases(FULL, count_max=3))
def test_previews_of_random_programs_are_what_commits_do(case):
    text, transactions = case
    with tempfile.TemporaryDirectory() as folder:
        mirror = Mirror(Path(folder) / "a.pages", text)
        workspace = mirror.workspace
        for edits in transactions:
            version = workspace.store.version
            try:
                preview = workspace.preview(
                    lambda txn, edits=edits: edit(txn, edits, mirror.program)
                )
            except (FunctionConflictError, RangeError, ConstraintError):
                preview = None
            assert workspace.store.version == version
            mirror.change(edits)  # compares with the slow truth
            if preview is None:
                assert workspace.store.version == version
            else:
                assert rows(preview.changes) == changed(workspace, version, workspace.store.version)
        mirror.close()


def edit(txn, edits, program):
    for name, row, inserted in edits:
        predicate = program.predicates[name]
        if not inserted:
            txn.delete(name, [row[: len(predicate.keys)]])
        else:
            (txn.insert if predicate.value is None else txn.set)(name, [row])


def test_a_preview_neither_waits_for_a_writer_nor_makes_a_version(ws):
    with ivm.open(ws.store.path, mode="r") as reader, ws.transaction() as txn:
        txn.insert("edge", [(7, 8)])
        # while another holds the lock
        assert reader.preview("+edge(3, 4).").changes["edge"].num_rows == 1


def test_a_preview_is_not_committed_on_another_version(ws):
    preview = ws.preview("+edge(3, 4).")
    version = ws.exec("+edge(5, 6).")
    with pytest.raises(EditError, match=f"are for version {version - 1}, and {version} is newer"):
        preview.commit()
    assert (3, 4) not in list(ws["edge"]) and ws.preview("+edge(3, 4).").commit() == version + 1


def test_edits_that_would_be_refused_are(ws):
    version = ws.store.version
    with pytest.raises(ConstraintError):
        ws.preview("+edge(4, 4).")
    with pytest.raises(FunctionConflictError):
        ws.preview('+name[2] = "deux".')
    with pytest.raises(EditError, match="is a view"):
        ws.preview(lambda txn: txn.insert("hop", [(1, 1)]))
    with pytest.raises(EditError, match="by what asked for them"):
        ws.preview(lambda txn: txn.commit())
    assert ws.preview("+edge(1, 2).").changes == {} and ws.store.version == version
