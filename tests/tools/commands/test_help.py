"""Help teaches by examples that parse, completion knows every command, and rules are checked
without a store.
"""

import argparse
import json
import re
import shlex
import shutil
import subprocess

import pytest

import pagestore
from pagestore_tools.cli import examples, main

COMMANDS = {"pagestore": main.PAGESTORE, "ivm": main.IVM}
ALL = [(program, name) for program, commands in COMMANDS.items() for name in commands]


@pytest.mark.parametrize(("program", "name"), ALL)
def test_examples_parse_and_the_help_fits_into_80_columns(program, name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        getattr(main, program)([name, "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert "examples:" in lines and max(map(len, lines)) <= 80
    parser = argparse.ArgumentParser(exit_on_error=True)
    main._module(program, name).arguments(parser)
    for line in examples.OF[program].get(name, ()):
        assert f"  {program} {line}" in lines
        words = shlex.split(re.split(r" [<>] ", line)[0])
        assert words[0] == name and parser.parse_args(words[1:])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("program", COMMANDS)
def test_completion_knows_every_command(program, shell, capsys):
    assert getattr(main, program)(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(re.search(rf"\b{name}\b", script) for name in COMMANDS[program])
    if shutil.which(shell):
        assert not subprocess.run(
            [shell, "-n"], input=script, capture_output=True, text=True
        ).stderr


def test_completion_in_bash_offers_commands_and_options(capsys):
    main.ivm(["completion", "bash"])
    script = capsys.readouterr().out
    for words, expected in (("ivm expl", "explain"), ("ivm why --mo", "--most")):
        typed = f'{script}\nCOMP_WORDS=({words}); COMP_CWORD={len(words.split()) - 1}; _ivm; echo "${{COMPREPLY[@]}}"'
        assert subprocess.run(
            ["bash", "-c", typed], capture_output=True, text=True
        ).stdout.split() == [expected]


def test_completion_in_bash_offers_files_with_spaces_whole(tmp_path, capsys):
    main.ivm(["completion", "bash"])
    script = capsys.readouterr().out
    for name in ("my shop.pages", "my flat.pages"):
        (tmp_path / name).touch()
    typed = f'{script}\nCOMP_WORDS=(ivm print my); COMP_CWORD=2; _ivm; printf "%s\n" "${{COMPREPLY[@]}}"'
    said = subprocess.run(
        ["bash", "-c", typed], capture_output=True, text=True, cwd=tmp_path
    ).stdout
    assert sorted(said.splitlines()) == ["my flat.pages", "my shop.pages"]


def test_rules_are_checked_and_faults_are_annotations(tmp_path, capsys):
    good, bad = tmp_path / "good.logiql", tmp_path / "bad.logiql"
    good.write_text("edge(x, y) -> int(x), int(y).\nhop(x, z) <- edge(x, y), edge(y, z).\n")
    bad.write_text("far(x, z) <- hop(x, y), hopp(y, z).\n")
    assert main.ivm(["check", str(good)]) == 0
    assert capsys.readouterr().out == "1 file: 0 errors\n"
    assert main.ivm(["check", str(good), str(bad)]) == 1
    assert (
        f"{bad}:1:25: error: nothing declares or derives hopp: did you mean hop?"
        in capsys.readouterr().out
    )
    assert main.ivm(["check", str(good), str(bad), "--format", "github"]) == 1
    assert capsys.readouterr().out.startswith(f"::error file={bad},line=1,col=25::nothing declares")
    store = str(tmp_path / "s.pages")
    assert main.ivm(["install", store, str(good), "--quiet"]) == 0
    bad.write_text("far(x, z) <- hop(x, y), hop(y, z), w = 1.\n")
    assert main.ivm(["check", str(bad), str(good), "--store", store, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["errors"] == 0 and [one["level"] for one in found["findings"]] == ["warning"]


def test_options_stand_anywhere(tmp_path, capsys):
    store = str(tmp_path / "s.pages")
    with pagestore.open(store) as made, made.transaction() as txn:
        txn.create("t", "k: int64").insert([1, 2])
    for words in (
        ["--limit", "1", store, "t"],
        [store, "--limit", "1", "t"],
        [store, "t", "--limit", "1"],
    ):
        assert main.pagestore(["print", *words]) == 0
        assert capsys.readouterr().out.startswith("k\n1\n2 rows, 1 shown")
    assert main.ivm(["sql", store, "--json", "SELECT count(*) AS n FROM t"]) == 0
    assert capsys.readouterr().out == '{"n": 2}\n'


@pytest.mark.parametrize(("program", "name"), ALL)
def test_every_command_answers_in_json(program, name):
    """`completion` alone does not: a shell reads what it prints."""
    parser = argparse.ArgumentParser()
    main._module(program, name).arguments(parser)
    assert ("--json" in parser._option_string_actions) == (name != "completion")
    assert "--quiet" in parser._option_string_actions or name == "completion"
