"""The commands that make files: what they read from, and that what they made is there with its
name, or not at all.
"""

import os
import socket
from contextlib import closing

import pytest

import pagestore
from pagestore_tools.cli.main import pagestore as command


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "s.pages"
    with pagestore.open(path, sync="off") as store, store.transaction() as txn:
        txn.create("edge", "x: int64, y: int64").insert([(1, 2), (2, 3)])
    return path


def test_every_file_that_is_made_is_synced_with_its_name(file, tmp_path, monkeypatch):
    """The content before the name, the folder behind it."""
    done = []
    for name in ("fsync", "fdatasync"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os,
            name,
            lambda fd, real=real: (done.append(os.readlink(f"/proc/self/fd/{fd}")), real(fd)),
        )
    for name in ("link", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda a, b, real=real: (done.append("named"), real(a, b)))
    made = {
        "dump": ["dump", file, "-o", tmp_path / "dump"],
        "full": ["backup", file, tmp_path / "full"],
        "dumped": ["restore", tmp_path / "dump", tmp_path / "dumped"],
        "backed": ["restore", tmp_path / "full", tmp_path / "backed"],
        "saved": ["fsck", file, "--salvage", tmp_path / "saved"],
    }
    for name, words in made.items():
        done.clear()
        assert command([*map(str, words)]) == 0
        assert done[-1] == str(tmp_path), name
        named = max(i for i, what in enumerate(done) if what == "named")
        assert f".{name}." in done[named - 1], name


def test_what_is_no_file_is_refused_at_once(file, tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    with closing(socket.socket(socket.AF_UNIX)) as plug:
        plug.bind(str(tmp_path / "plug"))
        for source, match in (
            (tmp_path / "pipe", "pipe is not a dump or backup"),  # nobody writes to it
            (tmp_path / "plug", "it is not a file or pipe, but"),
            (tmp_path, "it is not a file or pipe, but"),
            ("/dev/zero", "it is not a file or pipe, but"),
            (tmp_path / "nothing", "there is no file"),
        ):
            assert command(["restore", str(source), str(tmp_path / "r.pages")]) == 1
            assert match in capsys.readouterr().err
            assert not (tmp_path / "r.pages").exists()
        for store in (tmp_path / "pipe", tmp_path / "plug", "/dev/zero"):
            for words in (
                ["info"],
                ["dump", "-o", "/dev/null"],
                ["fsck", "--salvage", tmp_path / "x"],
            ):
                assert command([words[0], str(store), *map(str, words[1:])]) == 1
                assert "is not a store: it is not a file but" in capsys.readouterr().err


def test_a_pipe_that_somebody_writes_to_is_read(file, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with open(os.open(tmp_path / "pipe", os.O_RDWR), "r+b", buffering=0) as pipe:
        with pagestore.open(file) as store:
            store.dump(pipe)
        assert command(["restore", str(tmp_path / "pipe"), str(tmp_path / "r.pages")]) == 0
    with pagestore.open(tmp_path / "r.pages") as store:
        assert list(store.snapshot()["edge"]) == [(1, 2), (2, 3)]
