"""The `pagestore` commands: what they print, what they change, and their exit codes."""

import json
import os
import re
import shutil
import termios

import pytest
from crc32c import crc32c

import ivm
import pagestore
from pagestore.errors import CorruptionError
from pagestore.pages.layout import CRC, ID, WORD
from pagestore.trees.read import pages_of
from pagestore.values.dictionary import TEXTS
from pagestore_tools.cli.main import pagestore as command
from pagestore_tools.cli.progress import ERASE_LINE, Progress


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "graph.pages"
    with pagestore.open(path, sync="off") as store:
        for n in range(1, 6):
            with store.transaction(message=f"commit {n}") as txn:
                if n == 1:
                    txn.create("edge", "x: int64, y: int64")
                    txn.create("price", "item: string, price: decimal(9,2)", key="item")
                txn["edge"].insert([(n, i) for i in range(100)])
        store.tag("three", 3)
    return path


def answer(capsys, *words):
    """Run a command with --json; (exit code, its answer)."""
    code = command([*map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out)


def damage(file, relation="edge"):
    """Flip a bit in a leaf of a relation."""
    with pagestore.open(file, mode="r") as store:
        at = store.snapshot()[relation].tree.root * store.page_size + 800
    content = bytearray(file.read_bytes())
    content[at] ^= 4
    file.write_bytes(content)


def test_info(file, capsys):
    code, data = answer(capsys, "info", file)
    assert code == 0
    assert data["relations"]["edge"] == {
        "rows": 500,
        "schema": "x: int64, y: int64",
        "key": ["x", "y"],
    }
    assert (data["version"], data["tags"], data["branches"]) == (5, {"three": 3}, {"main": 5})


def test_fsck_says_ok_and_finds_damage(file, capsys):
    assert command(["fsck", str(file)]) == 0
    assert capsys.readouterr().out.startswith("ok: version 5")
    damage(file)
    code, data = answer(capsys, "fsck", file)
    assert code == 1
    assert {violation["invariant"] for violation in data["violations"]} == {"checksum"}


def test_who_meets_a_bad_page_is_shown_the_way_on(file, capsys):
    damage(file)
    assert command(["dump", str(file), "-o", os.devnull]) == 1
    assert f"`pagestore fsck {file}` says what else is damaged" in capsys.readouterr().err


def test_salvage_keeps_what_reads(file, tmp_path, capsys):
    with pagestore.open(file, sync="off") as store, store.transaction() as txn:
        txn["edge"].insert([(n, 7 * n) for n in range(20_000)])
        txn["price"].insert([("tea", 3), ("coffee", 4)])
    with pagestore.open(file, mode="r") as store:
        snapshot = store.snapshot()
        rows = len(snapshot["edge"])
        leaf = pages_of(snapshot.pages, snapshot.tree("edge"))[2]
        at = int(leaf) * store.page_size + 100
        snapshot.close()
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)
    code, data = answer(capsys, "fsck", file, "--salvage", tmp_path / "saved.pages")
    assert code == 1
    assert [part["page"] for part in data["lost"]] == [leaf]
    with pagestore.open(tmp_path / "saved.pages") as saved:
        assert 0 < rows - len(saved.snapshot()["edge"]) < 4000
        assert len(saved.snapshot()["price"]) == 2
        assert saved.check() == []


@pytest.mark.parametrize("which", ["history", "free list"])
def test_damage_to_accounts_of_pages_is_named_and_salvage_needs_none(tmp_path, capsys, which):
    path = tmp_path / "s.pages"
    with pagestore.open(path, sync="off", retain="all") as store:
        for i in range(140):
            with store.transaction() as txn:
                (txn["r"] if i else txn.create("r", "x: int64")).insert([(i,)])
        if which == "free list":
            with store.transaction() as txn:
                txn.create("wide", "x: int64").insert([(i,) for i in range(300_000)])
            with store.transaction() as txn:
                txn.drop("wide")
            store.vacuum(keep_versions=1)
            store.retain = 5
        state = store._handle.state
        page = state.versions.tree.root if which == "history" else state.commit.checkpoint.page
    assert page
    overwrite(path, page, store.page_size)
    code, data = answer(capsys, "fsck", path, "--salvage", tmp_path / "saved.pages")
    assert code == 1 and data["lost"] == []
    assert (
        data["violations"][0]["invariant"] == "checksum" and data["violations"][0]["page"] == page
    )
    assert {violation["invariant"] for violation in data["violations"]} <= {"checksum", "record"}
    with pagestore.open(tmp_path / "saved.pages") as saved:
        assert saved.check() == [] and len(saved.snapshot()["r"]) == 140
    if which == "free list":
        with pytest.raises(
            CorruptionError, match="mode='r' reads the store, pagestore fsck --salvage copies it"
        ):
            pagestore.open(path)


def test_salvage_needs_no_settings(file, tmp_path, capsys):
    with pagestore.open(file, mode="r") as store:
        overwrite(file, store._handle.state.commit.settings.page, store.page_size)
    assert command(["info", str(file)]) == 1
    assert "pagestore fsck --salvage OUT saves what reads" in capsys.readouterr().err
    code, data = answer(capsys, "fsck", file, "--salvage", tmp_path / "saved.pages")
    assert code == 1 and data["salvaged"] == 5 and data["lost"] == []
    with pagestore.open(tmp_path / "saved.pages") as saved:
        assert saved.check() == [] and len(saved.snapshot()["edge"]) == 500


@pytest.mark.parametrize("how", ["both slots", "cut"])
def test_salvage_without_a_way_in(file, tmp_path, capsys, how):
    with pagestore.open(file, sync="off") as store, store.transaction() as txn:
        txn["edge"].insert([(n, 7 * n) for n in range(20_000)])
    content = bytearray(file.read_bytes())
    if how == "cut":
        del content[-47 * 8192 - 20_000 :]  # the reserve, and more
    else:
        content[:8192] = bytes(8192)
    file.write_bytes(content)
    assert command(["fsck", str(file)]) == 1
    assert "salvage" in capsys.readouterr().err
    code, data = answer(capsys, "fsck", file, "--salvage", tmp_path / "saved.pages")
    assert code == 1
    with pagestore.open(tmp_path / "saved.pages") as saved:
        assert saved.check() == []
        assert len(saved.snapshot()["edge"]) > (10_000 if how == "both slots" else 0)
    assert how == "cut" or data["lost"] == []


def test_salvage_falls_back_on_a_version_that_reads(file, tmp_path, capsys):
    with pagestore.open(file, sync="off") as store:
        before = store.version
        with store.transaction() as txn:
            txn.create("more", "x: int64").insert([(1,)])
        overwrite(file, store.snapshot()._version.catalog.run.page, store.page_size)
    assert command(["fsck", str(file)]) == 1
    assert f"version {before + 1} does not read" in capsys.readouterr().out
    code, data = answer(capsys, "fsck", file, "--salvage", tmp_path / "saved.pages")
    assert code == 1 and data["salvaged"] == before and data["lost"] == []
    with pagestore.open(tmp_path / "saved.pages") as saved, pagestore.open(file, mode="r") as store:
        assert [*saved.snapshot()] == [*store.at(before)] == ["edge", "price"]
        assert saved.check() == []


def test_salvage_says_which_records_lack_a_text(file, tmp_path, capsys):
    with pagestore.open(file, sync="off") as store:
        with store.transaction() as txn:
            names = txn.create("names", "n: int64, name: string", key=("n",))
            names.insert([(n, f"the name of number {n}") for n in range(4_000)])
        snapshot = store.snapshot()
        texts = snapshot._version.trees[TEXTS.tree_id]
        page = int(pages_of(snapshot.pages, texts)[2])
        overwrite(file, page, store.page_size)
    code, data = answer(capsys, "fsck", file, "--salvage", tmp_path / "saved.pages")
    keys = [part["after"] for part in data["lost"]]
    assert (
        code == 1
        and keys
        and all(part["page"] is None and part["before"] == part["after"] for part in data["lost"])
    )
    with pagestore.open(tmp_path / "saved.pages") as saved:
        left = [n for n, _ in saved.snapshot()["names"]]
    assert sorted([*left, *(n for (n,) in keys)]) == list(range(4_000))


def test_salvage_takes_no_leaf_from_before_a_write_that_was_lost(file, tmp_path, capsys):
    with pagestore.open(file, sync="off") as store:
        with store.transaction() as txn:
            txn["edge"].insert([(n, 7 * n) for n in range(20_000)])
        snapshot, words = store.snapshot(), store.page_size // WORD
        _, stale, page, *_ = map(int, pages_of(snapshot.pages, snapshot.tree("edge")))
        leaf = snapshot.pages.words[stale * words : (stale + 1) * words].copy()
        rows = len(snapshot["edge"])
    leaf[ID] = page
    leaf[CRC] = crc32c(leaf[1:].data)
    with file.open("r+b") as out:
        out.seek(page * store.page_size)
        out.write(leaf)
    code, data = answer(capsys, "fsck", file, "--salvage", tmp_path / "saved.pages")
    assert code == 1 and [part["page"] for part in data["lost"]] == [page]
    with pagestore.open(tmp_path / "saved.pages") as saved:
        assert rows - 4000 < len(saved.snapshot()["edge"]) < rows


def overwrite(file, page, page_size):
    """Damage a page."""
    with file.open("r+b") as out:
        out.seek(page * page_size + 100)
        out.write(b"xxxx")


def test_salvage_makes_a_new_store_or_nothing(file, tmp_path, capsys):
    other = tmp_path / "other.pages"
    with pagestore.open(other) as store, store.transaction() as txn:
        txn.properties["of"] = "another"
    before = other.read_bytes()
    for taken in (other, file):
        assert command(["fsck", str(file), "--salvage", str(taken)]) == 1
        assert "already exists" in capsys.readouterr().err
    assert other.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph.pages", "other.pages"]


def test_a_file_in_a_folder_that_is_not_there_is_named_as_it_was(file, tmp_path, capsys):
    for words in (["dump", str(file), "-o"], ["backup", str(file)]):
        assert command([*words, str(tmp_path / "none" / "out")]) == 1
        folder = tmp_path / "none"
        assert (
            f"there is no folder {folder} for {folder}/out: make it first"
            in capsys.readouterr().err
        )


def test_progress_stays_within_a_line(monkeypatch):
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 40))
    with open(theirs, "w") as terminal, open(ours, "rb", buffering=0) as shown:
        monkeypatch.setattr("sys.stderr", terminal)
        Progress("dump")(f"to {'a long way' * 9}")
        assert (
            shown.read(200).decode() == ERASE_LINE + "dump: to a long waya long waya long waya"[:39]
        )


def test_json_has_no_infinity(file, capsys):
    with pagestore.open(file) as store, store.transaction() as txn:
        txn.create("float", "x: float64")
    with pagestore.open(file) as store, store.transaction() as txn:
        txn["float"].insert([(float("inf"),), (0.5,)])
    assert command(["diff", str(file), "6", "7", "float", "--json"]) == 1
    rows = [
        json.loads(line, parse_constant=pytest.fail)
        for line in capsys.readouterr().out.splitlines()
    ]
    assert rows == [{"change": "+", "x": 0.5}, {"change": "+", "x": "Infinity"}]


def test_streams_that_are_closed(file, monkeypatch):
    for stream in ("stdout", "stderr"):
        with monkeypatch.context() as patch:
            patch.setattr(f"sys.{stream}", None)
            assert command(["fsck", str(file)]) == 0


@pytest.mark.parametrize("named", ["/dev/fd/{}", "-"])
def test_restoring_from_a_pipe(file, tmp_path, monkeypatch, named):
    assert command(["dump", str(file), "-o", str(tmp_path / "d")]) == 0
    end, begin = os.pipe()
    assert os.write(begin, (tmp_path / "d").read_bytes()) < 65536
    os.close(begin)
    with open(end) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert command(["restore", named.format(stdin.fileno()), str(tmp_path / "r.pages")]) == 0
    with pagestore.open(tmp_path / "r.pages") as store:
        assert len(store.snapshot()["edge"]) == 500


def test_history_diff_tag_vacuum(file, capsys):
    assert [v["version"] for v in answer(capsys, "history", file, "--limit", 2)[1]["versions"]] == [
        5,
        4,
    ]
    assert command(["diff", str(file), "three", "4", "edge"]) == 1
    assert capsys.readouterr().out.splitlines()[0] == "+ 4, 0"
    assert command(["diff", str(file), "3", "3", "edge"]) == 0
    assert command(["diff", str(file), "3", "4", "no such"]) == 2
    assert answer(capsys, "tag", file, "four", 4)[1]["tags"] == {"three": 3, "four": 4}
    assert answer(capsys, "tag", file, "newest", "main")[1]["tags"] == {
        "three": 3,
        "four": 4,
        "newest": 5,
    }
    assert command(["tag", str(file), "newest", "--delete"]) == 0
    capsys.readouterr()
    assert answer(capsys, "tag", file, "four", "--delete")[1]["tags"] == {"three": 3}
    planned = answer(capsys, "vacuum", file, "--keep", 1, "--dry-run")[1]
    done = answer(capsys, "vacuum", file, "--keep", 1)[1]
    assert planned["dropped"] == done["dropped"] == [0, 1, 2, 4]
    assert list(done["kept"]) == ["3"]
    assert command(["fsck", str(file), "--quiet"]) == 0


def test_dump_and_restore(file, tmp_path, capsys):
    assert (
        command(
            ["dump", str(file), "-o", str(tmp_path / "d"), "--version", "three", "--version", "5"]
        )
        == 0
    )
    assert re.fullmatch(r".*/d: [\d.]+ KiB\n", capsys.readouterr().out)
    assert answer(capsys, "restore", tmp_path / "d", tmp_path / "r.pages")[1]["versions"] == [1, 2]
    with pagestore.open(file) as old, pagestore.open(tmp_path / "r.pages") as new:
        assert new.at("three")["edge"].to_arrow() == old.at("three")["edge"].to_arrow()
        assert new.snapshot()["edge"].to_arrow() == old.snapshot()["edge"].to_arrow()
    assert command(["restore", str(tmp_path / "d"), str(tmp_path / "r.pages")]) == 1
    assert "already exists" in capsys.readouterr().err
    (tmp_path / "cut").write_bytes((tmp_path / "d").read_bytes()[:-30])
    assert command(["restore", str(tmp_path / "cut"), str(tmp_path / "c.pages")]) == 1
    assert "cut off at byte" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "cut",
        "d",
        "graph.pages",
        "r.pages",
    ]
    assert command(["restore", str(tmp_path / "d"), str(tmp_path / "c.pages")]) == 0


def test_backups(file, tmp_path, capsys):
    full, increment = tmp_path / "full", tmp_path / "inc"
    assert answer(capsys, "backup", file, full)[1] == {"version": 5}
    with pagestore.open(file) as store, store.transaction() as txn:
        txn["edge"].insert([(99, 99)])
    assert answer(capsys, "backup", file, increment, "--since", 5)[1] == {"version": 6}
    assert command(["restore", str(full), str(increment), str(tmp_path / "b.pages")]) == 0
    assert command(["fsck", str(tmp_path / "b.pages"), "--quiet"]) == 0
    with pagestore.open(tmp_path / "b.pages") as store:
        assert store.version == 6
        assert (99, 99) in store.snapshot()["edge"]
        with store.transaction() as txn:
            txn["edge"].insert([(100, 100)])
        assert store.check() == []
    assert command(["restore", str(increment), str(tmp_path / "x.pages")]) == 1
    assert (
        "goes on from version 5 and cannot come first: give one full backup"
        in capsys.readouterr().err
    )
    assert command(["restore", str(full), str(full), str(tmp_path / "x.pages")]) == 1
    assert "is a full one and cannot follow version 5" in capsys.readouterr().err
    with pagestore.open(tmp_path / "other.pages") as other, open(tmp_path / "other", "wb") as out:
        other.backup(out)
    assert (
        command(["restore", str(tmp_path / "other"), str(increment), str(tmp_path / "x.pages")])
        == 1
    )
    assert "of another store" in capsys.readouterr().err
    increment.write_bytes(increment.read_bytes()[:-1])
    assert command(["restore", str(full), str(increment), str(tmp_path / "x.pages")]) == 1
    assert "the backup is cut off" in capsys.readouterr().err


def test_a_dump_is_not_shown_on_a_terminal(file, monkeypatch, capsys):
    _, theirs = os.openpty()
    with open(theirs, "w") as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        with pytest.raises(SystemExit) as exit_:
            command(["dump", str(file)])
    assert exit_.value.code == 2 and "name a file with -o" in capsys.readouterr().err


def test_a_copy_takes_no_place_before_it_is_whole(file, tmp_path, capsys):
    store, good = file.read_bytes(), tmp_path / "good"
    for words in (["backup", file, file], ["dump", file, "-o", file]):
        assert command([*map(str, words)]) == 1
        assert "is the store itself" in capsys.readouterr().err
    assert file.read_bytes() == store
    for begin in (["backup", file, good], ["dump", file, "-o", good]):
        assert command([*map(str, begin)]) == 0
        good.chmod(0o600)
        before = good.read_bytes()
        for wrong in (
            (["--since", "77"],)
            if begin[0] == "backup"
            else (["--version", "77"], ["--relation", "egde"])
        ):
            assert command([*map(str, begin), *wrong]) == 1
            assert good.read_bytes() == before
        assert command([*map(str, begin)]) == 0
        assert good.stat().st_mode & 0o777 == 0o600
    assert command(["dump", str(file), "-o", "/dev/null"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good", "graph.pages"]


def test_compact_stat_page(file, capsys):
    with pagestore.open(file, sync="off", retain="all") as store:
        for n in range(40):
            with store.transaction() as txn:
                txn["edge"].insert([(n, -1)])
    before = file.stat().st_size
    data = answer(capsys, "compact", file)[1]
    # the reserve
    assert data["after"] < before / 2 and file.stat().st_size == data["after"] + 47 * 8192
    with pagestore.open(file, mode="r") as store, store.snapshot() as snapshot:
        stat = answer(capsys, "stat", file)[1]
        assert stat["relations"]["edge"] == 1
        assert [reader["version"] for reader in stat["readers"]] == [snapshot.version]
    with pagestore.open(file, mode="r") as store:
        root = store.snapshot()["edge"].tree.root
    assert command(["page", str(file), str(root)]) == 0
    assert f"page {root}: leaf, level 0" in capsys.readouterr().out
    assert command(["page", str(file), "999999"]) == 1


@pytest.mark.parametrize(
    "words", [["info", "none.pages"], ["fsck", "none.pages"], ["vacuum", "none.pages"]]
)
def test_no_file(words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command(words) == 1
    assert "none.pages" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["diff", "x.pages"], "required: old, new, relation"),
        (["tag", "FILE", "--delete"], "--delete needs the name of a tag"),
        (["tag", "FILE", "three", "3", "--delete"], "leave the version out"),
        (["history", "FILE", "--limit", "-1"], "argument --limit: -1: a number from 0 on"),
        (["restore", "DUMP", "DUMP", "NEW"], "restore one alone"),
    ],
)
def test_usage_is_exit_2(file, tmp_path, capsys, words, said):
    files = {"FILE": file, "DUMP": tmp_path / "d", "NEW": tmp_path / "new.pages"}
    assert command(["dump", str(file), "-o", str(files["DUMP"])]) == 0
    with pytest.raises(SystemExit) as caught:
        command([str(files.get(word, word)) for word in words])
    assert caught.value.code == 2
    assert said in capsys.readouterr().err
    assert not files["NEW"].exists()


def test_branches_are_merged_reverted_and_picked(tmp_path, capsys):
    """In git's words; a dry run stores nothing, and views follow."""
    path = tmp_path / "s.pages"
    with ivm.open(path) as ws:
        ws.install(
            "paid[who] = n -> string(who), int(n). t[] = s <- agg<<s = sum(n)>> paid[_] = n."
        )
        ws.insert("paid", [("ada", 1)])
    assert answer(capsys, "branch", path, "side")[1]["branches"] == {"main": 2, "side": 2}
    with ivm.open(path, branch="side") as ws:
        ws.set("paid", [("ada", 5), ("bob", 2)])
    with ivm.open(path) as ws:
        ws.set("paid", [("ada", 3)])
    tried = answer(capsys, "merge", path, "side", "--on-conflict", "sum", "--dry-run")[1]
    assert [one["key"] for one in tried["conflicts"]] == [["ada"]]
    assert tried["changes"]["t"][-1] == {"s": 9, "_change_type": "insert"}
    assert command(["merge", str(path), "side"]) == 1
    said = "paid['ada'] was 1, is 3 since version 4 here and 5 since version 3 there"
    assert said in capsys.readouterr().err
    assert answer(capsys, "merge", path, "side", "--on-conflict", "sum")[1]["version"] == 5
    with ivm.open(path, mode="r") as ws:
        assert list(ws["t"]) == [(9,)]
    assert command(["merge", str(path), "side"]) == 0
    assert capsys.readouterr().out == "there is nothing new\n"
    assert answer(capsys, "history", path)[1]["versions"][0]["merged"] == 3
    assert command(["revert", str(path), "5"]) == 0
    assert capsys.readouterr().out == "version 6\n"
    assert answer(capsys, "cherry-pick", path, 3, "--on-conflict", "theirs")[1]["version"] == 7
    with ivm.open(path, mode="r") as ws:
        assert list(ws["t"]) == [(7,)] and ws.check() == []
    assert answer(capsys, "branch", path, "side", "--delete")[1]["branches"] == {"main": 7}


def test_a_branch_is_rebased(tmp_path, capsys):
    """It begins on main's newest version; with rules of its own it is refused, and unchanged."""
    path = tmp_path / "s.pages"
    with ivm.open(path) as ws:
        ws.install("paid[who] = n -> string(who), int(n).")
        ws.store.branch("side")
        ws.on("side").insert("paid", ("ada", 1))
        ws.insert("paid", ("bob", 2))
    tried = answer(capsys, "rebase", path, "side", "--dry-run")[1]
    assert (tried["version"], len(tried["changes"]["paid"])) == (3, 1)
    assert answer(capsys, "rebase", path, "side")[1]["version"] == 4
    assert command(["rebase", str(path), "side", "--onto", "main"]) == 0
    assert capsys.readouterr().out == "there is nothing new\n"
    with ivm.open(path) as ws:
        assert list(ws.on("side")["paid"]) == [("ada", 1), ("bob", 2)]
        ws.on("side").install("t[] = s <- agg<<s = sum(n)>> paid[_] = n.", "total")
        ws.insert("paid", ("eve", 3))
    assert command(["rebase", str(path), "side"]) == 1
    assert "has rules or kept views of its own" in capsys.readouterr().err
    assert answer(capsys, "branch", path)[1]["branches"] == {"main": 6, "side": 5}


def test_copies_are_pulled_and_pushed(tmp_path, capsys):
    """Views follow on each side; what one lacks is pulled before a push."""
    path, laptop = tmp_path / "s.pages", tmp_path / "laptop.pages"
    with ivm.open(path) as ws:
        ws.install(
            "paid[who] = n -> string(who), int(n). t[] = s <- agg<<s = sum(n)>> paid[_] = n."
        )
        ws.insert("paid", [("ada", 1)])
    shutil.copy(path, laptop)
    for file, row in ((path, ("bob", 2)), (laptop, ("eve", 4))):
        with ivm.open(file) as ws:
            ws.insert("paid", row)
    assert command(["push", str(laptop), str(path)]) == 1
    assert "has changes of 'paid' that" in capsys.readouterr().err
    assert answer(capsys, "pull", laptop, path)[1]["version"] == 5
    assert answer(capsys, "push", laptop, path)[1]["version"] == 5
    assert command(["push", str(laptop), str(path)]) == 0
    assert capsys.readouterr().out == "there is nothing new\n"
    for file in (path, laptop):
        with ivm.open(file) as ws:
            assert list(ws["t"]) == [(7,)] and ws.check() == []
            ws.set("paid", [("ada", 10 + len(file.name))])
    assert command(["pull", str(path), str(laptop)]) == 1
    assert "conflicts in 1 row" in capsys.readouterr().err
    assert answer(capsys, "pull", path, laptop, "--on-conflict", "larger")[1]["version"] == 8
    assert answer(capsys, "pull", path, laptop, "--into", "theirs")[1]["version"] == 7
    assert [*answer(capsys, "branch", path)[1]["branches"].items()] == [
        ("main", 8), ("main of laptop.pages", 7), ("theirs", 7),
    ]  # fmt: skip
    with ivm.open(path) as ws:
        assert list(ws["t"]) == [(28,)]
