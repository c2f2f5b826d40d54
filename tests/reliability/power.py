"""The power is cut while real processes write: what they really did to their files is recorded,
call by call.

As in `images`, a life is a few processes after one another, each with its own kind of sync, killed
or seeing a sync fail somewhere. Here they are real processes with real files, and the recorder is
between them and the system (tests/support/syscalls.py). Needs a C compiler.

    python -m tests.reliability power                  all of it
    python -m tests.reliability --part 0.01 power      a hundredth
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from warnings import simplefilter

from pagestore.errors import PoisonedError
from tests.reliability.power_cells import CellsOfViews
from tests.reliability.power_lives import Admin, Model, Plain, Schema, Small, Upgrade, Views, digest
from tests.support.simulator import FALLBACK
from tests.support.syscalls import Event, built, events, mark, moments
from tests.support.syscalls import run as recorded

WORKLOADS: dict[str, type[Plain]] = {
    "plain": Plain, "small": Small, "admin": Admin, "schema": Schema, "views": Views,
    "upgrade": Upgrade,
    "cells": CellsOfViews,
}  # fmt: skip
EACH = 3  # images of a moment at which writes are pending
FULLY = 16  # every so many images are checked in full, and written to
MOST = 400  # images of a life, so that there are many lives


def run(seed: int, amount: int) -> Counter[str]:
    """Judge `amount` images; raises AssertionError that names the life that went wrong."""
    command = [sys.executable, "-m", "tests.reliability.power", str(seed), str(amount)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"LD_PRELOAD": built()},
    )
    assert not done.returncode, done.stdout[-2000:] + done.stderr[-4000:]
    return Counter(json.loads(done.stdout.splitlines()[-1]))


def judge_images(seed: int, amount: int) -> Counter[str]:
    """As `run`, in a process under the recorder."""
    simplefilter("ignore")  # a commit that was not acknowledged may be half there, and that is said
    counts: Counter[str] = Counter()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    number = 0
    while counts["images"] < amount:
        rng = Random(f"{seed} {number}")
        name = [*WORKLOADS][number % len(WORKLOADS)]
        with tempfile.TemporaryDirectory(prefix="power-cuts-", dir=memory) as folder:
            try:
                _judge_life(
                    WORKLOADS[name](),
                    Path(folder),
                    rng,
                    counts,
                    min(amount - counts["images"], MOST),
                )
            except Exception as error:
                raise AssertionError(
                    f"life {number} ({name}) of seed {seed}: {type(error).__name__}: {error}"
                ) from error
        counts[name] += 1
        number += 1
    return counts


class Moment(NamedTuple):
    """What may be on the disk: one of these models, not before the version; anything where `lost`.

    `known` are the rows of versions that were acknowledged.
    """

    allowed: list[str]
    version: int
    lost: bool
    known: dict[int, str]


def _judge_life(
    workload: Plain, folder: Path, rng: Random, counts: Counter[str], most: int
) -> None:
    files, log = [folder / name for name in workload.files], folder / "log"
    workload.make(folder, rng)
    start = [file.read_bytes() for file in files]
    for process in range(rng.choice([1, 2, 2, 3])):
        kill = 1 + int(rng.expovariate(1 / 40)) if rng.random() < 0.5 else 0
        fail = rng.randrange(1, 15) if rng.random() < 0.4 else 0
        seed, sync = f"{rng.random()} {process}", rng.choice(["full", "commit"] * 3 + ["off"])
        work = lambda seed=seed, sync=sync: live(workload, folder, Random(seed), sync)  # noqa: E731
        code = recorded(files, log, work, kill, fail, plain=rng.random() < 0.3)
        assert code in (0, -9), f"process {process} ended with {code}"
        counts["kills"] += code == -9
    happened = events(log)
    counts["failed syncs"] += sum(event.kind == "F" for event in happened)
    allowed = [*_allowed(workload, start, happened, folder)]
    images = moments(start, happened, rng, EACH, most / (2.5 * len(happened) + 1))
    for done, contents in images:
        if allowed[done].lost:
            counts["of stores that may be lost"] += 1
            continue
        counts["images"] += 1
        image = folder / "image"
        _write(image, workload, contents)
        workload.copy(folder, image)
        try:
            _judge(workload, image, allowed[done], counts)
        except Exception as error:
            raise AssertionError(
                f"after {done} of {len(happened)} events: {type(error).__name__}: {error}"
            ) from error
    counts["lives"] += 1


def _write(image: Path, workload: Plain, contents: Sequence[bytes | bytearray]) -> None:
    for name, content in zip(workload.files, contents, strict=True):
        (image / name).parent.mkdir(parents=True, exist_ok=True)
        (image / name).write_bytes(content)


def live(workload: Plain, folder: Path, rng: Random, sync: str) -> None:
    """One process: it opens the file, takes steps, and ends somehow. Its marks say what it began
    and what was done.
    """
    simplefilter("ignore")
    opened = None
    for _ in range(3):  # a sync may fail while it is opened
        with suppress(OSError):
            opened = workload.open(folder, sync=sync)
            break
    assert opened is not None
    model = _read(workload, opened)
    _say("done", model, workload.version(opened))
    for _ in range(rng.randrange(2, 8)):
        do, after = workload.step(opened, model, rng)
        _say("begun", after, 0, sync == "off")
        try:
            do()
        except (OSError, PoisonedError):
            if rng.random() < 0.4:
                return
            opened = workload.again(opened, folder)
            after = _read(workload, opened)
        model = after
        if sync != "off":
            _say("done", model, workload.version(opened))
    if rng.random() < 0.5:
        version = workload.version(opened)
        try:
            opened.close()
        except OSError:
            return
        _say("done", model, version)


def _read(workload: Plain, opened: Any) -> Model:
    """What it holds, as steps change it: rows are lists."""
    return json.loads(digest(workload.read(opened)))  # type: ignore[no-any-return]


def _say(what: str, model: Model, version: int, off: bool = False) -> None:
    mark({"what": what, "model": digest(model), "version": version, "off": off})


def _allowed(
    workload: Plain, start: list[bytes], happened: list[Event], folder: Path
) -> Iterator[Moment]:
    """What may be on the disk before the first event, and after each."""
    first = folder / "start"
    _write(first, workload, start)
    with workload.open(first, mode="r") as opened:
        now = Moment([digest(workload.read(opened))], workload.version(opened), False, {})
    yield now
    for event in happened:
        if event.kind == "K":
            said = event.said
            if said["what"] == "done":
                rows = digest(workload.newest(json.loads(said["model"])))
                now = Moment(
                    [said["model"]], said["version"], False, now.known | {said["version"]: rows}
                )
            elif said["what"] == "begun":
                now = now._replace(
                    allowed=[*now.allowed, said["model"]], lost=now.lost or said["off"]
                )
        yield now


def _judge(workload: Plain, folder: Path, right: Moment, counts: Counter[str]) -> None:
    fully = counts["images"] % FULLY == 0
    with workload.open(folder, mode="rw" if fully else "r") as opened:
        version = workload.version(opened)
        found = digest(workload.read(opened))
        assert found in right.allowed, (
            f"version {version} holds {found[:300]}, not {right.allowed[0][:300]}"
        )
        assert version >= right.version, f"version {version} is there, not {right.version}"
        for older, rows in workload.versions(opened):
            assert older not in right.known or digest(rows) == right.known[older], (
                f"version {older} is another"
            )
            counts["versions read"] += 1
        if fully:
            for go_on in (lambda: None, lambda: workload.go_on(opened)):
                go_on()
                faults = [
                    fault for fault in workload.check(opened) if fault.invariant not in FALLBACK
                ]
                assert not faults, faults[0]
            counts["checked and written to"] += 1


if __name__ == "__main__":
    print(json.dumps(judge_images(int(sys.argv[1]), int(sys.argv[2]))))
