"""Files that are made under a hidden name, by makers that are killed."""

import os
import subprocess
import sys

import pytest

import pagestore
from pagestore.storage.file import beside, sweep

MAKERS = {  # what makes s.pages, and what of the library it calls last
    "open": ("pagestore.open(path)", "os.link"),
    "restore": ("restore_backup(path, [open(path.with_name('b'), 'rb')])", "os.link"),
    "restore, linked": (
        "restore_backup(path, [open(path.with_name('b'), 'rb')])",
        "pagestore.admin.backup.sync_folder",
    ),
    "load": ("way = made(path); way.__enter__()", "signal.alarm"),
    "export": (
        "way = written(str(path), str(path.with_name('a.pages'))); way.__enter__().write(b'1')",
        "os.fsync",
    ),
}


@pytest.mark.parametrize("way", MAKERS)
def test_what_killed_makers_left_is_swept(tmp_path, way):
    """By the next maker of the same name, or a writer of the file; what is being made is left
    alone.
    """
    with pagestore.open(tmp_path / "a.pages") as a, open(tmp_path / "b", "wb") as out:
        a.backup(out)
    code, last = MAKERS[way]
    program = f"""
import os, signal, sys
from pathlib import Path
from unittest import mock
import pagestore
from pagestore.admin.backup import restore_backup
from pagestore.storage.file import written
from pagestore_tools.cli.progress import made
path = Path(sys.argv[1])
def stop(*_):
    print("here", flush=True)
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGKILL)
with mock.patch({last!r}, stop):
    {code}
    stop()
"""
    path = tmp_path / "s.pages"
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as maker:
        assert maker.stdout.readline() == b"here\n"
        hidden = {name for name in os.listdir(tmp_path) if name.startswith(".s.pages.")}
        assert hidden
        if path.exists():
            pagestore.open(path).close()
        sweep(path)
        with beside(path):
            pass
        assert hidden <= {*os.listdir(tmp_path)}, "its maker lives"
        maker.kill()
    assert hidden <= {*os.listdir(tmp_path)}
    pagestore.open(path).close()
    assert sorted(os.listdir(tmp_path)) == ["a.pages", "b", "s.pages"]
