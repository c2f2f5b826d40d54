"""All campaigns from one seed, side by side on two cores, and what they counted.

    python -m tests.reliability                    some hours' worth of trouble in about an hour and a half
    python -m tests.reliability --part 0.01        a hundredth of it
    python -m tests.reliability --seed 7 images    one of them, from another seed

A campaign that finds something wrong says the seed of it; the exit code is 1 then. It is 1, too, if
all of a campaign leaves a pair untried that it has to try (compose.py).
"""

import argparse
import importlib
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# campaign: how much of it is one process's work, and how many processes' work all of it is
PIECES = {
    "interrupts": (1_000, 10),
    "kills": (250, 4),
    "histories": (250, 400),
    "flips": (2_500, 4),
    "beside": (500, 4),
    "full": (100, 4),
    "stale": (500, 4),
    "crafted": (8_000, 10),
    "crafted_stores": (2_000, 10),
    "files": (10_000, 10),
    "images": (25_000, 40),
    "power": (25_000, 40),
    "compose": (250, 80),
    "over_cells": (100, 20),
}
PAIR = " of "  # in what is counted, between what reads and what is read


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.reliability", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "campaigns", nargs="*", choices=[[], *PIECES], help="which ones; all unless said"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", type=float, default=1.0, help="how much of each, 1 being all")
    parser.add_argument("--jobs", type=int, default=2, help="processes side by side")
    given = parser.parse_args()
    jobs = []
    for name in given.campaigns or PIECES:
        piece, pieces = PIECES[name]
        whole = max(1, round(piece * pieces * given.part))
        jobs += [
            (name, given.seed * 1000 + n, min(piece, whole - n * piece))
            for n in range(-(-whole // piece))
        ]
    started, failed = time.monotonic(), False
    counts: dict[str, Counter[str]] = {name: Counter() for name, _, _ in jobs}
    with ThreadPoolExecutor(given.jobs) as pool:
        for (name, seed, amount), (code, out) in zip(jobs, pool.map(_run, jobs), strict=True):
            if code:
                failed = True
                print(f"{name}, seed {seed}, {amount}: ended with {code}\n{out}", flush=True)
            else:
                # what `_piece` has printed
                counts[name].update(eval(out.splitlines()[-1], {"Counter": Counter}))
                print(
                    f"{name}: {_listed(counts[name])}  ({time.monotonic() - started:.0f} s)",
                    flush=True,
                )
    print("\n" + "\n".join(f"{name}: {_listed(found)}" for name, found in counts.items()))
    for name, found in counts.items():
        for reader, reads in _tried(name, found).items():
            print(
                f"{name}: {reader} of "
                + ", ".join(f"{read} {number:,}" for read, number in reads.items())
            )
            untried = [read for read, number in reads.items() if not number]
            if untried and given.part >= 1:
                failed = True
                print(f"{name}: untried is {reader} of {', '.join(untried)}")
    print(
        f"\n{'SOMETHING IS WRONG' if failed else 'nothing wrong'}, in "
        f"{time.monotonic() - started:.0f} s"
    )
    return int(failed)


def _listed(counts: Counter[str]) -> str:
    """What was counted, but for pairs, which have a table."""
    return ", ".join(f"{number:,} {what}" for what, number in counts.items() if PAIR not in what)


def _tried(name: str, counts: Counter[str]) -> dict[str, dict[str, int]]:
    """How often each pair was tried that a campaign has to try: by what reads, then by what is
    read.
    """
    found: dict[str, dict[str, int]] = {}
    for pair in getattr(importlib.import_module(f"tests.reliability.{name}"), "WANTED", ()):
        reader, _, read = pair.partition(PAIR)
        found.setdefault(reader, {})[read] = counts[pair]
    return found


def _run(job: tuple[str, int, int]) -> tuple[int, str]:
    """A piece of a campaign in a process of its own, which may die."""
    name, seed, amount = job
    command = [sys.executable, "-m", "tests.reliability.piece", name, str(seed), str(amount)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    return done.returncode, done.stdout + done.stderr[-4000:] * bool(done.returncode)


if __name__ == "__main__":
    sys.exit(main())
