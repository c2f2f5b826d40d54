"""A command that is told to end by TERM or HUP, at any point, leaves what was there before or
all that it makes.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ivm
import pagestore
from pagestore_tools.cli import main
from pagestore_tools.store_commands import info

POINTS = 3  # of each command at which the signal comes
RULES = "e(x, y) -> int(x), int(y). two(x, z) <- e(x, y), e(y, z). +e(1, 2). +e(2, 3)."
CSV = "k,v\n" + "".join(f"{n},text {n}\n" for n in range(3000))

COMMANDS = {
    "load into a new store": "pagestore load new.pages r in.csv --key k",
    "load into a store": "pagestore load old.pages s in.csv --key k",
    "install into a new store": "ivm install new.pages rules.ivm",
    "install into a store": "ivm install old.pages rules.ivm",
    "exec": "ivm exec old.pages +f(5,6).",
    "query": "ivm query old.pages q(x)<-f(x,_).",
    "shell": "ivm shell new.pages",
    "backup": "pagestore backup old.pages out.backup",
    "dump": "pagestore dump old.pages -o out.dump",
    "restore a dump": "pagestore restore in.dump new.pages",
    "restore a backup": "pagestore restore in.backup new.pages",
    "print": "pagestore print old.pages r --output out.csv",
    "print over a file": "pagestore print old.pages r --output in.csv --format csv",
    "salvage": "pagestore fsck old.pages --salvage new.pages",
    "compact": "pagestore compact old.pages",
    "vacuum": "pagestore vacuum old.pages --keep 1",
}

CHILD = '''
import os, signal, sys
import ivm
from pagestore_tools.cli import main, rows, workspace_options  # before the forks, so that they begin with the work
from pagestore_tools.relation_commands import load

place, command, number, points = sys.argv[1], sys.argv[2].split(), int(sys.argv[3]), int(sys.argv[4])
signal.signal(number, signal.SIG_DFL)  # under nohup HUP is ignored, and commands leave it so

def run(folder, stop):
    """Run the command in a folder, with the signal at call `stop` of the project's; says how many calls came."""
    os.chdir(folder)
    os.environ["TMPDIR"] = folder
    os.dup2(os.open(os.devnull, os.O_RDWR), 0), os.dup2(0, 1)
    calls = 0
    def count(frame, event, argument):
        nonlocal calls
        name = frame.f_code.co_filename
        if event == "call" and ("/pagestore/" in name or "/ivm/" in name or "/tools/" in name):
            calls += signal.getsignal(number) is not signal.SIG_DFL
            if calls == stop:
                sys.setprofile(None)
                os.kill(os.getpid(), number)
    sys.setprofile(count)
    code = getattr(main, command[0])(command[1:])
    sys.setprofile(None)
    return calls, code

def forked(folder, stop):
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            os.write(write, repr(run(folder, stop)).encode())
        except BaseException as error:
            os.write(write, repr(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read) as said:
        said = said.read()
    os.wait()
    return eval(said)

calls, code = forked(place + "/whole", -1)
print(code)
for point in range(points):
    print(forked(f"{place}/{point}", 1 + point * calls // points)[1])
'''


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Path:
    """What is there before each command."""
    folder = tmp_path_factory.mktemp("start")
    with ivm.open(folder / "old.pages", page_size=4096, sync="off") as ws:
        ws.install("f(x, y) -> int(x), int(y). +f(1, 2).", name="base")
        with ws.store.transaction() as txn:
            txn.create("r", "k: int64, v: string", key="k").insert(
                [(n, f"text {n}") for n in range(2000)]
            )
        with open(folder / "in.dump", "wb") as out:
            ws.store.dump(out)
        with open(folder / "in.backup", "wb") as out:
            ws.store.backup(out)
    (folder / "in.csv").write_text(CSV)
    (folder / "rules.ivm").write_text(RULES)
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_told_to_end_leaves_nothing_behind(start, tmp_path, name):
    number = signal.SIGHUP if name == "dump" else signal.SIGTERM
    for folder in ("whole", *map(str, range(POINTS))):
        (tmp_path / folder).mkdir()
        for file in start.iterdir():
            (tmp_path / folder / file.name).write_bytes(file.read_bytes())
    command = [
        sys.executable,
        "-c",
        CHILD,
        str(tmp_path),
        COMMANDS[name],
        str(int(number)),
        str(POINTS),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not done.stderr, done.stderr
    whole, *codes = map(int, done.stdout.split())
    assert whole == 0 and codes[0] == 128 + number and {*codes} <= {0, 128 + number}
    before, after = contents(start), contents(tmp_path / "whole")
    for point in range(POINTS):
        found = contents(tmp_path / str(point))
        assert found.keys() == before.keys() or found.keys() == after.keys(), point
        for file, content in found.items():
            assert content == after[file] or content == before.get(file), (point, file)


def contents(folder: Path) -> dict[str, object]:
    """What each file of a folder holds, hidden ones too."""
    return {file.name: held(file) for file in folder.iterdir()}


def held(file: Path) -> object:
    """The bytes of a file, or what a store has, which is whole."""
    if file.suffix != ".pages":
        return file.read_bytes()
    with pagestore.open(file, mode="r") as store:
        assert not (store.recovery and store.recovery.problems) and not store.check()
        snapshot = store.snapshot()
        return {name: [*snapshot[name]] for name in snapshot}, {*snapshot.properties} - {
            "dependants"
        }


def test_a_second_signal_ends_a_command_at_once(tmp_path):
    """Where undoing hangs, say: the user need not kill it."""
    text = """if True:
        import os, signal, sys, time
        from pagestore_tools.cli import main
        def run(options):
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(60)
            finally:
                print("undoing", flush=True)
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(60)
        from pagestore_tools.store_commands import info
        info.run = run
        sys.exit(main.pagestore(["info", "x"]))
    """
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "undoing\n")


def test_a_signal_that_the_process_ignores_stays_ignored(monkeypatch):
    """As under nohup; and handlers are put back."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    seen: list[object] = []
    monkeypatch.setattr(
        main, "_run", lambda *_: seen.extend(map(signal.getsignal, (signal.SIGHUP, signal.SIGTERM)))
    )
    try:
        main.pagestore(["info"])
        assert seen[0] is signal.SIG_IGN and callable(seen[1])
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(("outcome", "code"), [(OSError("undoing failed"), 143), (None, 0)])
def test_the_code_says_the_signal_also_where_undoing_fails(monkeypatch, capsys, outcome, code):
    """Not where a signal came too late, or in a place that swallows it, and all was done."""

    def run(options):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except BaseException:
            if outcome:
                raise outcome from None
        return 0

    monkeypatch.setattr(info, "run", run)
    assert main.pagestore(["info", "x"]) == code
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_long_join_is_left_in_the_middle(number: signal.Signals, tmp_path: Path) -> None:
    """It finds nothing for minutes, in one call of a kernel unless that returns in between."""
    with ivm.open(tmp_path / "a.pages", sync="off") as ws:
        ws.install("e(x, y) -> int(x), int(y).")
        ws.insert("e", [(n, n) for n in range(3000)])
    rule = "n[] = c <- agg<<c = count()>> e(x, _), e(y, _), e(z, _), x + y < z."
    start = """
import sys
import ivm
from pagestore_tools.cli import main, rows, workspace_options
print("ready", flush=True)
sys.exit(main.ivm(sys.argv[1:]))
"""
    command = [sys.executable, "-c", start, "query", str(tmp_path / "a.pages"), rule]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout and process.stdout.readline() == "ready\n"
        time.sleep(1)
        assert process.poll() is None
        process.send_signal(number)
        out, _ = process.communicate(timeout=10)  # half a second where nothing else runs
    assert (process.returncode, out) == (128 + number, "")
    assert [file.name for file in tmp_path.iterdir()] == ["a.pages"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_while_a_generator_is_closed_is_not_lost(number: signal.Signals) -> None:
    """Python drops what is raised there, and says so on stderr."""
    text = """if True:
        import os, signal, sys, time
        from pagestore_tools.cli import main
        def closed():
            try:
                yield
            finally:
                os.kill(os.getpid(), int(sys.argv[1]))
                time.sleep(0.05)
        def run(options):
            for _ in closed():
                break
            time.sleep(60)
        from pagestore_tools.store_commands import info
        info.run = run
        sys.exit(main.pagestore(["info", "x"]))
    """
    done = subprocess.run(
        [sys.executable, "-c", text, str(int(number))], capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "")


PAIRS = "q[] = n <- agg<<n = count()>> f(a, _), f(b, _), f(c, _), a + b < c."
LONG = {  # each takes minutes, if it ends at all
    "install": ["ivm", "install", "long.pages", "long.ivm"],
    "query": ["ivm", "query", "long.pages", PAIRS],
    "sql": ["ivm", "sql", "long.pages", "SELECT count(*) FROM f a, f b, f c WHERE a.x + b.x < c.x"],
    "kept by sql": ["ivm", "sql", "long.pages",
    "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM f a, f b, f c "
                    "WHERE a.x + b.x < c.x"],
    "watch": ["ivm", "watch", "long.pages", "f"],
    "shell": ["ivm", "shell", "long.pages"],
    "mcp": ["ivm", "mcp", "long.pages"],
    "studio": ["ivm", "studio", "long.pages"],
    "bench": ["pagestore", "bench"],
    # DuckDB ends a join only after seconds on busy cores: the rows of views have no other system
    "views": ["ivm", "bench", "--only", "installed as a view"],
}  # fmt: skip


@pytest.mark.parametrize("name", LONG)
def test_every_long_command_ends_at_a_signal(name: str, tmp_path: Path) -> None:
    """Within half a second where nothing else runs; and the process adds no file."""
    with ivm.open(tmp_path / "long.pages", sync="off") as ws:
        ws.install("f(x, y) -> int(x), int(y).")
        ws.insert("f", [(n, n) for n in range(3000)])
    (tmp_path / "long.ivm").write_text(PAIRS)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    before = sorted(tmp_path.rglob("*"))
    program, *words = LONG[name]
    start = (
        "import sys, ivm; from pagestore_tools.cli import main, rows, workspace_options; "
        "print('ready', flush=True); "
    )
    command = [sys.executable, "-c", f"{start} sys.exit(main.{program}())", *words]
    number = (signal.SIGINT, signal.SIGTERM)[[*LONG].index(name) % 2]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdin=-1, stdout=-1, stderr=-1
    ) as process:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        time.sleep(1)
        assert process.poll() is None
        process.send_signal(number)
        _, said = process.communicate(timeout=10)
    assert process.returncode == 128 + number and b"Traceback" not in said
    assert sorted(tmp_path.rglob("*")) == before
