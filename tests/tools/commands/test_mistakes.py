"""Each command with each mistake of a beginner: one line on stderr that names the thing, exit
code 1 or 2, no harm.
"""

import errno
import os
import shlex
import shutil
import sys
from io import StringIO
from pathlib import Path

import pytest

import ivm
import pagestore
from pagestore.storage import file, system
from pagestore_tools.cli import main

FILES = {
    "none.pages": "there is no file none.pages: mend the path",
    "sx.pages": "there is no file sx.pages; did you mean s.pages?",
    "nodir/s.pages": "there is no folder {}/nodir for nodir/s.pages: make it first",
    "in.csv/s.pages": "{}/in.csv is a file, so there is no in.csv/s.pages in it: mend the path",
    "folder": "folder is a folder, and a file is wanted",
    "text.txt": "text.txt is not a store: it has 1250 bytes, too few; name a file that",
    "long.txt": "long.txt is not a store: it begins with b'hello, t'; name a file that",
    "cut.pages": "cut.pages: no commit reads: .* the file is cut off",
    "fifo": "fifo is not a store: it is not a file but a fifo",
    "": "the name of a file is empty|. is a folder",
}
READING = [
    "pagestore info {}", "pagestore stat {}", "pagestore fsck {}", "pagestore history {}",
    "pagestore diff {} 1 2 r",
    "pagestore tag {}", "pagestore branch {}", "pagestore merge {} b", "pagestore rebase {} b", "pagestore revert {} 1",
    "pagestore cherry-pick {} 1", "pagestore pull {} s.pages", "pagestore push {} s.pages",
    "pagestore vacuum {}", "pagestore compact {}", "pagestore backup {} out",
    "pagestore print {}", "pagestore dump {} -o out", "pagestore page {} 3", "pagestore drop {} r",
    "pagestore rename {} r q", "pagestore truncate {} r", "pagestore delete {} r --from 1",
    "ivm studio {}", "ivm serve {}",
    "ivm mcp {}", "ivm uninstall {} graph", "ivm exec {} +e(1,2).", "ivm query {} q(x)<-e(x,_).",
    "ivm declare {}",
    "ivm print {}", "ivm explain {} two", "ivm fsck {}", "ivm trace {} two 1 2", "ivm watch {} two",
    "ivm why {} two(1,2)", "ivm make {} two(1,2)",
]  # fmt: skip
MAKING = ["pagestore load {} r in.csv --key k", "ivm install {} rules.ivm", "ivm shell {}"]

MISTAKES = {  # a command, and what its line must say
    "pagestore completion tcsh": "invalid choice: 'tcsh'",
    "ivm completion tcsh": "invalid choice: 'tcsh'",
    "ivm check none.logiql": "there is no file none.logiql",
    "pagestore": "required: COMMAND",
    "pagestore nonsense": "there is no command 'nonsense': `pagestore --help` lists them",
    "pagestore info": "required: file",
    "pagestore info s.pages --nonsense": "--nonsense",
    "pagestore history s.pages --branch none": "there is no branch 'none'; there is main",
    "pagestore history s.pages --limit x": "--limit: x: a number from 0 on is wanted",
    "pagestore diff s.pages 1 99 r": "version 99 is not retained; the newest is 3",
    "pagestore diff s.pages none 2 r": "there is no tag or branch 'none'; there is first, main",
    "pagestore diff s.pages 2 3 none": "has no relation 'none'; it has e, two, r",
    "pagestore diff empty.pages 0 0 r": "has no relation 'r'; it has none",
    "pagestore tag s.pages t 99": "version 99 is not retained",
    "pagestore tag s.pages first": "tag 'first' names version 1 already",
    "pagestore tag s.pages none --delete": "there is no tag 'none'",
    "pagestore tag s.pages --delete": "--delete needs the name of a tag",
    "pagestore tag s.pages ''": "a tag needs a name",
    "pagestore tag s.pages 12": "it would read as a version number",
    "pagestore branch s.pages --delete": "--delete needs the name of a branch",
    "pagestore branch s.pages first": "there is a branch or tag 'first' already",
    "pagestore merge s.pages none": "there is no branch 'none'; there is main",
    "pagestore merge s.pages main": "name another branch",
    "pagestore rebase s.pages main": "is on itself already: name another branch",
    "pagestore revert s.pages 0": "version 0 is the first",
    "pagestore pull s.pages s.pages": "is this store itself: use merge",
    "pagestore push s.pages s.pages": "is this store itself: use merge",
    "pagestore cherry-pick s.pages 99": "version 99 is not retained",
    "pagestore vacuum s.pages --keep 0": "at least the newest version stays",
    "pagestore vacuum s.pages --keep x": "--keep: x: a number from 0 on is wanted",
    "pagestore backup s.pages folder": "folder is a folder, and a file is wanted",
    "pagestore backup s.pages s.pages": "s.pages is the store itself",
    "pagestore backup s.pages nodir/out": "there is no folder .*/nodir",
    "pagestore backup s.pages out --since 99": "version 99 is not retained",
    "pagestore dump s.pages -o folder": "folder is a folder, and a file is wanted",
    "pagestore dump s.pages -o nodir/out": "there is no folder .*/nodir",
    "pagestore dump s.pages -o out --relation none": "has no relation 'none'; it has e, two, r",
    "pagestore dump empty.pages -o out --relation r": "has no relation 'r'; it has none",
    "pagestore dump s.pages -o out --version none": "there is no tag or branch 'none'",
    "pagestore restore none.dump new.pages": "there is no file none.dump",
    "pagestore restore zero new.pages": "zero is not a dump or backup: name a file that",
    "pagestore restore text.txt new.pages": "text.txt is not a dump or backup: name a file that",
    "pagestore restore folder new.pages": "folder is not a dump or backup",
    "pagestore restore s.pages new.pages": "s.pages is a store, no dump or backup",
    "pagestore restore ok.dump text.txt new.pages": "text.txt is not a dump or backup",
    "pagestore restore ok.dump s.pages": "s.pages already exists",
    "pagestore restore ok.dump nodir/new.pages": "there is no folder .*/nodir",
    "pagestore restore ok.dump new.pages --page-size 5000": "page_size=5000: a power of two from "
    "4096 to 65536",
    "pagestore page s.pages 99999": "there is no page 99999",
    "pagestore page s.pages x": "page: x: a number from 0 on is wanted",
    "pagestore print s.pages none": "has no relation 'none'; it has e, two, r",
    "pagestore print empty.pages none": "has no relation 'none'; it has none",
    "pagestore print s.pages r --at 99": "version 99 is not retained; the newest is 3",
    "pagestore print s.pages r --at none": "there is no tag or branch 'none'",
    "pagestore print s.pages r -o nodir/x.csv": "there is no folder .*/nodir",
    "pagestore print s.pages r -o x.xyz": "x.xyz: its name does not say the format; give --format",
    "pagestore print s.pages r -o folder --format csv": "folder is a folder, and a file is "
    "wanted|Is a directory",
    "pagestore drop s.pages none": "there is no relation 'none'; there is e, two, r",
    "pagestore drop empty.pages r": "there is no relation 'r'; there is none",
    "pagestore rename s.pages none x": "there is no relation 'none'",
    "pagestore rename s.pages r e": "there is a relation 'e' already",
    "pagestore rename s.pages r ''": "a relation needs a name",
    "pagestore truncate s.pages none": "there is no relation 'none'",
    "pagestore truncate s.pages two": "'two' belongs to ivm",
    "pagestore load s.pages r none.csv --append": "none.csv: no such file or folder",
    "pagestore load s.pages r in.csv": "there is a relation 'r' already",
    "pagestore load s.pages q in.csv --key none": "no column none for the key; there are k, v",
    "pagestore load new.pages q in.csv --page-size x": "--page-size: x: a number from 0 on is "
    "wanted",
    "pagestore fsck s.pages --salvage s.pages": "s.pages already exists",
    "pagestore fsck s.pages --salvage nodir/out": "there is no folder .*/nodir",
    "pagestore fsck s.pages --repair-texts none": "there is no such encoding; latin-1",
    "pagestore prepare out none.csv --key k": "there is no source none.csv",
    "pagestore prepare out in.csv": "there is no key .* name the columns that tell rows apart",
    "pagestore prepare out --config none.toml": "there is no file none.toml",
    "ivm": "required: COMMAND",
    "ivm nonsense": "there is no command 'nonsense': `ivm --help` lists them",
    "ivm instal s.pages rules.ivm": "there is no command 'instal': did you mean install",
    "ivm install s.pages none.ivm": "there is no file none.ivm",
    "ivm install s.pages folder": "folder is a folder, and a file is wanted",
    "ivm install s.pages s.pages": "s.pages is not UTF-8 text",
    "ivm install s.pages rules.ivm --name graph": "a block `graph` is installed",
    "ivm install s.pages rules.ivm --granularity 0": "granularity=0: it is a whole number",
    "ivm install s.pages rules.ivm --granularity x": "--granularity: x: a number from 0 on is "
    "wanted",
    "ivm uninstall s.pages none": "no block `none` is installed; there is graph",
    "ivm exec s.pages nonsense": "exec:1:9: expected",
    "ivm exec s.pages '+none(1).'": "exec:1:2: nothing declares or derives none",
    "ivm exec s.pages '+two(1, 2).'": "two is a view",
    "ivm query s.pages 'q(x) <- none(x).'": "query:1:9: nothing declares or derives none",
    "ivm query s.pages 'q(x) <- e(x).'": "e takes 2 arguments, not 1",
    "ivm sql s.pages 'SELECT z FROM e'": "no column z is in these tables",
    "ivm query s.pages 'q(x) <- e(x, _).' -o nodir/x.csv": "there is no folder .*/nodir",
    "ivm print s.pages none": "there is no relation or view 'none'; there is e, r, two",
    "ivm print empty.pages none": "there is no relation or view 'none'; there is none",
    "ivm print s.pages two --at 99": "version 99 is not retained",
    "ivm explain s.pages none": "there is no relation or view 'none'",
    "ivm trace s.pages none 1 2": "version 1 has no view 'none'",
    "ivm trace s.pages two 1 99": "version 99 is not retained",
    "ivm watch s.pages none": "there is no relation or view 'none'",
    "ivm watch s.pages two --since 99": "version 99 is not retained",
}


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Path:
    """A store with versions, a tag, a view; files that are none of that."""
    folder = tmp_path_factory.mktemp("start")
    with ivm.open(folder / "s.pages", sync="off") as ws:
        ws.install(
            "e(x, y) -> int(x), int(y). two(x, z) <- e(x, y), e(y, z). +e(1, 2). +e(2, 3).",
            name="graph",
        )
        for row in (1, 2):
            with ws.store.transaction() as txn:
                txn.create("r", "k: int64, v: string", key="k", if_not_exists=True).insert(
                    [(row, "a")]
                )
        ws.store.tag("first", 1)
        with open(folder / "ok.dump", "wb") as out:
            ws.store.dump(out)
    pagestore.open(folder / "empty.pages").close()
    (folder / "rules.ivm").write_text("p(x) <- e(x, _).")
    (folder / "in.csv").write_text("k,v\n7,x\n")
    (folder / "zero").touch()
    (folder / "text.txt").write_text("hello, this is not a store" * 48 + "\n\n")
    (folder / "long.txt").write_text("hello, this is not a store" * 1000)
    (folder / "cut.pages").write_bytes((folder / "s.pages").read_bytes()[:9000])
    return folder


@pytest.fixture
def place(start, tmp_path, monkeypatch) -> Path:
    shutil.copytree(start, tmp_path, dirs_exist_ok=True)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", StringIO(""))
    return tmp_path


def told(capsys, words: list[str]) -> str:
    """The one line that a command says, which ends with 1 or 2."""
    try:
        code = getattr(main, words[0])(words[1:])
    except SystemExit as error:  # of argparse, which says how the command is used first
        code = error.code
    said = capsys.readouterr()
    assert code in (1, 2) and not said.out, (code, said)
    lines = said.err.splitlines()
    if lines[0].startswith("usage"):
        lines = [line for line in lines if ": error: " in line]
    # a syntax error shows its line and a caret
    (line,) = (line for line in lines if not line.startswith("  "))
    assert (
        line.startswith(words[0])
        and "Errno" not in line
        and "Traceback" not in line
        and " : " not in line
    ), line
    return line


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("command", [*READING, *MAKING])
def test_what_is_no_store(place, capsys, command, name):
    if command in MAKING and name in ("none.pages", "sx.pages"):
        return  # which they make
    before = {path: path.stat().st_size for path in place.rglob("*")}
    line = told(capsys, [name if word == "{}" else word for word in command.split()])
    assert any(matches(want.format(place), line) for want in FILES[name].split("|")), line
    assert {path: path.stat().st_size for path in place.rglob("*")} == before


def matches(pattern: str, line: str) -> bool:
    first, *rest = pattern.split(".*")
    return all(part in line for part in (first, *rest))


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_is_told_in_one_line(place, capsys, command):
    before = {path: path.stat().st_size for path in place.rglob("*")}
    line = told(capsys, shlex.split(command))
    assert any(matches(want, line) for want in MISTAKES[command].split("|")), line
    assert {path: path.stat().st_size for path in place.rglob("*")} == before


def test_all_commands_are_tried():
    tried = {tuple(command.split()[:2]) for command in (*READING, *MAKING, *MISTAKES)}
    known = {("pagestore", name) for name in main.PAGESTORE} | {("ivm", name) for name in main.IVM}
    # which take no store
    assert known - tried == {("pagestore", "bench"), ("ivm", "bench"), ("ivm", "demo")}


@pytest.mark.parametrize(
    "command", ["pagestore info s.pages", "pagestore compact s.pages", "ivm print s.pages"]
)
@pytest.mark.parametrize(
    ("allowed", "what"),
    [
        (os.R_OK | os.X_OK, "may not write to {}/s.pages"),
        (os.X_OK, "may not read {}/s.pages"),
        (0, "may not look into /"),
    ],
)
def test_a_file_that_the_user_may_not_open(place, capsys, monkeypatch, command, allowed, what):
    """The system is stood in for, since the tests may be run by a user who may do all."""

    def refuse(path, flags):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(file, "opened", refuse)
    monkeypatch.setattr(system.os, "access", lambda path, mode: not mode & ~allowed)
    line = told(capsys, command.split())
    assert (
        f"s.pages: this user {what.format(place)}, which belongs to" in line
        and ": ask for the permission" in line
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda s: s.backup(None),
        lambda s: s.backup(StringIO()),
        lambda s: s.dump(3),
        lambda s: s.dump(StringIO()),
        lambda s: s.restore([]),
    ],
)
def test_a_stream_of_bytes_is_asked_for(place, make):
    with (
        pagestore.open("empty.pages") as store,
        pytest.raises(TypeError, match=r"is not a binary file to (write|read): give a path"),
    ):
        make(store)


@pytest.mark.parametrize("path", [None, 123, 1.5, ["s.pages"]])
def test_what_is_no_path(path):
    for way in (pagestore.open, ivm.open):
        with pytest.raises(TypeError, match="is not a path of a file: give a text or a Path"):
            way(path)


def test_errors_of_files_keep_their_kind(place):
    """A caller may tell them apart without reading them."""
    for path, kind, number in (
        ("none.pages", FileNotFoundError, 2),
        ("folder", IsADirectoryError, 21),
        ("nodir/s.pages", FileNotFoundError, 2),
        ("in.csv/s.pages", NotADirectoryError, 20),
    ):
        with pytest.raises(kind) as raised:
            pagestore.open(path, mode="r")
        assert raised.value.errno == number and "Errno" not in str(raised.value)
