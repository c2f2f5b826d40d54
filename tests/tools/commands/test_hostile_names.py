"""A store whose names and texts are hostile is shown safely by every command: no control reaches
the terminal.
"""

import json
import re
import unicodedata
from pathlib import Path

import pytest

import ivm
import pagestore
from pagestore_tools.cli import main

NAMES = [
    "<script>alert(1)</script>",
    "bell\x07 esc\x1b[2J\x1b]0;owned\x07",
    "right\u202eto left",
    "l" * 10_000,
    "a\r\nb\x85c",
]
BAD = NAMES[1]  # as an argument
HOSTILE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
STORE_COMMANDS = [
    "info", "info --json", "stat", "stat --json", "stat --columns", "fsck", "history", "history --json", "tag",
    "tag --json", "print",
    "print --json", "vacuum --keep 1 --dry-run", "page 5", "page 2",
]  # fmt: skip
RULE_COMMANDS = ["print", "print --json", "declare", "declare --json", "fsck", "sql SHOW|TABLES"]
OF_A_RELATION = [
    ("pagestore", "print {file} {name}"), ("pagestore", "print {file} {name} --json"), ("ivm",
    "print {file} {name}"),
    ("pagestore", "print {file} {name} --format csv"), ("pagestore", "diff {file} 1 2 {name}"),
    ("pagestore", "delete {file} {name} --where name=nobody"), ("pagestore",
    "delete {file} {name} --where x{name}=1"),
    ("pagestore", "drop {file} none{name}"), ("pagestore", "rename {file} {name} v"),
    ("pagestore", "load {file} {name} none{name}.csv"), ("pagestore", "tag {file} {name}"),
    ("ivm", "explain {file} {name}"), ("ivm", "sql {file} select|{name}"),
    ("ivm", "query {file} q(x)<-`{name}`(x,_)."), ("ivm", "query {file} {name}"), ("ivm",
    "why {file} {name}"),
    ("ivm", "exec {file} +`{name}`(1)."), ("ivm", "trace {file} {name} 1 2"), ("ivm",
    "uninstall {file} {name}"),
    ("ivm", "install {file} none{name}.logiql"), ("ivm", "check none{name}.logiql"),
    ("pagestore", "backup none{name}.pages {name}"), ("pagestore", "truncate {file} {name}"),
]  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> str:
    path = str(tmp_path_factory.mktemp("hostile") / "s.pages")
    with ivm.open(path, sync="off") as ws:
        with ws.store.transaction(f"load {BAD}") as txn:
            for number, name in enumerate(NAMES):
                made = txn.create(
                    name, f"id: int64, {'name' if number else 'text'}: string", key=("id",)
                )
                made.insert([(place, text) for place, text in enumerate(NAMES)])
        with ws.store.transaction() as txn:
            txn[BAD].insert([(99, "\x1b[31mred\u202e")])
        ws.store.tag("evil\x1b[0m")
        ws.install(
            'v(x) <- `s`(x). `s`(x) -> string(x). +`s`("\\u001b[2J"). w(x) <- v(x), x != '
            '"\\u202e<b>".',
            "block",
        )
    return path


def words(line: str, **named: str) -> list[str]:
    return [word.replace("|", " ").format(**named) for word in line.split()]


def run(capfd: pytest.CaptureFixture[str], program: str, given: list[str]) -> tuple[int, str, str]:
    try:
        code = getattr(main, program)(given)
    except SystemExit as error:
        code = int(error.code or 0)
    return code, *capfd.readouterr()


def refuse_hostile(text: str) -> None:
    found = HOSTILE.search(text.replace("\r\n", "\n"))
    assert not found, (
        unicodedata.name(found[0], repr(found[0])),
        text[max(0, found.start() - 60) : found.end() + 20],
    )


@pytest.mark.parametrize("line", STORE_COMMANDS)
def test_commands_of_a_store(line: str, file: str, capfd) -> None:
    command, *rest = words(line)
    code, out, err = run(capfd, "pagestore", [command, file, *rest])
    refuse_hostile(out + err)
    assert code in (0, 1), err
    if "--json" in rest:
        assert json.loads(out)


@pytest.mark.parametrize("line", RULE_COMMANDS)
def test_commands_of_rules(line: str, file: str, capfd) -> None:
    command, *rest = words(line)
    code, out, err = run(capfd, "ivm", [command, file, *rest])
    refuse_hostile(out + err)
    assert code == 0, err


@pytest.mark.parametrize("name", NAMES, ids=["script", "escape", "direction", "long", "lines"])
@pytest.mark.parametrize(("program", "line"), OF_A_RELATION, ids=lambda one: one.partition(" {")[0])
def test_commands_of_a_relation(
    program: str, line: str, name: str, file: str, capfd, tmp_path, monkeypatch
) -> None:
    copy = tmp_path / "s.pages"
    copy.write_bytes(Path(file).read_bytes())
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capfd, program, words(line, file=str(copy), name=name))
    if "csv" not in line:  # the bytes of a file, where the output is not a terminal
        refuse_hostile(out)
    refuse_hostile(err)
    assert code in (0, 1, 2)
    assert "Traceback" not in err


def test_a_page_of_html_has_no_markup_of_the_store(file: str, capfd) -> None:
    for view in "v", "w":
        code, out, err = run(capfd, "ivm", ["explain", file, view, "--html"])
        assert code == 0, err
        assert "<b>" not in out.partition("</style>")[2] or "&lt;b&gt;" in out
        refuse_hostile(out)


def test_rows_in_a_notebook_are_escaped(file: str) -> None:
    with pagestore.open(file, mode="r") as store:
        shown = store.snapshot()[NAMES[0]]._repr_html_()
    assert "<script>" not in shown
    refuse_hostile(shown)
