"""Rules that replace others in one commit, and relations that stay when rules go."""

import tempfile
from contextlib import suppress
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ivm
from ivm import errors
from ivm.lang.ir import Rule
from ivm.rules.compile import compile
from tests.support import naive
from tests.support.programs.amounts import times
from tests.support.strategies import DECLARATIONS, FULL, cases

EDGE = "edge(x, y) -> int(x), int(y)."
GRAPH = f"{EDGE} two(x, z) <- edge(x, y), edge(y, z). end(y) <- edge(_, y), !edge(y, _)."


@pytest.fixture
def ws(tmp_path):
    with ivm.open(tmp_path / "w.pages", sync="off") as workspace:
        workspace.install(GRAPH, name="graph")
        workspace.exec("+edge(1, 2). +edge(2, 3). +edge(3, 4).")
        workspace.install("far(x) <- two(x, 4).", name="far")
        yield workspace


def trees(workspace: ivm.Workspace) -> dict[str, tuple[int, int]]:
    """The number and the root page of each tree."""
    with workspace.store.snapshot() as snap:
        version = snap._version
        specs = {name: info.spec for name, info in version.catalog.relations.items()}
        return {
            name: (spec.tree_id, version.trees[spec.tree_id].root) for name, spec in specs.items()
        }


def unchanged(old: str, new: str) -> set[str]:
    """The views of two texts whose rules, and those of all that they read, are the same."""
    of: list[dict[str, dict[str, Rule]]] = [{}, {}]  # the rules of each view, by their texts
    for known, text in zip(of, (old, new), strict=True):
        for rule in compile(text).rules:
            for head in rule.heads:
                known.setdefault(head.predicate, {})[str(rule)] = rule
    stored = {
        name
        for name, predicate in compile(DECLARATIONS).predicates.items()
        if predicate.extensional
    }
    same = {
        view for view in of[0].keys() & of[1].keys() if of[0][view].keys() == of[1][view].keys()
    }
    while lost := {
        view
        for view in same
        if not same | stored >= {*chain(*(rule.reads for rule in of[0][view].values()))}
    }:
        same -= lost
    return same


@settings(max_examples=times(25), suppress_health_check=list(HealthCheck))
@given(
    cases(FULL),
    st.lists(st.sets(st.integers(0, 5)), min_size=1, max_size=4),
    st.sampled_from(["match", "auto"]),
)
def test_random_rules_replace_others(case, choices, maintenance):
    """Each time the rows are those of the new rules, views that are as they were keep their
    pages, and none is left.
    """
    text, transactions = case
    views = [view for view in text.removeprefix(DECLARATIONS).split("\n") if view]
    views = [*dict.fromkeys([*views, *(view.replace("v0", "w0") for view in views)])]
    with (
        tempfile.TemporaryDirectory() as folder,
        ivm.open(Path(folder) / "s.pages", sync="off") as workspace,
    ):
        installed = DECLARATIONS
        workspace.install(installed)
        for edits, chosen in zip([*transactions, *[[]] * len(choices)], choices, strict=False):
            with suppress(errors.FunctionConflictError), workspace.transaction() as txn:
                for name, row, inserted in edits:
                    function = workspace.predicates[name].value is not None
                    if inserted:
                        (txn.set if function else txn.insert)(name, [row])
                    else:
                        txn.delete(name, [row[:-1] if function else row])
            new = "\n".join(
                [
                    DECLARATIONS,
                    *(views[n % len(views)] for n in sorted({n % len(views) for n in chosen})),
                ]
            )
            installed = replaced(workspace, installed, new, maintenance)
            if edits:
                assert workspace.check() == []


def definitions(workspace: ivm.Workspace) -> dict[str, str]:
    """The rule of each view as it is installed, where aggregates over the same body are one
    rule.
    """
    with workspace.store.snapshot() as snap:
        rules = workspace.rules_of(snap).rules
        return {
            head.predicate: str(rule.definition) for rule in rules for head in rule.definition.heads
        }


def replaced(workspace: ivm.Workspace, old: str, new: str, maintenance: str) -> str:
    """Replace rules and compare what there is then; returns the rules that are installed."""
    before, version, had = trees(workspace), workspace.store.version, definitions(workspace)
    try:
        workspace.install(new, maintenance=maintenance, replace=True)
    except (errors.RuleError, errors.FunctionConflictError):
        assert (trees(workspace), workspace.store.version, workspace.blocks["main"]) == (
            before,
            version,
            old,
        )
        return old
    program, after = compile(new), trees(workspace)
    relations = {name: workspace[name] for name, p in program.predicates.items() if p.extensional}
    state = {
        name: {row[:-1]: row[-1] for row in rows}
        if program.predicates[name].value is not None
        else {*rows}
        for name, rows in relations.items()
    }
    for name, rows in naive.evaluate(program, state).items():
        # a plan may do without the view of an aggregate's body
        if name in after or "$body" not in name:
            assert sorted(workspace[name]) == sorted(naive.rows_of(rows)), name
    if maintenance == "auto":
        for view in unchanged(old, new) & after.keys():
            assert after[view] == before[view] or had[view] != definitions(workspace)[view], view
    with workspace.store.snapshot() as snap:
        assert {name for name in after if not name.startswith("$")} == {
            *workspace.rules_of(snap).program.predicates
        }
    assert workspace.check() == []
    return new


def test_a_view_keeps_its_sensitivity_indices_and_is_maintained_by_them(tmp_path):
    """They are named by the numbers of rules, which change."""
    with ivm.open(tmp_path / "w.pages", sync="off") as workspace:
        rules = f"{EDGE} {{}} three(x, y, z) <- edge(x, y), edge(y, z), edge(x, z)."
        workspace.install(
            rules.format("one(x) <- edge(x, _). also(y) <- edge(_, y)."), maintenance="match"
        )
        workspace.exec("+edge(1, 2). +edge(2, 3). +edge(1, 3).")
        before = trees(workspace)
        workspace.install(rules.format(""), replace=True)
        after, sensitive = trees(workspace), [name for name in before if name.startswith("$sense")]
        assert sensitive and {before[name] for name in sensitive} <= {*after.values()}
        assert workspace.evaluated == frozenset()
        assert "one" not in workspace and after["three"] == before["three"]
        workspace.exec("+edge(3, 4). +edge(2, 4).")
        assert (list(workspace["three"]), workspace.check()) == ([(1, 2, 3), (2, 3, 4)], [])


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("two(x, z) <- edge(x, y), edge(y, z", errors.RuleSyntaxError, "graph:1:35"),
        (
            f"{EDGE} two(x, z) <- edgy(x, z).",
            errors.UnknownPredicateError,
            "graph:1:44: .*did you mean edge?",
        ),
        (
            f"{EDGE} two[x] = y <- edge(x, y). one(y) <- two[_] = y.",
            errors.RuleError,
            "`far` reads `graph`",
        ),
        (
            f"{EDGE} two(x, y) <- edge(x, y), x = y. f[1] = y <- edge(_, y).",
            errors.FunctionConflictError,
            "f.1. got",
        ),
        (
            EDGE,
            errors.UninstallError,
            "two is read by far: the new rules of `graph` have to declare or derive it",
        ),
        (
            f"{EDGE} two(x, y) <- edge(x, y), far(x).",
            errors.RecursionRefusedError,
            "put the rules of both",
        ),
        (
            f"{EDGE} two(x, y) <- edge(x, y). far(x) <- edge(x, _).",
            errors.RedefinitionError,
            "derived in block `far`",
        ),
        (
            f"{EDGE} two(x, y) <- edge(x, y). far(x) -> int(x).",
            errors.RedefinitionError,
            "far is declared at graph",
        ),
        (
            "two(x, z) -> int(x), int(z). edge(x, y) <- two(x, y).",
            errors.RedefinitionError,
            "edge with 3 rows",
        ),
        (
            "edge(x, y) -> int(x), string(y). two(x, y) <- edge(x, y).",
            errors.EditError,
            "does not fit its declaration",
        ),
    ],
)
def test_new_rules_that_do_not_fit_change_nothing(ws, text, error, says):
    before, blocks, version = trees(ws), ws.blocks, ws.store.version
    with pytest.raises(error, match=says):
        ws.install(text, name="graph", replace=True)
    assert (trees(ws), ws.blocks, ws.store.version) == (before, blocks, version)
    ws.exec("+edge(4, 5).")
    assert (list(ws["far"]), ws.check()) == ([(2,)], [])


def test_blocks_that_read_replaced_rules_read_the_new_ones(ws, tmp_path):
    ws.install(f"{EDGE} two(x, z) <- edge(x, _), edge(_, z), x < z.", name="graph", replace=True)
    assert (list(ws["far"]), "end" in ws, ws.evaluated) == (
        [(1,), (2,), (3,)],
        False,
        {"two", "far"},
    )
    ws.exec("-edge(3, 4).")
    assert (list(ws["far"]), ws.check()) == ([], [])
    blocks = ws.blocks
    ws.close()
    with ivm.open(tmp_path / "w.pages") as again:
        assert (again.blocks, again.check()) == (blocks, [])


def test_views_and_relations_change_their_kind(ws):
    """A view becomes a relation, without the rows that followed from rules; a new text reads
    what it had declared.
    """
    ws.install("two(x, z) -> int(x), int(z). near(x, y) <- edge(x, y).", name="graph", replace=True)
    assert (list(ws["two"]), list(ws["near"]), list(ws["far"])) == (
        [],
        [(1, 2), (2, 3), (3, 4)],
        [],
    )
    ws.exec("+two(7, 4).")
    assert (list(ws["far"]), ws.check()) == ([(7,)], [])


def test_subscribers_hear_how_a_view_differs(ws):
    told = []
    ws.subscribe("two", lambda table: told.append(("two", table.to_pylist())))
    ws.subscribe("far", lambda table: told.append(("far", table.to_pylist())))
    ws.subscribe("end", lambda table: told.append(("end", table.to_pylist())))
    ws.install(
        f"{EDGE} two(x, z) <- edge(x, y), edge(y, z), x != 1. end(x, x) <- edge(x, _).",
        "graph",
        replace=True,
    )
    assert told == [("two", [{"x": 1, "z": 3, "_change_type": "delete"}])]
    ws.exec("+edge(4, 5).")
    assert told[1:] == [("two", [{"x": 3, "z": 5, "_change_type": "insert"}])]


def test_subscribers_of_a_relation_hear_of_rows_that_follow_as_long_as_it_has_rules(ws):
    told = []
    ws.subscribe("edge", lambda table: told.append([(*row.values(),) for row in table.to_pylist()]))
    ws.install(f"{GRAPH} edge(y, x) <- edge(x, y), x < 3. +edge(2, 1).", "graph", replace=True)
    ws.exec("+edge(1, 9).")
    ws.install(GRAPH, "graph", replace=True)
    ws.exec("+edge(1, 8).")
    back = [(2, 1, "insert"), (3, 2, "insert")]
    follow = [(1, 9, "insert"), (9, 1, "insert")]
    lost = [(3, 2, "delete"), (9, 1, "delete")]
    assert [sorted(rows) for rows in told] == [back, follow, lost, [(1, 8, "insert")]]
    with ws.store.transaction() as txn:
        txn["edge"].set([(7, 7)])
    assert told[-1] == [(7, 7, "insert")] and ws.check() == []


def test_scans_of_a_replaced_view_stay(ws):
    with ws.store.transaction() as txn:
        txn.add_scan("two", "count")
    ws.install(f"{EDGE} two(x, z) <- edge(x, y), edge(y, z), x > 0.", name="graph", replace=True)
    assert ws["two"].scans == ["count"] and ws.check() == []


def test_edits_of_a_replacing_text_are_made(ws):
    ws.install(f"{GRAPH} +edge(4, 5). -edge(1, 2).", name="graph", replace=True)
    assert (list(ws["far"]), list(ws["end"]), ws.evaluated, ws.check()) == (
        [(2,)],
        [(5,)],
        frozenset(),
        [],
    )


def test_relations_stay_when_their_block_goes(ws):
    """Also one that no rule reads, and they are what the same text finds when it is installed
    again.
    """
    ws.uninstall("far")
    said = ws.uninstall("graph", dry_run=True)
    assert said == ({"two": 2, "end": 1}, {}, {"edge": 3}) and "graph" in ws.blocks
    assert ws.uninstall("graph") == said
    assert (list(ws), list(ws["edge"]), ws.blocks) == (["edge"], [(1, 2), (2, 3), (3, 4)], {})
    assert trees(ws).keys() == {"edge"}
    ws.install(GRAPH, name="graph")
    assert (list(ws["two"]), ws.check()) == ([(1, 3), (2, 4)], [])
    assert ws.uninstall("graph", relations=True) == ({"two": 2, "end": 1}, {"edge": 3}, {})
    assert trees(ws) == {}


def test_relations_that_the_store_had_stay_in_any_case(tmp_path):
    with ivm.open(tmp_path / "w.pages", sync="off") as workspace:
        with workspace.store.transaction() as txn:
            txn.create("loaded", "x: int64").insert([(1,)])
        workspace.install("own(x) -> int(x). both(x) <- loaded(x), own(x).")
        assert workspace.uninstall("main", relations=True) == (
            {"both": 0},
            {"own": 0},
            {"loaded": 1},
        )
        assert list(workspace.store.snapshot()) == ["loaded"]


SHAPES = [
    ("edge(x, y) -> int(x), int(y).", "edge(x, _)", "+edge(1, 2).", "+edge(3, 2).", [(1,), (3,)]),
    ("edge[x] = y -> int(x), string?(y).", "edge[x] = _", '+edge[1] = "a".', '+edge[3] = "b".', [(1,
    ), (3,)]),
    ("edge[x] = (y, z) -> int(x), int(y), int?(z).", "edge:y[x] = _", "+edge[1] = (2, 3).",
    "+edge[3] = (2, 3).",
     [(1,), (3,)]),
    ("edge[] = x -> int(x).", "edge[] = x", "+edge[] = 1.", "^edge[] = 3.", [(3,)]),
]  # fmt: skip


@pytest.mark.parametrize(("declaration", "atom", "first", "then", "rows"), SHAPES)
def test_a_relation_that_other_blocks_read_stays_declared(
    declaration, atom, first, then, rows, tmp_path
):
    """The first reader declares it from then on, in this process and later ones; the readers
    keep their pages.
    """
    path = tmp_path / "w.pages"
    with ivm.open(path, sync="off") as ws:
        ws.install(f"{declaration} own(x) <- {atom}.", "base")
        ws.install(f"one(x) <- {atom}.", "one")
        ws.install(f"two(x) <- {atom}, one(x). never(x) <- {atom}, !one(x).", "two")
        ws.exec(first)
        before = trees(ws)
        with pytest.raises(
            errors.UninstallError, match="edge is read by block `one`: uninstall that block first"
        ):
            ws.uninstall("base", relations=True)
        assert ws.uninstall("base") == ({"own": 1}, {}, {"edge": 1})
        assert before.items() >= trees(ws).items() and {*ws.blocks} == {"one", "two"}
        ws.exec(then)
        assert (list(ws["two"]), ws.check()) == (rows, [])
    with ivm.open(path, sync="off") as ws:
        assert (list(ws["two"]), list(ws["never"]), ws.check()) == (rows, [], [])
        if rows[1:]:  # a function without keys is a relation, as far as the store knows
            ws.install(f"one(x) <- {atom}. more(x) <- {atom}.", "one", replace=True)
        with pytest.raises(errors.UninstallError, match="one is read by"):
            ws.uninstall("one")
        ws.uninstall("two")
        ws.uninstall("one", relations=True)  # it was in the store before this block
        assert (list(ws), len(ws.store.snapshot()["edge"]), ws.store.check()) == (
            ["edge"],
            len(rows),
            [],
        )
