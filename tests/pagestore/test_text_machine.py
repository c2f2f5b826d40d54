"""Relations keyed by texts against Python's order of bytes: random edits, on branches, at every
version, through reopening, compacting, dumps, backups and differences.
"""

import io
import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule

import pagestore
from pagestore.admin import backup
from tests.support.programs.amounts import times

MEGABYTE = "y" * (1 << 20)
URL = b"https://www.example.com/items/"
SHORT = st.lists(
    st.sampled_from([b"\0", b"a", b"b", b"\xc3\xa9", b"\xf0\x90\x80\x80", b"\xff"]), max_size=5
)
TEXTS = st.one_of(
    SHORT.map(b"".join),
    SHORT.map(lambda parts: URL + b"".join(parts)),
    st.integers(0, 99).map(lambda n: b"order-%08d" % n),
    SHORT.map(lambda parts: b"x" * 1020 + b"".join(parts)),
    st.sampled_from(["", "\0"]).map(lambda end: (MEGABYTE + end).encode()),
)
KEYS = st.tuples(st.integers(0, 2), TEXTS, TEXTS)
EDITS = st.lists(st.tuples(st.booleans(), KEYS, st.integers(0, 9)), min_size=1, max_size=12)
BOUNDS = st.one_of(
    st.just(()), TEXTS.map(lambda text: (text,)), st.tuples(TEXTS, st.integers(0, 2))
)

Rows = dict[tuple, int]  # (text, n, other) -> value


class TextMachine(RuleBasedStateMachine):
    branches = Bundle("branches")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "store.pages"
        self.store = pagestore.open(self.path, page_size=4096, sync="off", retain="all")
        self.models: dict[int, Rows] = {0: {}}
        with self.store.transaction() as txn:
            txn.create(
                "r",
                "text: bytes, n: int64, other: bytes, v: int64",
                key=("text", "n", "other"),
                scans="count",
            )
            txn.create("word", "text: bytes, v: int64", key="text")
        self.models[self.store.version] = {}

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    @initialize(target=branches)
    def main(self) -> str:
        return "main"

    @rule(target=branches, name=st.sampled_from(["one", "two"]))
    def branch(self, name: str) -> str:
        if name not in self.store.branches:
            self.store.branch(name)
        return name

    def model_of(self, branch: str) -> Rows:
        return self.models[self.store.branches[branch]]

    @rule(branch=branches, edits=EDITS)
    def commit(self, branch: str, edits: list) -> None:
        rows = dict(self.model_of(branch))
        with self.store.transaction(branch=branch) as txn:
            for adds, (n, text, other), value in edits:
                key = text, n, other
                if adds:
                    txn["r"].set([(*key, value)])
                    rows[key] = value
                else:
                    txn["r"].delete([key])
                    rows.pop(key, None)
            words = {text: value for (text, _, _), value in sorted(rows.items())}
            txn["word"].delete([row for row in txn["word"] if row[0] not in words])
            txn["word"].set([*words.items()])
            self.same(txn["r"], rows)
        self.models[self.store.branches[branch]] = rows

    @rule(branch=branches, edits=EDITS)
    def undone(self, branch: str, edits: list) -> None:
        rows = self.model_of(branch)
        txn = self.store.transaction(branch=branch)
        txn["r"].set([(text, n, other, value) for _, (n, text, other), value in edits])
        with_them = rows | {(text, n, other): value for _, (n, text, other), value in edits}
        self.same(txn["r"], with_them)
        txn.rollback()
        self.same(self.store.snapshot(branch)["r"], rows)

    def same(self, relation: pagestore.Relation, rows: Rows) -> None:
        expected = [(*key, value) for key, value in sorted(rows.items())]
        assert list(relation) == expected and len(relation) == len(expected)

    @rule(branch=branches, lo=BOUNDS, hi=BOUNDS)
    def ranges(self, branch: str, lo: tuple, hi: tuple) -> None:
        keys = sorted(self.model_of(branch))
        with self.store.snapshot(branch) as snapshot:
            relation, word = snapshot["r"], snapshot["word"]
            some = [key for key in keys if key >= lo and (not hi or key < hi)]
            part = relation.range(lo, hi)
            assert [row[:3] for row in part] == some and len(part) == len(some) == part.scan(
                "count"
            )
            assert [row[:3] for row in reversed(part)] == some[::-1]
            assert (part.first() or ())[:3] == (some[0] if some else ())
            assert (part.last() or ())[:3] == (some[-1] if some else ())
            assert part.scan("min:text") == min((key[0] for key in some), default=None)
            assert part.scan("max:other,n") == max(((key[2], key[1]) for key in some), default=None)
            if some:
                assert part.select(len(some) // 2)[:3] == some[len(some) // 2]
                assert part.rank(some[-1]) == len(some) - 1 and relation.rank(
                    some[0]
                ) == keys.index(some[0])
            texts = sorted({key[0] for key in keys})
            low, high = lo[:1], hi[:1]
            few = [text for text in texts if (text,) >= low and (not high or (text,) < high)]
            assert [text for text, _ in word.range(low, high)] == few
            for beginning in lo[:1]:
                assert [r[0] for r in word.starts_with(beginning)] == [
                    t for t in texts if t.startswith(beginning)
                ]
                assert [row[:3] for row in relation.prefix(beginning)] == [
                    key for key in keys if key[0] == beginning
                ]

    @rule(data=st.data())
    def differences(self, data: st.DataObject) -> None:
        old, new = (data.draw(st.sampled_from(sorted(self.models)[1:])) for _ in range(2))
        changes = self.store.diff(old, new, "r").read_all().to_pylist()
        before, after = self.models[old], self.models[new]
        expected = [
            (*key, before[key], "delete") for key in before if after.get(key) != before[key]
        ]
        expected += [(*key, after[key], "insert") for key in after if before.get(key) != after[key]]
        assert [tuple(change.values()) for change in changes] == sorted(
            expected, key=lambda row: (row[:3], row[4])
        )

    @rule()
    def versions(self) -> None:
        for version, rows in [*self.models.items()][1:]:
            with self.store.at(version) as snapshot:
                self.same(snapshot["r"], rows)

    @rule()
    def check(self) -> None:
        assert self.store.check() == []

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = pagestore.open(self.path, sync="off")

    @rule()
    def compact(self) -> None:
        retained = {**self.models}
        self.store.compact()
        kept = {line.version for line in self.store.history()}
        self.models = {0: {}} | {
            version: rows for version, rows in retained.items() if version in kept
        }
        for version in self.store.branches.values():
            if version not in self.models:  # compact makes a version of its own
                self.models[version] = self.models_before(retained, version)
        for version in self.store.branches.values():
            with self.store.at(version) as snapshot:
                self.same(snapshot["r"], self.models[version])

    def models_before(self, retained: dict[int, Rows], version: int) -> Rows:
        with self.store.at(version) as snapshot:
            rows = {row[:3]: row[3] for row in snapshot["r"]}
        assert rows in retained.values()
        return rows

    @rule()
    def copies(self) -> None:
        rows = self.model_of("main")
        dumped, saved = io.BytesIO(), io.BytesIO()
        self.store.dump(dumped)
        self.store.backup(saved)
        for name, make in (("dumped", self.restored), ("saved", self.unpacked)):
            path = Path(self.folder.name) / name
            make(path, dumped if name == "dumped" else saved)
            with pagestore.open(path, sync="off") as copy:
                self.same(copy.snapshot()["r"], rows)
                assert copy.check() == []
                with copy.transaction() as txn:
                    txn["r"].set([(URL, 0, b"new", 1), (b"", 0, b"new", 1)])
                self.same(copy.snapshot()["r"], rows | {(URL, 0, b"new"): 1, (b"", 0, b"new"): 1})
                assert copy.check() == []
            path.unlink()

    def restored(self, path: Path, data: io.BytesIO) -> None:
        with pagestore.open(path, sync="off") as copy:
            copy.restore(io.BytesIO(data.getvalue()))

    def unpacked(self, path: Path, data: io.BytesIO) -> None:
        backup.restore_backup(path, [io.BytesIO(data.getvalue())])


TestTextMachine = TextMachine.TestCase
TestTextMachine.settings = settings(max_examples=times(6), stateful_step_count=20, deadline=None)
