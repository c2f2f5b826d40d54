"""A concat is its text wherever rows are read: rows, Arrow, numpy, frames, changes, subscribers, exports, commands."""

import json
import random
from collections import defaultdict

import pyarrow as pa
import pytest

import ivm
import pagestore
from ivm import rope
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
    """The texts by view and key; those that are ordered alike are in the order of the other variables."""
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
                gone, come = as_rows(old[view]) - as_rows(texts), as_rows(texts) - as_rows(old[view])
                assert sorted(map(str, changes)) == sorted(map(str, told[view]))
                for kind, wanted in (("delete", gone), ("insert", come)):
                    some = [tuple(row.values())[:-1] for row in changes if row["_change_type"] == kind]
                    assert (len(some), {*some}) == (len(wanted), wanted)
        assert ws.check() == []


def compare(ws: ivm.Workspace, view: str, texts: dict[tuple, str]) -> None:
    found, wanted = ws[view], as_rows(texts)
    table = found.to_arrow()
    assert table.schema == found.schema.arrow and table.schema.types[-1] == pa.string()
    numpy = found.to_numpy()
    for rows in (
        [*found], [*reversed(found)], zip(*table.to_pydict().values(), strict=True), zip(*numpy.values(), strict=True),
        [row for batch in found.batches() for row in zip(*batch.to_pydict().values(), strict=True)],
        zip(*pa.table(found).to_pydict().values(), strict=True),
        found.to_pandas().itertuples(index=False, name=None), found.to_polars().iter_rows(),
        found.to_duckdb().fetchall(), ws.evaluate(view), ws.store.snapshot()[view],
    ):  # fmt: skip
        assert {*map(tuple, rows)} == wanted
    for row in wanted:
        assert row in found and (*row[:-1], "nobody's") not in found
        if row[:-1]:
            assert found[row[:-1]] == found.get(row[:-1]) == row[-1] == str(ws.rope(view, *row[:-1]))
            assert list(found.prefix(*row[:-1])) == [row]
    if wanted and view != "all":
        keys = [*{row[:-1] for row in wanted}, ("nobody",) if view != "by" else (9, "nobody")]
        there, columns = found.get_many(keys)
        assert list(there) == [True] * len(wanted) + [False]
        assert [*columns["t"]] == [texts[key] for key in keys[:-1]] + [""]
        assert dict(found.items()) == {key if len(key) > 1 else key[0]: text for key, text in texts.items()}


def test_commands_and_processes_have_the_texts(tmp_path, capsys):
    file = str(tmp_path / "s.pages")
    with ivm.open(file, sync="off") as ws:
        ws.install(RULES)
        ws.exec('+said("x", 1, "tea"). +said("x", 2, "cake").')
        assert list(ws.query("q[w] = t <- agg<<t = concat(m)>> said(w, _, m).")) == [("x", "teacake")]
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
        assert list(store.snapshot()["said"]) == [("x", 1, "tea")] and len([*store.snapshot()["line"]]) == 1
