"""What commands print for people only shows: no text of a store or an error moves a cursor, or
turns text round.
"""

import io
import json
import unicodedata
from pathlib import Path

import pytest

import ivm
from pagestore_tools.cli import main

BAD = "a\x1b[2J\r\x00\x07\x9b31m\x85\u202e\u2066\u2028\x7f\ufeffz"
SHOWN = r"a\x1b[2J\r\x00\x07\x9b31m\x85\u202e\u2066\u2028\x7f\ufeffz"
LINES = f"{BAD}\nforged"
RULES = "t(x, y) -> int(x), string(y). v(y) <- t(_, y)."
FACTS = f"+t(3, {json.dumps(LINES)})."


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "store.pages"
    with ivm.open(path, sync="off") as workspace:
        workspace.install(RULES, BAD)
        with workspace.transaction() as txn:
            txn.insert("t", [(1, LINES), (2, BAD)])
        store = workspace.store
        with store.transaction(message=LINES) as txn:
            txn.create(f"r{BAD}", f"k{BAD}: string").insert([LINES])
        store.tag(f"t{BAD}")
        store.branch(f"b{BAD}", "main")
    return str(path)


@pytest.mark.parametrize(
    ("program", "words", "exit_code", "said"),
    [
        ("pagestore", ["info", "FILE"], 0, rf"r{SHOWN}"),
        ("pagestore", ["stat", "FILE"], 0, rf"r{SHOWN}"),
        ("pagestore", ["fsck", "FILE"], 0, "ok"),
        ("pagestore", ["history", "FILE"], 0, rf"{SHOWN}\nforged"),
        ("pagestore", ["diff", "FILE", "1", "2", "t"], 1, rf"+ 1, {SHOWN}\nforged"),
        ("pagestore", ["diff", "FILE", "1", "2", f"x{BAD}"], 2, SHOWN),
        ("pagestore", ["tag", "FILE"], 0, rf"t{SHOWN} 3"),
        ("pagestore", ["tag", "FILE", f"u{LINES}"], 0, SHOWN),
        ("pagestore", ["tag", "FILE", BAD, BAD], 1, "x1b"),
        ("pagestore", ["dump", "FILE", "--relation", BAD, "-o", "/dev/null"], 1, "x1b"),
        ("pagestore", ["load", "FILE", "r", f"no{LINES}", "--key", "x"], 1, SHOWN),
        ("pagestore", ["info", "no" + LINES.replace("\0", "")], 1, "x1b"),
        ("pagestore", ["page", "FILE", "99999"], 1, "page"),
        ("ivm", ["print", "FILE"], 0, f"installed: {SHOWN}"),
        ("ivm", ["print", "FILE", "t"], 0, rf"{SHOWN}\nforged"),
        ("ivm", ["print", "FILE", BAD], 1, "x1b"),
        ("ivm", ["query", "FILE", "q(y) <- t(_, y)."], 0, rf"{SHOWN}\nforged"),
        ("ivm", ["query", "FILE", f"q(y) <- {BAD}(y)."], 1, "x1b"),
        ("ivm", ["query", "FILE", f"q(y) <- t(_, y), y = {json.dumps(LINES)}, y < 3."], 1, "q"),
        ("ivm", ["exec", "FILE", FACTS, "--rows"], 0, "version"),
        ("ivm", ["exec", "FILE", f'+t(4, "new {BAD[1]}")'], 1, "exec"),
        ("ivm", ["explain", "FILE", "v"], 0, "v:"),
        ("ivm", ["explain", "FILE", BAD], 1, "x1b"),
        ("ivm", ["uninstall", "FILE", f"x{BAD}"], 1, "x1b"),
        ("ivm", ["uninstall", "FILE", BAD], 0, SHOWN),
        ("ivm", ["trace", "FILE", "v", "1", "2"], 0, "v"),
        (
            "ivm",
            ["install", "FILE", "RULES", "--name", f"n{LINES}"],
            0,
            rf"n{SHOWN}\nforged installed",
        ),
    ],
)
def test_nothing_but_shown(program, words, exit_code, said, file, tmp_path, capsys):
    rules = tmp_path / "rules"
    rules.write_text(f"w(y) <- t(_, y), y != {json.dumps(LINES)}.")
    words = [{"FILE": file, "RULES": str(rules)}.get(word, word) for word in words]
    assert getattr(main, program)(words) == exit_code
    harmless(capsys, said)


def test_the_shell(file, capsys, monkeypatch):
    lines = f":print t\n:list\n:explain v\n:print no{BAD.replace(chr(13), '')}\nq(y) <- t(1, y).\n?{BAD[1]}.\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    main.ivm(["shell", file])
    harmless(capsys, rf"{SHOWN}\nforged")


def harmless(capsys, said):
    out, err = capsys.readouterr()
    assert said in out + err
    assert "\nforged" not in (out + err).replace("\\nforged", "")
    for letter in (out + err).replace("\n", ""):
        assert unicodedata.category(letter) not in ("Cc", "Cf", "Zl", "Zp"), (letter, out, err)


def test_json_is_as_it_was(file, capsys):
    assert main.ivm(["print", file, "t", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(row["y"] for row in rows) == sorted([LINES, BAD])


@pytest.mark.parametrize("width", [40, 80])
def test_long_lines_end_between_words_on_a_terminal(width, tmp_path, capsys, monkeypatch):
    """No word is lost or cut, and files and pipes have whole lines."""
    path, texts = str(tmp_path / "s.pages"), [f"word{number}" for number in range(30)]
    with ivm.open(path) as workspace:
        workspace.install(
            "long_named_relation[key_of_it] = (a_first_column, b) -> int(key_of_it), "
            "string(a_first_column), int(b). v(a) <- long_named_relation[_] = (a, _)."
        )
        with workspace.transaction() as txn:
            txn.insert("long_named_relation", [(1, " ".join(texts), 3)])
    commands = (
        ["declare", path],
        ["why", path, f'v("{" ".join(texts)}")'],
        ["why", path, f'v("{" ".join(texts)}1")'],
    )
    for words in (*commands, ["explain", path, "v"], ["query", path, " ".join(texts)]):
        main.ivm(words)
        whole = capsys.readouterr()
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        main.ivm(words)
        folded = capsys.readouterr()
        monkeypatch.undo()
        for before, after in zip(whole, folded, strict=True):
            assert before.replace("│", "").split() == after.replace("│", "").split()
            assert all(
                len(line) <= width or " " not in line.strip() for line in after.splitlines()
            ), after
            assert any(len(line) > width for line in before.splitlines()) or before == after


def test_commands_print_by_what_makes_text_plain():
    """Or they print JSON, or have no data of a store."""
    folder = Path(main.__file__).parents[1]
    files = [*folder.glob("*_commands/*.py")]
    assert len({file.parent for file in files}) == 4
    files += [folder / "loading" / "load.py", folder / "cli" / "workspace_options.py"]
    for line in (line for file in files for line in file.read_text().splitlines()):
        assert "print(" not in line or "as_json(" in line or line.strip() == "print()", line
