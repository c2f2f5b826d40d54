"""A concat is its text wherever rows are read: rows, Arrow, numpy, frames, changes, subscribers,
exports, commands.
"""

import json
import random
from collections import defaultdict
from datetime import datetime

import pyarrow as pa
import pytest

import ivm
import pagestore
from ivm.errors import UninstallError
from ivm.rules.installed import PROPERTY
from ivm.ways import rope
from pagestore_tools.cli.main import ivm as command
from pagestore_tools.cli.main import pagestore as store_command

RULES = """
said(who, at, what) -> string(who), int(at), string(what).
line[who] = t <- agg<<t = concat(what, at, ", ")>> said(who, at, what).
words[who] = t <- agg<<t = concat(what)>> said(who, _, what).
by[at, who] = t <- agg<<t = concat(what, "/")>> said(who, at, what).
all[] = t <- agg<<t = concat(what, at, who, " ")>> said(who, at, what).
"""
WORDS = ["b", "a", "", "ab", "\N{LATIN SMALL LETTER A WITH DIAERESIS}", "c,", "zz"]


def truth(rows: set[tuple[str, int, str]]) -> dict[str, dict[tuple, str]]:
    """The texts by view and key; those that are ordered alike are in the order of the other
    variables.
    """
    line, words, by = defaultdict(list), defaultdict(list), defaultdict(list)
    for who, at, what in rows:
        line[who,].append((at, what.encode(), what))
        words[who,].append((at, what.encode(), what))
        by[at, who].append((what.encode(), what))
    found = {
        "line": {key: ", ".join(text for *_, text in sorted(texts)) for key, texts in line.items()},
        "words": {key: "".join(text for *_, text in sorted(texts)) for key, texts in words.items()},
        "by": {key: "/".join(text for *_, text in sorted(texts)) for key, texts in by.items()},
    }
    order = sorted((at, who.encode(), what.encode(), what) for who, at, what in rows)
    return found | {"all": {(): " ".join(what for *_, what in order)} if rows else {}}


def as_rows(texts: dict[tuple, str]) -> set[tuple]:
    return {(*key, text) for key, text in texts.items()}


@pytest.mark.parametrize("few", [2, rope.FEW])
def test_every_reader_has_the_texts(few, tmp_path, monkeypatch):
    """After random edits, and of the versions before: also where groups are read together."""
    monkeypatch.setattr(rope, "FEW", few)
    rng, rows, told = random.Random(few), set(), defaultdict(list)
    with ivm.open(tmp_path / "s.pages", sync="off", retain="all") as ws:
        ws.install(RULES)
        for view in ("line", "words", "by", "all"):
            ws.subscribe(view, lambda table, view=view: told[view].extend(table.to_pylist()))
        for step in range(12):
            old, version, before = truth(rows), ws.store.version, set(rows)
            for _ in range(rng.choice([1, 6])):
                row = rng.choice("xyz"), rng.randrange(4), rng.choice(WORDS)
                rows.symmetric_difference_update({row})
            told.clear()
            with ws.transaction() if step % 2 else ws.store.transaction() as txn:
                edit = txn if step % 2 else txn["said"]
                for add, some in ((True, rows - before), (False, before - rows)):
                    if some:
                        take = edit.insert if add else edit.delete
                        take("said", [*some]) if step % 2 else take([*some])
            for view, texts in truth(rows).items():
                compare(ws, view, texts)
                assert {*ws.at(version)[view]} == as_rows(old[view])
                changes = ws.store.diff(version, ws.store.version, view).read_all().to_pylist()
                gone, come = (
                    as_rows(old[view]) - as_rows(texts),
                    as_rows(texts) - as_rows(old[view]),
                )
                assert sorted(map(str, changes)) == sorted(map(str, told[view]))
                for kind, wanted in (("delete", gone), ("insert", come)):
                    some = [
                        tuple(row.values())[:-1] for row in changes if row["_change_type"] == kind
                    ]
                    assert (len(some), {*some}) == (len(wanted), wanted)
        assert ws.check() == []


def compare(ws: ivm.Workspace, view: str, texts: dict[tuple, str]) -> None:
    found, wanted = ws[view], as_rows(texts)
    table = found.to_arrow()
    assert table.schema == found.schema.arrow and table.schema.types[-1] == pa.string()
    numpy = found.to_numpy()
    for rows in (
        [*found],
        [*reversed(found)],
        zip(*table.to_pydict().values(), strict=True),
        zip(*numpy.values(), strict=True),
        [row for batch in found.batches() for row in zip(*batch.to_pydict().values(), strict=True)],
        zip(*pa.table(found).to_pydict().values(), strict=True),
        found.to_pandas().itertuples(index=False, name=None),
        found.to_polars().iter_rows(),
        found.to_duckdb().fetchall(),
        ws.evaluate(view),
        ws.store.snapshot()[view],
    ):
        assert {*map(tuple, rows)} == wanted
    for row in wanted:
        assert row in found and (*row[:-1], "nobody's") not in found
        if row[:-1]:
            assert (
                found[row[:-1]] == found.get(row[:-1]) == row[-1] == str(ws.rope(view, *row[:-1]))
            )
            assert list(found.prefix(*row[:-1])) == [row]
    if wanted and view != "all":
        keys = [*{row[:-1] for row in wanted}, ("nobody",) if view != "by" else (9, "nobody")]
        there, columns = found.get_many(keys)
        assert list(there) == [True] * len(wanted) + [False]
        assert [*columns["t"]] == [texts[key] for key in keys[:-1]] + [""]
        assert dict(found.items()) == {
            key if len(key) > 1 else key[0]: text for key, text in texts.items()
        }


def test_commands_and_processes_have_the_texts(tmp_path, capsys):
    file = str(tmp_path / "s.pages")
    with ivm.open(file, sync="off") as ws:
        ws.install(RULES)
        ws.exec('+said("x", 1, "tea"). +said("x", 2, "cake").')
        assert list(ws.query("q[w] = t <- agg<<t = concat(m)>> said(w, _, m).")) == [
            ("x", "teacake")
        ]
        assert "tea, cake" in ws["line"]._repr_html_()
        with pytest.raises(pagestore.errors.SchemaError, match="are computed when they are read"):
            ws["line"].scan("max:t")
    for words in (
        ["print", file, "line", "--json"],
        ["query", file, 'q[w] = t <- agg<<t = concat(m, a, ", ")>> said(w, a, m).', "--json"],
    ):
        assert command(words) == 0
        assert [*json.loads(capsys.readouterr().out).values()] == ["x", "tea, cake"]
    assert store_command(["print", file, "line", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"who": "x", "t": "tea, cake"}
    assert command(["exec", file, '+said("x", 3, "ale").', "--rows"]) == 0
    assert "tea, cake, ale" in capsys.readouterr().out


def test_rules_that_do_not_compile_any_more_keep_no_row_from_its_reader(tmp_path):
    file = tmp_path / "s.pages"
    with ivm.open(file, sync="off") as ws:
        ws.install(RULES)
        ws.exec('+said("x", 1, "tea").')
    with pagestore.open(file) as store, store.transaction() as txn:
        txn.declare_maintained()
        txn.properties["ivm"] = txn.properties["ivm"].replace("line[who] = t", "line[who = t")
    with pagestore.open(file) as store:
        assert (
            list(store.snapshot()["said"]) == [("x", 1, "tea")]
            and len([*store.snapshot()["line"]]) == 1
        )


READERS = """
shown(who, t) <- line[who] = t.
same(who) <- line[who] = "a, b".
other(who) <- said(who, _, _), !(line[who] = "a, b").
mine(t) <- line["x"] = t.
heard(who) <- line[who] = t, said(_, _, t).
pairs(a, b) <- line[a] = s, line[b] = t, s < t.
most[] = m <- agg<<m = max(t)>> line[_] = t.
twice[t] = n <- agg<<n = count()>> line[_] = t.
nested[] = t <- agg<<t = concat(s, who, "|")>> line[who] = s.
there(who) <- line[who] = _.
"""
APART = "whole(t) <- all[] = t.\nlast(t) <- nested[] = t, !(all[] = t)."


def readers_truth(rows: set[tuple[str, int, str]]) -> dict[str, set[tuple]]:
    texts = truth(rows)
    line, all_ = {key[0]: text for key, text in texts["line"].items()}, texts["all"].get(())
    nested = "|".join(line[who] for who in sorted(line))
    return {
        "shown": {*line.items()},
        "same": {(who,) for who, text in line.items() if text == "a, b"},
        "other": {(who,) for who, text in line.items() if text != "a, b"},
        "mine": {(line["x"],)} if "x" in line else set(),
        "heard": {(who,) for who, text in line.items() if text in {what for *_, what in rows}},
        "pairs": {
            (a, b) for a, s in line.items() for b, t in line.items() if s.encode() < t.encode()
        },
        "most": {(max(line.values(), key=str.encode),)} if line else set(),
        "twice": {(text, [*line.values()].count(text)) for text in line.values()},
        "nested": {(nested,)} if line else set(),
        "there": {(who,) for who in line},
        "whole": set() if all_ is None else {(all_,)},
        "last": {(nested,)} if line and nested != all_ else set(),
    }


@pytest.mark.parametrize("maintenance", ["match", "probe"])
def test_rules_read_the_texts(maintenance, tmp_path):
    """In the same block and in another, in every place of a rule, under random edits, and after
    opening again.
    """
    rng, rows = random.Random(maintenance), set()
    ws = ivm.open(tmp_path / "s.pages", sync="off")
    ws.install(RULES, "first")
    ws.exec('+said("x", 0, "a"). +said("x", 1, "b").')
    rows |= {("x", 0, "a"), ("x", 1, "b")}
    ws.install(READERS, "readers", maintenance=maintenance)
    ws.install(APART, "apart", maintenance=maintenance)
    for step in range(12):
        for name, wanted in readers_truth(rows).items():
            assert {*ws[name]} == wanted, name
            assert {*ws.query(_question(ws, name))} == wanted, name
        before = set(rows)
        for _ in range(rng.choice([1, 6])):
            rows.symmetric_difference_update(
                {(rng.choice("xyz"), rng.randrange(2), rng.choice("ab"))}
            )
        with ws.transaction() as txn:
            txn.insert("said", [*rows - before])
            txn.delete("said", [*before - rows])
        if step % 4 == 3:
            assert ws.check() == []
            ws.store.vacuum()
            ws.close()
            ws = ivm.open(tmp_path / "s.pages", sync="off")
    ws.exec("".join(f'-said("{who}", {at}, "{what}").' for who, at, what in rows))
    assert {name: {*ws[name]} for name in readers_truth(set())} == readers_truth(set())
    ws.close()


def _question(ws: ivm.Workspace, name: str) -> str:
    terms = [*"ab"[: len(ws.predicates[name].types)]]
    found = f"{name}({', '.join(terms)})"
    if ws.predicates[name].value is not None:
        found = f"{name}[{', '.join(terms[:-1])}] = {terms[-1]}"
    return f"q({', '.join(terms)}) <- {found}."


def test_only_the_texts_of_changed_groups_are_assembled(tmp_path, monkeypatch):
    with ivm.open(tmp_path / "s.pages", sync="off") as ws:
        ws.install(RULES, "first")
        ws.install(
            'all_(t) <- line[_] = t. one(t) <- line["w7"] = t. any(w) <- line[w] = _.', "readers"
        )
        with ws.transaction() as txn:
            txn.insert("said", [(f"w{n % 100}", n, "text") for n in range(1000)])
        assembled = []
        texts_of = rope.texts_of
        monkeypatch.setattr(
            rope,
            "texts_of",
            lambda txn, keys, *of: assembled.append(keys.shape[1]) or texts_of(txn, keys, *of),
        )
        ws.exec('+said("w3", 5000, "more").')
        assert assembled == [1]  # of all_; one does not ask for this group
        ws.exec('+said("w7", 5000, "more").')
        assert assembled == [1, 1, 1]
        assert list(ws.query('q(t) <- line["w7"] = t.')) == [(", ".join(["text"] * 10 + ["more"]),)]
        assert assembled == [1, 1, 1, 1]


def test_blocks_that_read_texts_are_replaced_uninstalled_and_kept_from_earlier_releases(tmp_path):
    with ivm.open(tmp_path / "s.pages", sync="off") as ws:
        ws.install(RULES, "first")
        ws.exec('+said("x", 0, "a"). +said("y", 1, "b").')
        assert not _has_texts(ws)
        ws.install("shown(w, t) <- line[w] = t.", "readers")
        assert _has_texts(ws)
        pages = {name: ws.store.snapshot().tree(name).root for name in ("shown", "shown$text0")}
        ws.install("shown(w, t) <- line[w] = t. more(t) <- shown(_, t).", "readers", replace=True)
        assert pages == {name: ws.store.snapshot().tree(name).root for name in pages}
        with pytest.raises(
            UninstallError, match="line is read by shown, more|line is read by shown"
        ):
            ws.uninstall("first")
        ws.uninstall("readers")
        assert not _has_texts(ws) and "shown$text0" not in ws.store.snapshot()
        ws.uninstall("first")


def _has_texts(ws: ivm.Workspace) -> bool:
    """Whether the store says that its rules read texts, which an earlier release would refuse."""
    return any(
        block.get("texts")
        for block in json.loads(ws.store.snapshot().properties[PROPERTY])["blocks"]
    )


@pytest.mark.parametrize(
    ("type_", "value"), [("int", 3), ("string", "k"), ("datetime", datetime(2020, 1, 2))]
)
def test_a_group_may_have_a_null_as_its_key(type_: str, value: object) -> None:
    with ivm.open(":memory:") as ws:
        ws.install(f"of[x] = v -> int(x), {type_}?(v).  said(x, t) -> int(x), string(t).", "data")
        ws.install('all[v] = r <- agg<<r = concat(t, "+")>> of[x] = v?, said(x, t).', "rules")
        with ws.transaction() as txn:
            txn.insert("of", [(1, None), (2, value)])
            txn.insert("said", [(1, "a"), (1, "b"), (2, "c")])
        assert [*ws["all"]] == [(None, "a+b"), (value, "c")]
        assert (str(ws.rope("all", None)), str(ws.rope("all", value))) == ("a+b", "c")
