"""What a process really does to its files, recorded under the C library, and what a disk may hold
of it.

    with LD_PRELOAD=built()    run(files, log, work, ...)    a forked child works, is killed or sees a sync fail
    events(log)                                              what it wrote, grew, cut, synced and marked, in order
    moments(start, events, rng)                              contents of the disk after a power cut at each of them

A byte is in one of three states: written by a process (in the system's cache), synced (on the
disk), neither. At a power cut each write since the last sync of its file is kept, dropped, torn at
a sector or out of order. Of a failed sync some writes come to the disk, and no later sync brings
the others there, unless they are written again. Marks are facts of the program, such as an
acknowledged commit.
"""

import ctypes
import hashlib
import json
import os
import shutil
import signal
import struct
import subprocess
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

SECTOR = 512
SOURCE = Path(__file__).with_name("syscalls.c")
COMPILER = shutil.which("cc")
CACHE = Path(__file__).parents[2] / ".pytest_cache"
HEAD = struct.Struct("<cBQQ")
LENGTHS = "GC"  # kinds of events that change a file's length


class Event(NamedTuple):
    """One thing that happened to one of the files; see syscalls.c for the kinds."""

    kind: str
    file: int
    offset: int = 0
    data: bytes = b""

    @property
    def said(self) -> Any:
        """What a mark says."""
        return json.loads(self.data)


Images = list[bytearray]  # the content of each file


def built(source: Path = SOURCE) -> str:
    """The recorder, or what another source says, as a library for LD_PRELOAD, compiled once."""
    if COMPILER is None:
        raise RuntimeError("what is between a process and the system needs a C compiler (cc)")
    name = hashlib.blake2b(source.read_bytes(), digest_size=8).hexdigest()
    library = CACHE / f"{source.stem}-{name}.so"
    if not library.exists():
        CACHE.mkdir(exist_ok=True)
        made = library.with_suffix(f".{os.getpid()}")
        command = [
            COMPILER,
            "-O2",
            "-shared",
            "-fPIC",
            "-o",
            str(made),
            str(source),
            "-ldl",
            "-lpthread",
        ]
        subprocess.run(command, check=True)
        made.replace(library)
    return str(library)


def mark(fact: Any) -> None:
    """Leave a fact among the events of this process."""
    text = json.dumps(fact).encode()
    ctypes.CDLL(None).rec_mark(text, ctypes.c_long(len(text)))


def run(
    files: Sequence[Path],
    log: Path,
    work: Callable[[], None],
    kill: int = 0,
    fail: int = 0,
    plain: bool = False,
    seconds: int = 120,
) -> int:
    """Call `work` in a forked child under the recorder, which must be loaded; its exit code,
    negative for a signal.

    It is killed at event number `kill`, and its sync number `fail` fails; with `plain` nothing is
    written through maps.
    """
    child = os.fork()
    if not child:
        try:
            os.environ |= {"REC_FILES": ":".join(map(str, files)), "REC_LOG": str(log)}
            os.environ |= {"REC_KILL": str(kill), "REC_FAIL": str(fail)} | (
                {"REC_PLAIN": "1"} if plain else {}
            )
            ctypes.CDLL(None).rec_reset()
            signal.alarm(seconds)
            work()
            mark({"what": "ended"})
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            mark({"what": "ended"})  # and what came in through maps shows
            os._exit(70)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def events(log: Path) -> list[Event]:
    """All that was recorded; an event that a kill cut off is left out."""
    data, at, found = log.read_bytes() if log.exists() else b"", 0, []
    while at + HEAD.size <= len(data):
        kind, file, offset, n = HEAD.unpack_from(data, at)
        at += HEAD.size
        if at + n > len(data):
            break
        found.append(Event(kind.decode(), file, offset, data[at : at + n]))
        at += n
    return found


def play(images: Images, event: Event, kept: Sequence[bool] | None = None) -> None:
    """Apply an event to the files; of a torn write, only the sectors that are `kept`."""
    image, end = images[event.file], event.offset + len(event.data)
    if event.kind in "WM":
        image.extend(bytes(max(0, end - len(image))))
        for lo, hi in [(event.offset, end)] if kept is None else _sectors(event, kept):
            image[lo:hi] = event.data[lo - event.offset : hi - event.offset]
    elif event.kind == "G":
        image.extend(bytes(max(0, event.offset - len(image))))
    elif event.kind == "C":
        del image[event.offset :]


def _sectors(event: Event, kept: Sequence[bool]) -> Iterator[tuple[int, int]]:
    first, end = event.offset // SECTOR, event.offset + len(event.data)
    for i, keep in enumerate(kept, first):
        if keep:
            yield max(event.offset, i * SECTOR), min(end, (i + 1) * SECTOR)


def moments(
    start: Sequence[bytes], happened: Sequence[Event], rng: Random, each: int, share: float = 1.0
) -> Iterator[tuple[int, Images]]:
    """(number of events before, files) at a share of all moments, `each` times where writes are
    pending.
    """
    disk, pending = [bytearray(content) for content in start], list[Event]()
    for done in range(len(happened) + 1):
        variants = rng.sample(range(8), each) if pending else [0]
        for variant in variants if rng.random() < share else []:
            images = [bytearray(image) for image in disk]
            for event, kept in _chosen(pending, rng, variant):
                play(images, event, kept)
            yield done, images
        if done == len(happened):
            return
        event = happened[done]
        own = [one for one in pending if one.file == event.file]
        if event.kind == "S":
            for one in own:
                play(disk, one)
        elif event.kind == "F":
            for one, kept in _chosen(own, rng, rng.randrange(8)):
                play(disk, one, kept)
        if event.kind in "SF":
            left = [one for one in own if one.kind in LENGTHS] if event.kind == "F" else []
            pending = [one for one in pending if one.file != event.file] + left
        elif event.kind != "K":
            pending.append(event)


def _chosen(
    pending: Sequence[Event], rng: Random, variant: int
) -> Iterator[tuple[Event, list[bool] | None]]:
    """Some of the events that are pending, as they may have come to the disk."""
    if variant < 4:
        yield from ((event, None) for event in (pending, pending[-1:], pending[:-1], ())[variant])
        return
    share = rng.choice((0.15, 0.5, 0.85))
    some = [event for event in pending if rng.random() < share]
    if rng.random() < 0.5:
        rng.shuffle(some)
    for event in some:
        sectors = -(-len(event.data) // SECTOR)
        torn = event.kind in "WM" and sectors > 1 and rng.random() < 0.3
        yield event, [rng.random() < 0.5 for _ in range(sectors)] if torn else None
