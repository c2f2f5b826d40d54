"""The `ivm` commands: what they print, what they change, and their exit codes."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
from xml.etree import ElementTree

import pytest

import ivm
import pagestore
from ivm import Workspace
from pagestore_tools.cli.main import ivm as command
from pagestore_tools.cli.main import pagestore as pagestore_command

RULES = """\
edge(x, y) -> int(x), int(y).
tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).
degree[x] = n <- agg<<n = count()>> edge(x, _).
+edge(1, 2). +edge(2, 3). +edge(1, 3).
"""


@pytest.fixture
def file(tmp_path, capsys):
    (tmp_path / "graph.logiql").write_text(RULES)
    path = str(tmp_path / "graph.pages")
    assert command(["install", path, str(tmp_path / "graph.logiql"), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    return path


@pytest.fixture
def stdin(monkeypatch):
    def given(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return given


def test_what_rules_keep_for_themselves_is_listed_when_asked_for(tmp_path, capsys):
    path = tmp_path / "r.pages"
    with ivm.open(path) as workspace:
        workspace.install("a(x) -> int(x). b(x, y) -> int(x), int(y). c(x) <- a(x), !b(x, _).")
        html = workspace.store.snapshot()._repr_html_()
    assert pagestore_command(["print", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["relations"].keys() == {"a", "b", "c"}
    assert pagestore_command(["print", str(path), "--all", "--json"]) == 0
    assert "c$not0" in json.loads(capsys.readouterr().out)["relations"]
    assert pagestore_command(["info", str(path)]) == 0 and "$" not in capsys.readouterr().out
    assert (
        pagestore_command(["info", str(path), "--all"]) == 0 and "c$not0" in capsys.readouterr().out
    )
    assert pagestore_command(["print", str(path), "d"]) == 1 and "$" not in capsys.readouterr().err
    assert "$" not in html


def test_parts_of_a_view_of_sql_are_listed_when_asked_for(tmp_path, capsys):
    path, more = str(tmp_path / "r.pages"), tmp_path / "more.csv"
    more.write_text("id,c,n\n3,b,5\n")
    with ivm.open(path) as workspace:
        workspace.sql("CREATE TABLE r (id BIGINT PRIMARY KEY, c TEXT NOT NULL, n BIGINT NOT NULL)")
        workspace.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT c, sum(n) AS s, max(n) AS m FROM r GROUP BY c"
        )
        workspace.install("r:part2(x) <- r[x] = (_, _).")  # of which there is no first part
    for words in ["print"], ["info"]:
        assert pagestore_command([*words, path, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["relations"].keys() == {"r", "v", "r:part2"}
        assert pagestore_command([*words, path, "--json", "--all"]) == 0
        assert {"v:part1", "v:part2", "sql:one"} <= json.loads(capsys.readouterr().out)[
            "relations"
        ].keys()
    assert pagestore_command(["stat", path]) == 0 and "v:part1" not in (
        said := capsys.readouterr().out
    )
    assert "(for rules and SQL)" in said
    assert pagestore_command(["stat", path, "--all"]) == 0 and "v:part1" in capsys.readouterr().out
    assert pagestore_command(["load", path, "r", str(more), "--append"]) == 0
    assert capsys.readouterr().out.endswith("; r:part2, v followed\n")
    for program, words in (
        (pagestore_command, ["print", path, "no"]),
        (pagestore_command, ["drop", path, "no"]),
        (command, ["print", path, "no"]),
    ):
        assert (
            program(words) == 1
            and "v:part" not in (said := capsys.readouterr().err)
            and "r:part2" in said
        )
        assert "sql:one" not in said
    assert command(["explain", path, "v"]) == 0
    said = capsys.readouterr().out
    assert "helpers   v:part1, v:part2: views kept for this one" in said
    assert "trie      part 2 of v[c] = m: in its own order" in said and said.count("v:part") == 2
    assert command(["explain", path, "v:part2"]) == 0 and capsys.readouterr().out.startswith(
        "part 2 of v keeps 1 row"
    )


def test_a_view_in_several_relations_is_listed_and_explained_by_its_own_name(tmp_path, capsys):
    path = str(tmp_path / "w.pages")
    with ivm.open(path) as workspace:
        workspace.sql("CREATE TABLE r (id BIGINT PRIMARY KEY)")
        columns = ", ".join(f"id + {n} AS c{n}" for n in range(80))
        workspace.sql(
            f"CREATE MATERIALIZED VIEW wide AS SELECT {columns} FROM r; INSERT INTO r VALUES (1)"
        )
    assert command(["print", path, "--json"]) == 0
    views = json.loads(capsys.readouterr().out)["predicates"]
    assert views == {"r": {"kind": "relation", "rows": 1}, "wide": {"kind": "view", "rows": 1}}
    assert command(["explain", path, "wide"]) == 0
    said = capsys.readouterr().out
    assert (
        "part 1 of wide keeps 1 row" in said
        and "part 2 of wide keeps 1 row" in said
        and "c79 = `sql key 0` + 79" in said
    )


def test_print_lists_and_prints(file, capsys):
    assert command(["print", file]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "installed: graph",
        "name    kind      rows",
        "edge    relation     3",
        "tri     view         1",
        "degree  view         2",
    ]
    assert command(["print", file, "degree"]) == 0
    assert capsys.readouterr().out.splitlines() == ["x  n", "1  2", "2  1", "2 rows"]
    assert command(["print", file, "edge", "--limit", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"x": 1, "y": 2}


def test_exec_says_what_changed_in_the_views(file, capsys):
    assert command(["exec", file, "+edge(3, 4). +edge(2, 4). -edge(1, 2).", "--rows"]) == 0
    version, *lines = capsys.readouterr().out.splitlines()
    assert version.startswith("version ")
    assert lines == [
        "tri: 1 new, 1 removed",
        "  - 1, 2, 3",
        "  + 2, 3, 4",
        "degree: 3 new, 2 removed",
        "  - 1, 2",
        "  + 1, 1",
        "  - 2, 1",
        "  + 2, 2",
        "  + 3, 1",
    ]


def test_print_as_of_an_earlier_version(file, capsys):
    command(["exec", file, "-edge(1, 2).", "--json"])
    version = json.loads(capsys.readouterr().out)["version"]
    assert command(["print", file, "tri", "--at", str(version - 1), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"x": 1, "y": 2, "z": 3}
    assert command(["print", file, "tri", "--json"]) == 0
    assert capsys.readouterr().out == ""


def test_print_of_a_view_that_is_gone_since(file, capsys, tmp_path, stdin):
    stdin("far(x, z) <- edge(x, y), edge(y, z).")
    assert command(["install", file, "-", "--name", "far", "--json"]) == 0
    version = json.loads(capsys.readouterr().out)["version"]
    assert command(["uninstall", file, "far", "--quiet"]) == 0
    assert command(["print", file, "far", "--at", str(version)]) == 0
    assert capsys.readouterr().out.splitlines() == ["x  z", "1  3", "1 row"]
    assert command(["print", file, "far"]) == 1
    assert command(["print", file, "never", "--at", str(version)]) == 1
    assert "no relation 'never'" in capsys.readouterr().err


def test_query_from_the_command_line_and_from_stdin(file, capsys, stdin):
    assert command(["query", file, "q(y, x) <- edge(x, y), x > 1."]) == 0
    assert capsys.readouterr().out.splitlines() == ["y  x", "3  2", "1 row"]
    stdin("q(x) <- tri(x, _, _).")
    assert command(["query", file, "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"x": 1}


def test_explain_and_trace(file, capsys):
    assert command(["explain", file, "tri", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["view"], data["rows"]) == ("tri", 1)
    assert "order" in data["explain"]
    command(["exec", file, "-edge(1, 2).", "--json"])
    version = json.loads(capsys.readouterr().out)["version"]
    assert command(["trace", file, "tri", str(version - 1), str(version), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["distance"] > 0


def test_a_trace_is_printed_compared_and_drawn(file, capsys, tmp_path):
    assert command(["trace", file, "tri", "--limit", "2"]) == 0
    first, _, dots, end = capsys.readouterr().out.splitlines()
    assert first.split()[-3:] == ["open", "[-inf,", "1]"] and dots == "..."
    steps = int(re.fullmatch(r"tri: (\d+) operations", end)[1])
    command(["exec", file, "-edge(1, 2). +edge(7, 8).", "--json"])
    version = json.loads(capsys.readouterr().out)["version"]
    pictures = tmp_path / "t.svg", tmp_path / "t.html"
    words = ["--svg", str(pictures[0]), "--html", str(pictures[1])]
    assert command(["trace", file, "tri", str(version - 1), *words]) == 0
    *lines, end = capsys.readouterr().out.splitlines()
    assert end.startswith(f"tri: {len(lines)} of ") and {line[0] for line in lines} == {"-", "+"}
    drawn, written = (picture.read_text() for picture in pictures)
    classes = [part.get("class") or "" for part in ElementTree.fromstring(drawn).iter()]
    assert "changed" in classes and "bar touched" in classes
    assert "+7<" in drawn and "nan" not in drawn and drawn in written
    assert written.count("\n") > 2 * steps
    assert command(["trace", file, "tri", "--svg", str(pictures[0])]) == 0
    ElementTree.fromstring(pictures[0].read_text())


def test_a_trace_without_operations_is_drawn(tmp_path, capsys):
    path = str(tmp_path / "empty.pages")
    with ivm.open(path, sync="off") as workspace:
        workspace.install('r(s) -> string(s). q(s) <- r(s), s != "a". v(s) <- r(s), !q(s).')
    for view in ("q", "v"):
        assert command(["trace", path, view, "1", "--svg", str(tmp_path / "e.svg"), "--quiet"]) == 0
        ElementTree.fromstring((tmp_path / "e.svg").read_text())
    assert capsys.readouterr().out == ""


def test_uninstall(file, capsys, stdin):
    stdin("far(x, z) <- edge(x, y), edge(y, z).")
    assert command(["install", file, "-", "--name", "far"]) == 0
    assert "far: 1 row\n" in capsys.readouterr().out
    assert command(["uninstall", file, "graph", "--relations"]) == 1
    assert capsys.readouterr().err == (
        "ivm uninstall: edge is read by block `far`: uninstall that block first, or keep the "
        "relation\n"
    )
    assert command(["uninstall", file, "far", "--quiet"]) == 0
    assert command(["print", file, "far"]) == 1


def test_uninstall_says_first_what_goes_and_keeps_relations(file, capsys):
    assert command(["uninstall", file, "graph", "--dry-run"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "goes: tri, a view of 1 row",
        "goes: degree, a view of 2 rows",
        "stays: edge, a relation of 3 rows",
        "nothing is removed",
    ]
    assert command(["uninstall", file, "graph"]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == said[:3]
    assert command(["print", file, "edge", "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_uninstall_with_relations(file, capsys):
    assert command(["uninstall", file, "graph", "--relations", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["relations"] == {"edge": 3}
    assert command(["print", file, "edge"]) == 1


def test_install_replaces_a_block_where_asked(file, capsys, stdin):
    text = RULES.partition("degree")[0] + "top[] = n <- agg<<n = max(x)>> edge(x, _)."
    stdin(text)
    assert command(["install", file, "-", "--name", "graph"]) == 1
    assert "`ivm install --replace`" in capsys.readouterr().err
    stdin(text)
    assert command(["install", file, "-", "--name", "graph", "--replace"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["top: 1 row", "degree: removed"]
    stdin(text.replace("max(x)>>", "max(x)>"))
    assert command(["install", file, "-", "--name", "graph", "--replace"]) == 1
    assert command(["print", file, "top", "--json"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["exec", "+edgy(1, 2)."],
            "exec:1:2: nothing declares or derives edgy: did you mean edge?",
        ),
        (
            ["exec", "+tri(1, 2, 3)."],
            "exec:1:2: tri is a view: edit the relations that its rules read",
        ),
        (["query", "q(x) <- edge(x)."], "query:1:9: edge takes 2 arguments, not 1: edge(x, y)"),
        (["print", "edgy"], "there is no relation or view 'edgy'"),
        (["explain", "edgy"], "there is no relation or view 'edgy'"),
        (["uninstall", "far"], "no block `far` is installed; there is graph"),
    ],
)
def test_errors_are_one_line_on_stderr(file, capsys, words, message):
    name, *rest = words
    assert command([name, file, *rest]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"ivm {name}: {message}")
    assert err.count("\n") == 1


def test_a_missing_file_is_not_made(tmp_path, capsys):
    missing = tmp_path / "none.pages"
    for words in (["print"], ["exec", "+edge(1, 2)."], ["query", "q(x) <- edge(x, _)."]):
        assert command([words[0], str(missing), *words[1:]]) == 1
    assert not missing.exists()
    assert command(["install", str(missing), str(tmp_path / "none.logiql")]) == 1
    (tmp_path / "bytes.logiql").write_bytes(b"edge(x) -> \xff")
    assert command(["install", str(missing), str(tmp_path / "bytes.logiql")]) == 1
    assert "is not UTF-8 text: see its byte 11" in capsys.readouterr().err
    (tmp_path / "unsafe.logiql").write_text("edge(x) -> int(x).\np(y) <- edge(x).")
    assert command(["install", str(missing), str(tmp_path / "unsafe.logiql")]) == 1
    assert capsys.readouterr().err.startswith("ivm install: unsafe:2:3: y is not bound")
    assert not missing.exists()


def test_usage_errors_exit_with_2(file):
    for words in ([], ["instal"], ["install", file], ["print"]):
        with pytest.raises(SystemExit) as exit_:
            command(words)
        assert exit_.value.code == 2


class TestShell:
    def test_edits_questions_and_commands(self, file, capsys, stdin):
        stdin(
            "+edge(3, 4).\nq(x, y) <-\n  edge(x, y), x > 2.\n:print "
            "degree\n:list\n:help\n:quit\n+edge(9, 9).\n"
        )
        assert command(["shell", file]) == 0
        out = capsys.readouterr().out
        assert out.startswith("version ")
        assert "3  4\n1 row\n" in out
        assert "3  1\n3 rows\n" in out
        assert "edge    relation     4" in out
        assert ".explain NAME" in out
        command(["print", file, "edge", "--json"])
        assert '{"x": 9' not in capsys.readouterr().out

    def test_goes_on_after_an_error(self, file, capsys, stdin):
        stdin("+edge(1).\n:nothing\n:\n:print\nq(x) <- edge(x, 3), x < 2.")
        assert command(["shell", file]) == 1
        out, err = capsys.readouterr()
        assert out.splitlines() == ["x", "1", "1 row"]
        assert [line.split(";")[0].split(":")[0] for line in err.splitlines()] == [
            "exec",
            "there is no .nothing",
            "there is no .",
            ".print does not take 0 words",
        ]

    def test_installs_and_uninstalls(self, file, capsys, stdin, tmp_path):
        more = tmp_path / "more.logiql"
        more.write_text("loop(x) <- edge(x, x).")
        stdin(f":install {more} more\n+edge(5, 5).\n:print loop\n:uninstall more\n:list\n")
        assert command(["shell", file]) == 0
        out = capsys.readouterr().out
        assert "x\n5\n1 row\n" in out
        assert "goes: loop, a view of 1 row\n" in out
        assert "loop" not in out.split("1 row\n")[2]

    def test_installs_each_file_under_its_own_name(self, file, capsys, stdin, tmp_path):
        for name, rule in (
            ("loops", "loop(x) <- edge(x, x)."),
            ("ends", "end(y) <- edge(_, y), !edge(y, _)."),
        ):
            (tmp_path / f"{name}.logiql").write_text(rule)
        stdin(
            f":install {tmp_path}/loops.logiql\n:install {tmp_path}/ends.logiql\n:list\n:uninstall "
            f"loops\n"
        )
        assert command(["shell", file]) == 0
        assert "installed: graph, loops, ends" in capsys.readouterr().out

    def test_answers_in_json_or_not_at_all(self, file, capsys, stdin):
        statements = "+edge(3, {}).\nq(x) <- edge(x, {}).\n:list\n:explain degree\n:help\n"
        stdin(statements.format(4, 4))
        assert command(["shell", file, "--json"]) == 0
        version, row, listed, explained, told = map(
            json.loads, capsys.readouterr().out.splitlines()
        )
        assert (
            version.keys() == {"version"} and row == {"x": 3} and listed["installed"] == ["graph"]
        )
        assert explained["view"] == "degree" and told.keys() == {"help"}
        stdin(statements.format(5, 5))
        assert command(["shell", file, "--quiet"]) == 0
        assert capsys.readouterr() == ("", "")

    def test_tells_its_own_faults_from_a_wrong_number_of_words(
        self, file, stdin, monkeypatch, capsys
    ):
        def explain(workspace, view):
            raise TypeError("a fault within")

        monkeypatch.setattr(Workspace, "explain", explain)
        stdin(":explain\n:install\n:explain tri tri\n:explain tri\n")
        with pytest.raises(TypeError, match="a fault within"):
            command(["shell", file])
        assert [line.split(";")[0] for line in capsys.readouterr().err.splitlines()] == [
            ".explain does not take 0 words",
            ".install does not take 0 words",
            ".explain does not take 2 words",
        ]


def test_usage_of_print(file, capsys):
    for words, said in (
        ((file, "edge", "--limit", "-1"), "argument --limit: -1: a number from 0 on is wanted"),
        ((file, "--at", "1"), "--at needs the name of a relation or view"),
    ):
        with pytest.raises(SystemExit) as caught:
            command(["print", *words])
        assert caught.value.code == 2 and said in capsys.readouterr().err


def test_a_reader_that_has_had_enough(tmp_path):
    """No traceback, no message; and letters that the terminal does not know."""
    path = tmp_path / "g.pages"
    with ivm.open(path, sync="off") as workspace:
        workspace.install("r(x, s) -> int(x), string(s).")
        with workspace.transaction() as txn:
            txn.insert("r", [(n, "straße") for n in range(50_000)])
    script = "import sys; from pagestore_tools.cli.main import ivm; sys.exit(ivm())"
    work = f"{sys.executable} -c {shlex.quote(script)} print {path} r"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        f"{work} | head -2", shell=True, capture_output=True, text=True, env=environment
    )
    assert done.stderr == "" and len(done.stdout.splitlines()) == 2
    done = subprocess.run(
        f"{work} --limit 1", shell=True, capture_output=True, text=True, env=environment
    )
    assert done.stderr == "" and r"stra\xdfe" in done.stdout


def test_answers_are_json_whatever_they_hold(file, capsys, stdin):
    stdin("f[x] = v -> int(x), float(v). g[x] = w <- f[x] = v, w = v * 10.0.")
    assert command(["install", file, "-", "--quiet"]) == 0

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    for words in (
        ["exec", file, "+f[1] = -1e308."],
        ["print", file, "g"],
        ["query", file, "q(w) <- g[_] = w."],
    ):
        assert command([*words, "--json"]) == 0
        out = capsys.readouterr().out
        assert '"-Infinity"' in out
        json.loads(out, parse_constant=refuse)


SCRIPT = "import sys; from pagestore_tools.cli.main import ivm; sys.exit(ivm())"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
@pytest.mark.parametrize("words", ["print {} edge", "query {} -", "shell {}"])
def test_streams_that_are_closed(file, closed, words):
    """Are as if nothing came, or nobody read; and no store gets their numbers."""
    work = f"{sys.executable} -c {shlex.quote(SCRIPT)} {words.format(file)} {closed}"
    done = subprocess.run(
        work, shell=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == ("query" in words)


def test_an_interrupt_before_a_command_has_begun(file):
    interrupted = """
import os, signal, sys
from importlib.abc import MetaPathFinder
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
class Interrupt(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "pagestore_tools.rule_commands.print":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
"""
    done = subprocess.run(
        [sys.executable, "-c", interrupted + SCRIPT, "print", file], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (130, "")


def test_an_option_out_of_range_is_wrong_usage(file, tmp_path, capsys):
    (tmp_path / "more.logiql").write_text("two(x, z) <- edge(x, y), edge(y, z).")
    with pytest.raises(SystemExit) as ended:
        command(["install", file, str(tmp_path / "more.logiql"), "--granularity", "0"])
    assert ended.value.code == 2
    assert "granularity=0" in capsys.readouterr().err
    with ivm.open(file) as workspace:
        assert "two" not in workspace


def damaged(file):
    """A view that has lost a row, and its relation another one, past all protection."""
    with ivm.open(file) as workspace, workspace.store.transaction() as txn:
        txn.declare_maintained()
        txn["tri"].delete([(1, 2, 3)])


def test_fsck_finds_what_does_not_follow_and_repair_mends_it(file, capsys):
    assert command(["fsck", file]) == 0
    assert capsys.readouterr().out == "ok: version 1, 1 block of rules\n"
    damaged(file)
    fault = "view rows: tri: it has no (1, 2, 3), which follows; 0 records, and 1 follow"
    assert command(["fsck", file]) == 1
    assert capsys.readouterr().out == f"{fault}\n"
    assert command(["fsck", file, "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert not data["ok"] and data["mended"] == {}
    assert [(v["branch"], v["invariant"]) for v in data["violations"]] == [("main", "view rows")]
    assert pagestore_command(["fsck", file]) == 0
    assert capsys.readouterr().out.endswith(
        "\nwhat ivm keeps was not compared with its source; --deep does that\n"
    )
    assert pagestore_command(["fsck", file, "--deep"]) == 1
    assert capsys.readouterr().out == f"{fault}\n"
    assert command(["fsck", file, "--repair"]) == 0
    assert capsys.readouterr().out == f"{fault}\nmended: made anew in version 3\n"
    assert command(["fsck", file, "--repair"]) == 0
    assert capsys.readouterr().out == "ok: version 3, 1 block of rules\n"
    assert pagestore_command(["fsck", file, "--deep"]) == 0
    assert "ok: version 3" in capsys.readouterr().out


def test_fsck_looks_at_branches_too(file, capsys):
    with ivm.open(file) as workspace:
        workspace.store.branch("b")
        with workspace.store.transaction(branch="b") as txn:
            txn.declare_maintained()
            txn["degree"].delete([(1,)])
    assert command(["fsck", file]) == 1
    assert capsys.readouterr().out.startswith(
        "branch b: view rows: degree: it has no (1, 2), which follows"
    )
    assert command(["fsck", file, "--repair"]) == 0
    assert "branch b: mended" in capsys.readouterr().out
    assert command(["fsck", file, "--quiet"]) == 0


def test_fsck_says_what_it_cannot_mend(file, capsys, tmp_path):
    with ivm.open(file) as workspace:
        workspace.install("f[x] = y -> int(x), int(y). g[y] = x <- f[x] = y.", name="more")
        with workspace.store.transaction() as txn:
            txn.declare_maintained()
            txn["f"].insert([(1, 5), (2, 5)])
    assert command(["fsck", file]) == 1
    assert capsys.readouterr().out.startswith("functions: g[5] got two values, 1 and 2")
    assert command(["fsck", file, "--repair"]) == 1
    assert "g[5] got two values, 1 and 2" in capsys.readouterr().err


def test_a_salvaged_store_is_mended(file, capsys, tmp_path):
    """Hidden trees are left out by a salvage, and views come without what nobody sees of them."""
    out = str(tmp_path / "saved.pages")
    assert pagestore_command(["fsck", file, "--salvage", out]) == 0
    assert command(["fsck", out, "--repair"]) == 0
    capsys.readouterr()
    assert command(["fsck", out]) == 0
    assert command(["exec", out, "-edge(1, 2)."]) == 0
    assert command(["fsck", out]) == 0
    with ivm.open(out, mode="r") as workspace:
        assert list(workspace["tri"]) == [] and list(workspace["degree"]) == [(1, 1), (2, 1)]


def test_fsck_of_damaged_pages_goes_no_further(file, capsys):
    with pagestore.open(file, mode="r") as store, store.snapshot() as snap:
        place = snap.tree("edge").root * store.page_size
    with open(file, "r+b") as out:
        out.seek(place)
        out.write(b"?" * 4096)
    assert command(["fsck", file]) == 1
    assert "pagestore fsck --salvage" in "".join(capsys.readouterr())


def test_limits_of_recursion(tmp_path, capsys):
    file, rules = str(tmp_path / "graph.pages"), tmp_path / "edges.logiql"
    rules.write_text("edge(x, y) -> int(x), int(y).  +edge(1, 2).  +edge(2, 1).")
    assert command(["install", file, str(rules)]) == 0
    endless = "n(x) <- edge(x, _).  n(m) <- n(x), m = x + 1."
    assert command(["query", file, endless, "--rows-max", "20"]) == 1
    assert "goes beyond rows_max=20 rows" in capsys.readouterr().err
    rules.write_text(endless)
    assert command(["install", file, str(rules), "--name", "endless", "--rounds-max", "9"]) == 1
    assert "goes beyond rounds_max=9 rounds" in capsys.readouterr().err
    assert (
        command(
            [
                "explain",
                file,
                "p(x, y) <- edge(x, y).  p(x, z) <- p(x, y), edge(y, z).  q(y) <- p(1, y).",
            ]
        )
        == 0
    )
    assert "needed    of p only rows that x = 1 leads to" in capsys.readouterr().out


def test_why_tells_proofs_what_is_missing_and_edits(tmp_path, capsys) -> None:
    path = str(tmp_path / "s.pages")
    with ivm.open(path) as ws:
        ws.install("edge(x, y) -> int(x), int(y).  hop(x, z) <- edge(x, y), edge(y, z).")
        version = ws.exec("+edge(1, 2). +edge(2, 3).")
        ws.exec("-edge(2, 3). +edge(2, 4).")
    assert command(["why", path, "hop(1, 4)"]) == 0
    assert "edge(2, 4)   since version 3" in capsys.readouterr().out
    assert command(["why", path, "hop(1, 3)", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["insertions"] == [["+edge(2, 3)"]]
    assert command(["why", path, "hop(1, 3)", "--at", str(version)]) == 0
    capsys.readouterr()
    assert command(["why", path, "hop", "--since", str(version)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "- 1, 3   by -edge(2, 3)",
        "+ 1, 4   by +edge(2, 4)",
        "2 rows changed",
    ]


def test_explain_begins_in_plain_words(file, capsys):
    assert command(["explain", file, "tri"]) == 0
    kept, cost, *plan = capsys.readouterr().out.splitlines()
    assert kept == "tri keeps 1 row, and an index in another order."
    assert (
        cost
        == "An edit costs a join of the edited rows with the rest of the rule, so as much as they "
        "match."
    )
    assert plan[0] == "tri: 1 row, 0 sensitivity intervals"
    assert command(["explain", file, "degree"]) == 0
    assert "edge(x, _)" in capsys.readouterr().out
    assert command(["explain", file, "q(x) <- edge(x, y), y < 3.", "--html"]) == 0
    html = capsys.readouterr().out
    assert (
        html.startswith("<!DOCTYPE html>") and "<h1>q(x) &lt;- edge(x, y), y &lt; 3.</h1>" in html
    )


def test_exec_on_a_branch(file, capsys):
    with ivm.open(file) as workspace:
        workspace.store.branch("trial", "main")
    assert command(["exec", file, "+edge(3, 4). +edge(2, 4).", "--branch", "trial", "--rows"]) == 0
    version, *lines = capsys.readouterr().out.splitlines()
    assert lines == ["tri: 1 new, 0 removed", "  + 2, 3, 4", "degree: 2 new, 1 removed", *lines[3:]]
    assert command(["exec", file, "+edge(2, 4).", "--branch", "trial"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"version {int(version.split()[1]) + 1}"]
    assert command(["print", file, "tri", "--at", "trial"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2 rows"
    assert command(["print", file, "tri"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 row"
    assert command(["exec", file, "+edge(2, 4).", "--branch", "never"]) == 1
    assert "never" in capsys.readouterr().err


def test_a_script_for_the_shell_names_relations_and_errors_have_lines(
    tmp_path, capsys, monkeypatch
):
    store = str(tmp_path / "s.pages")
    with ivm.open(store, sync="off") as ws:
        ws.install("edge(x, y) -> int(x), int(y). +edge(1, 2).")
    monkeypatch.setattr(
        "sys.stdin", io.StringIO("edge\n+edge(2,\n3).\nedge;\nedge(x, y <- edge(y, x).\n")
    )
    assert command(["shell", store]) == 1
    out, err = capsys.readouterr()
    assert " ".join(out.split()) == "x y 1 2 1 row version 2 x y 1 2 2 3 2 rows"
    assert len(err.splitlines()) == 3 and "\\n" not in err


def test_the_list_has_what_users_made(tmp_path, capsys):
    store = str(tmp_path / "s.pages")
    with ivm.open(store, sync="off") as ws:
        ws.sql("CREATE TABLE paid (id INT PRIMARY KEY, who TEXT, cents INT)")
        with ws.store.transaction() as txn:
            txn.create("loaded", "k: int64").insert([(1,), (2,)])
        ws.sql(
            "CREATE MATERIALIZED VIEW total AS SELECT who, sum(cents) AS cents FROM paid GROUP BY "
            "who"
        )
        ws.sql("CREATE MATERIALIZED VIEW bare AS SELECT 1 AS one")
    assert command(["print", store, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["predicates"]
    assert found == {
        "paid": {"kind": "relation", "rows": 0},
        "total": {"kind": "view", "rows": 0},
        "bare": {"kind": "view", "rows": 1},
        "loaded": {"kind": "relation", "rows": 2},
    }


def test_why_not_of_a_view_of_sql_names_no_helpers(tmp_path, capsys):
    store = str(tmp_path / "s.pages")
    with ivm.open(store, sync="off") as ws:
        ws.sql("CREATE TABLE paid (id INT PRIMARY KEY, who TEXT, cents INT)")
        ws.sql("INSERT INTO paid VALUES (1, 'ada', 5), (2, 'ada', 6), (3, 'bob', NULL)")
        ws.sql(
            "CREATE MATERIALIZED VIEW total AS SELECT who, sum(cents) AS cents FROM paid GROUP BY "
            "who"
        )
    assert command(["why", store, 'total("ada", 12)']) == 1
    said = capsys.readouterr().out
    assert said.startswith(
        'total("ada", 12) is not in version 3\nthere is total("ada", 11) instead\n'
    )
    assert "total:part" not in said
    assert command(["why", store, 'total("eve", 12)']) == 1
    said = capsys.readouterr().out
    assert said.splitlines()[::2] == [
        'total("eve", 12) is not in version 3',
        '   fails at paid[_] = ("eve", _)',
    ]


def test_a_relation_of_parts_is_no_part_of_a_view(tmp_path, capsys):
    """As a list `parts` in JSON makes it; helper views of SQL are v:part1 and so on."""
    store = str(tmp_path / "s.pages")
    with ivm.open(store, sync="off") as ws:
        with ws.store.transaction() as txn:
            txn.create("order:parts", "order: int64, n: int64", key=("order", "n")).insert([(1, 2)])
            txn.create("paid", "who: string, cents: int64", key="who")
        ws.install("many(o) <- order:parts(o, n), n > 1.")
        ws.sql(
            "CREATE MATERIALIZED VIEW total AS SELECT cents, count(*) AS n FROM paid GROUP BY cents"
        )
        assert "order:parts(1, 2)" in str(ws.why("many(1)"))
        assert "fails at order:parts(3, n)" in str(ws.why("many(3)"))
        with pytest.raises(ivm.IvmError, match="order:parts"):
            ws.sql("SELECT * FROM nothing")
    assert command(["uninstall", store, "total", "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "goes: total, a view of 0 rows"
    assert command(["print", store, "--json"]) == 0
    assert {*json.loads(capsys.readouterr().out)["predicates"]} == {
        "order:parts",
        "paid",
        "many",
        "total",
    }
    assert command(["declare", store, "--json"]) == 0
    assert {*json.loads(capsys.readouterr().out)} == {"order:parts", "paid"}


def test_exec_names_the_views_of_sql_and_not_their_helpers(tmp_path, capsys):
    file = str(tmp_path / "s.pages")
    wide = "SELECT k, list(a ORDER BY a) AS l FROM t GROUP BY k"
    with ivm.open(file) as ws:
        ws.sql(
            "CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER); CREATE TABLE u (k INTEGER PRIMARY "
            "KEY)"
        )
        ws.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT a, sum(t.k) AS s FROM t JOIN u ON u.k = t.k "
            "GROUP BY a"
        )
        ws.sql(f"CREATE MATERIALIZED VIEW w AS {wide}")
    assert command(["exec", file, "+t[1] = 2. +u(1)."]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "v: 1 new, 0 removed",
        "w: 1 new, 0 removed",
    ]


def test_check_without_a_store_says_how_to_give_one(tmp_path, capsys):
    (tmp_path / "r.logiql").write_text("v(x) <- edge(x, _).")
    assert command(["check", str(tmp_path / "r.logiql")]) == 1
    assert "or give the store that has it with --store" in capsys.readouterr().out


def test_a_branch_and_a_dry_run(tmp_path, capsys):
    """`--branch` names the branch that commands work on; `exec --dry-run` stores nothing."""
    file, rules = str(tmp_path / "s.pages"), tmp_path / "r.rules"
    rules.write_text("edge(x, y) -> int(x), int(y). out[x] = n <- agg<<n = count()>> edge(x, _).")
    assert command(["install", file, str(rules)]) == 0
    with pagestore.open(file) as store:
        store.branch("side")
    capsys.readouterr()
    assert command(["exec", file, "+edge(1, 2).", "--branch", "side", "--dry-run"]) == 0
    assert capsys.readouterr().out == "version 1, nothing is stored\nout: 1 new, 0 removed\n"
    assert command(["exec", file, "+edge(1, 2).", "--branch", "side"]) == 0
    assert capsys.readouterr().out == "version 2\nout: 1 new, 0 removed\n"
    for branch, rows in (("side", '"x"\n1\n'), ("main", '"x"\n')):
        question = ["query", file, "q(x) <- out[x] = _.", "--branch", branch]
        assert command([*question, "--format", "csv"]) == 0
        assert capsys.readouterr().out == rows
    assert command(["query", file, "q(x) <- out[x] = _.", "--branch", "none"]) == 1
    assert "there is no branch 'none'; there is main, side" in capsys.readouterr().err
