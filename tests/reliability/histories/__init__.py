"""Histories of several writers: one process at a time goes on, from one call of the system to the
next.

Each stops before every call for the file (steps.c), and a scheduler chooses who goes on: any, or
the one of the highest priority, which changes now and then, so that some sleep for long. They are
killed there, interrupted, or see a sync fail; some fork, and some have clocks that are wrong. All
kinds of sync are mixed.

A transaction appends to a log, counts it, and moves money between accounts, of which a view keeps
the total. So the log says in which order transactions were made, and:

- what was acknowledged is in the log, once, and what was rolled back or failed before it was
  committed is not;
- of prepared transactions that move money if there is enough, which another process may make, those
  that were made have left a note, and no other;
- a transaction reads what all before it have written;
- each read of a handle continues the one before: the log only grows, in every process, also while
  others are killed;
- a watcher's changes add up to the log;
- money, counter and view agree in every version, and `check` finds nothing.

    python -m tests.reliability.histories.lives SEED KILLS       under the scheduler's library; `run` does that
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.support.syscalls import built

LIBRARY = Path(__file__).with_name("steps.c")


def run(seed: int, amount: int) -> Counter[str]:
    """Kill `amount` processes; raises AssertionError that names the life that went wrong."""
    command = [sys.executable, "-m", "tests.reliability.histories.lives", str(seed), str(amount)]
    environment = os.environ | {"LD_PRELOAD": built(LIBRARY)}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=Path(__file__).parents[3], env=environment
    )
    assert not done.returncode, done.stdout[-2000:] + done.stderr[-4000:]
    return Counter(json.loads(done.stdout.splitlines()[-1]))
