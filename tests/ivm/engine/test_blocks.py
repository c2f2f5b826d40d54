"""Rules come and go between transactions: what is installed follows, and nothing is left of what
is not.
"""

import json
import tempfile
from functools import partial
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ivm
import pagestore
from ivm import errors
from ivm.join import evaluate
from ivm.lang.program import NOTHING
from ivm.rules.compile import compile
from ivm.rules.installed import PLANNING, PROPERTY
from ivm.rules.stored import BUILT
from tests.support import naive
from tests.support.programs.amounts import times
from tests.support.strategies import DECLARATIONS, FULL, cases
from tests.support.waiting import joined


class Blocks:
    """A workspace with a block per view, beside the slow truth over the blocks installed."""

    def __init__(self, path: Path, views: list[str]):
        self.path, self.views = path, views
        self.workspace = ivm.open(path, sync="off")
        self.workspace.install(DECLARATIONS, name="stored")
        self.parts = {"stored": compile(DECLARATIONS)}
        self.state = naive.empty(self.parts["stored"])

    @property
    def program(self):
        whole = NOTHING
        for part in self.parts.values():
            whole = whole.including(part)
        return whole

    def toggle(self, number: int) -> None:
        """Install a view, or uninstall it if it is there; both refuse what would break a view."""
        name = f"block{number}"
        if name in self.parts:
            self.uninstall(name)
        else:
            self.install(name, self.views[number])
        self.compare()

    def install(self, name: str, text: str) -> None:
        try:
            part = compile(text, self.program)
            full = naive.evaluate(self.program.including(part), self.state)
        except (errors.RuleError, errors.FunctionConflictError):
            part = None
        try:
            self.workspace.install(text, name=name)
        except (errors.RuleError, errors.FunctionConflictError) as error:
            assert part is None or isinstance(error, errors.ConstructError)
        else:
            assert part is not None
            self.parts[name], self.state = part, full

    def uninstall(self, name: str) -> None:
        made = self.parts[name].predicates.keys()
        others = [
            rule for other, part in self.parts.items() if other != name for rule in part.rules
        ]
        try:
            self.workspace.uninstall(name)
        except errors.UninstallError:
            assert any(made & set(rule.reads) for rule in others)
        else:
            assert not any(made & set(rule.reads) for rule in others)
            del self.parts[name]
            self.state = {n: rows for n, rows in self.state.items() if n not in made}

    def change(self, edits: list) -> None:
        state = {name: rows.copy() for name, rows in self.state.items()}
        for name, row, inserted in edits:
            naive.change(state[name], row, inserted)
        try:
            state = naive.evaluate(self.program, state)
        except errors.FunctionConflictError:
            return
        with self.workspace.transaction() as txn:
            for name, row, inserted in edits:
                if inserted:
                    (txn.insert if isinstance(state[name], set) else txn.set)(name, [row])
                else:
                    txn.delete(name, [row if isinstance(state[name], set) else row[:-1]])
        self.state = state
        self.compare()

    def reopen(self) -> None:
        self.workspace.close()
        self.workspace = ivm.open(self.path, sync="off")
        self.compare()

    def compare(self) -> None:
        for name, rows in self.state.items():
            if "$" not in name:
                assert sorted(self.workspace[name]) == sorted(naive.rows_of(rows)), name
        visible = {name for name in self.workspace if "$" not in name}
        assert visible == {name for name in self.state if "$" not in name}


@pytest.mark.parametrize("over_pages", [False, True])
@settings(max_examples=times(20), suppress_health_check=list(HealthCheck))
@given(cases(FULL, count_max=6), st.lists(st.integers(0, 2), min_size=3, max_size=8))
def test_views_come_and_go(over_pages, case, toggles):
    with pytest.MonkeyPatch.context() as patch:
        if over_pages:
            patch.setattr(evaluate, "is_flat_cheaper", lambda *_: False)
        come_and_go(*case, toggles)


def come_and_go(text, transactions, toggles):
    """Blocks are installed and taken out between transactions; in the end all facts go, and with
    them every count.
    """
    views = [view for view in text.removeprefix(DECLARATIONS).split("\n") if view]
    with tempfile.TemporaryDirectory() as folder:
        blocks = Blocks(Path(folder) / "store.pages", views)
        for step in range(max(len(transactions), len(toggles))):
            if step < len(toggles):
                blocks.toggle(toggles[step] % len(views))
            if step < len(transactions):
                blocks.change(transactions[step])
            if step % 3 == 2:
                blocks.reopen()
        for number in range(len(views)):
            if f"block{number}" not in blocks.parts:
                blocks.toggle(number)
        for name, predicate in blocks.program.predicates.items():
            if predicate.extensional:
                blocks.change([(name, row, False) for row in naive.rows_of(blocks.state[name])])
        for number in reversed(range(len(views))):
            if f"block{number}" in blocks.parts:
                blocks.toggle(number)
        assert blocks.parts.keys() == {"stored"}
        hidden = leftovers(blocks.workspace)
        blocks.workspace.close()
        assert hidden == set()


def leftovers(workspace: ivm.Workspace) -> set[str]:
    """Hidden trees of views that are gone: indices and sensitivities."""
    with workspace.store.snapshot() as snap:
        trees = {info.name for info in snap._version.catalog.relations.values()}
    return {name for name in trees if name.startswith(("$index", "$sense")) or "v" in name}


def test_saved_rules_that_do_not_compile_leave_the_store_unlocked(tmp_path):
    file = tmp_path / "store.pages"
    block = {"name": "old", "text": "p(x <- q.", "number": 0, "granularity": 1, "orders": []}
    with pagestore.open(file) as store, store.transaction() as txn:
        txn.properties[PROPERTY] = json.dumps({"planning": PLANNING, "blocks": [block]})
    with pytest.raises(errors.RuleSyntaxError, match="old:1:5"):
        ivm.open(file)
    with pagestore.open(file) as store, store.transaction() as txn:
        txn.properties[PROPERTY] = json.dumps({"planning": PLANNING, "blocks": []})
    with ivm.open(file) as workspace:
        assert list(workspace) == []


@pytest.mark.parametrize("saved", ["[]", '{"planning": 0, "blocks": []}'])
def test_rules_that_another_release_has_planned_are_refused_with_a_remedy(saved, tmp_path):
    file = tmp_path / "store.pages"
    with pagestore.open(file) as store, store.transaction() as txn:
        txn.properties[PROPERTY] = saved
    with pytest.raises(
        errors.IvmError, match="another release installed rules.*pagestore dump --relation"
    ):
        ivm.open(file)
    pagestore.open(file).close()  # it is not locked


def saved_by_the_release_before(file, rules: str, change) -> None:
    """A store with rules whose saved plans are changed as if that release had made them."""
    with ivm.open(file) as workspace:
        workspace.install("a(x) -> int(x). b(x) -> int(x). d[q] = x -> int(q), int(x). " + rules)
        workspace.exec("+a(1). +a(2). +b(10).")
    with pagestore.open(file) as store, store.transaction() as txn:
        txn.declare_maintained()
        found = json.loads(txn.properties[PROPERTY])
        found["planning"] = 1
        block = found["blocks"][0]
        block["orders"], block["bases"] = json.loads(block.pop("plans"))
        change(block["orders"])
        txn.properties[PROPERTY] = json.dumps(found)


def test_rules_of_the_release_before_go_on_where_their_plans_are_the_same(tmp_path):
    file = tmp_path / "store.pages"
    saved_by_the_release_before(file, "p(x) <- a(x), !b(x).", lambda orders: None)
    with ivm.open(file) as workspace:
        workspace.exec("-a(1). +b(2).")
        assert list(workspace["p"]) == []
        workspace.verify("p")


def test_rules_of_the_release_before_are_refused_where_their_plans_are_others(tmp_path):
    file = tmp_path / "store.pages"
    saved_by_the_release_before(
        file, "p(x) <- a(x), !(d[q] = x, b(10 / x)).", lambda orders: orders.pop()
    )
    with pytest.raises(errors.IvmError, match="another release installed rules"):
        ivm.open(file)


def test_nothing_is_remembered_of_what_is_gone(tmp_path):
    with ivm.open(tmp_path / "store.pages", sync="off") as workspace:
        workspace.install("edge(x, y) -> int(x), int(y).", name="edge")
        workspace.install(
            "one(x, y, z) <- edge(x, y), edge(y, z).", name="one", maintenance="match"
        )
        workspace.install("two(x, z) <- edge(x, y), edge(y, z).", name="two", maintenance="match")
        workspace.exec("+edge(1, 2). +edge(2, 3).")
        assert (len(remembered(workspace)), workspace.stats("two")["inserted"]) == (2, 1)
        workspace.uninstall("two")
        assert len(remembered(workspace)) == 1
        workspace.install("two(z, x) <- edge(x, y), edge(y, z).", name="two", maintenance="probe")
        assert (len(remembered(workspace)), workspace.stats("two")["inserted"]) == (1, 0)
        workspace.exec("+edge(3, 4).")
        workspace.verify("two")


def remembered(workspace: ivm.Workspace) -> dict:
    """The sizes of sensitivity indices when they were built, as they are stored."""
    with workspace.store.snapshot() as snap:
        return json.loads(snap.properties[BUILT])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"granularity": 0}, "granularity=0: it is a whole number of operations, 1 or more"),
        ({"granularity": -5}, "granularity=-5: "),
        ({"granularity": 2**70}, "granularity=1180591620717411303424: "),
        ({"granularity": 1.5}, "granularity=1.5: "),
        ({"maintenance": "prob"}, "maintenance='prob': it is one of auto, match and probe"),
        ({"maintenance": "once"}, "maintenance='once': "),
    ],
)
def test_options_that_mean_nothing(options, says, tmp_path):
    with ivm.open(tmp_path / "store.pages", sync="off") as ws:
        with pytest.raises(errors.OptionError, match=f"^{says}"):
            ws.install("e(x) -> int(x).", **options)
        assert (list(ws), ws.store.version) == ([], 0)


def test_what_is_no_text_and_no_function_is_refused(tmp_path):
    with ivm.open(tmp_path / "store.pages", sync="off") as ws:
        ws.install("e(x) -> int(x). v(x) <- e(x).")
        for take in ws.query, ws.exec, partial(ws.install, name="more"):
            with pytest.raises(errors.RuleSyntaxError, match="5 is not a text"):
                take(5)
        with pytest.raises(errors.OptionError, match="on_change='v': a function"):
            ws.subscribe("v", "v")


def test_a_relation_is_not_evaluated(tmp_path):
    with ivm.open(tmp_path / "store.pages", sync="off") as ws:
        ws.install("e(x) -> int(x). +e(1).")
        for ask in (ws.evaluate, ws.verify):
            with pytest.raises(
                errors.UnknownViewError, match="^e is not a view: its rows come from transactions"
            ):
                ask("e")


EDGE = "edge(x, y) -> int(x), int(y)."
TWO = "two(x, z) <- edge(x, y), edge(y, z)."


def elsewhere(work, *args):
    """Let another thread do something, all of it."""
    thread = Thread(target=work, args=args)
    thread.start()
    joined(thread)


def test_what_is_committed_right_behind_an_installation_is_in_its_views(tmp_path, monkeypatch):
    """By a thread that waited for it, before `install` itself goes on."""
    with ivm.open(tmp_path / "w.pages", sync="off") as workspace:
        workspace.install(EDGE, name="edge")
        leave = pagestore.Transaction.__exit__

        def leave_and_another_writes(*args):
            leave(*args)
            monkeypatch.undo()
            elsewhere(workspace.exec, "+edge(1, 2). +edge(2, 3).")

        monkeypatch.setattr(pagestore.Transaction, "__exit__", leave_and_another_writes)
        workspace.install(TWO, name="two")
        assert list(workspace["two"]) == [(1, 3)]


def test_what_another_thread_installs_before_an_uninstallation_or_installation_stays(
    tmp_path, monkeypatch
):
    """It waits for the writer, and goes by the rules that it finds then."""
    with ivm.open(tmp_path / "w.pages", sync="off") as workspace:
        workspace.install(EDGE, name="edge")
        workspace.install("one(x) <- edge(x, _).", name="one")
        begin = workspace.store.transaction

        def begin_behind_another(*args):
            monkeypatch.undo()
            elsewhere(workspace.install, TWO, "two")
            return begin(*args)

        monkeypatch.setattr(workspace.store, "transaction", begin_behind_another)
        workspace.uninstall("one")
        workspace.exec("+edge(1, 2). +edge(2, 3).")
        assert ([*workspace.blocks], list(workspace["two"])) == (["edge", "two"], [(1, 3)])
        workspace.uninstall("two")
        monkeypatch.setattr(workspace.store, "transaction", begin_behind_another)
        with pytest.raises(errors.RedefinitionError, match="a block `two` is installed"):
            workspace.install(TWO, name="two")
        workspace.verify("two")


def test_a_question_reads_the_key_orders_of_no_block_that_it_does_not_need(tmp_path):
    """They are a text of their own in the list of all blocks, here one that does not read."""
    with ivm.open(tmp_path / "s.pages", sync="off") as ws:
        ws.install("a(x) -> int(x).", "facts")
        for n in range(2):
            ws.install(f"v{n}(x) <- a(x).", f"b{n}")
    with pagestore.open(tmp_path / "s.pages") as store, store.transaction() as txn:
        txn.declare_maintained()
        found = json.loads(txn.properties[PROPERTY])
        (other,) = (block for block in found["blocks"] if block["name"] == "b1")
        other["plans"] = "no JSON"
        txn.properties[PROPERTY] = json.dumps(found)
    with ivm.open(tmp_path / "s.pages", sync="off") as ws:
        assert [*ws.query("q(x) <- v0(x).")] == []
        with pytest.raises(errors.IvmError, match="does not read"):
            ws.query("q(x) <- v1(x).")
