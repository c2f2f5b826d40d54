"""Which changes of the code no test notices: `python -m tests.mutants edit --sample 100`.

cosmic-ray makes the changes, one at a time, in a copy of the files: another operator, a number more
or less, a condition turned round, a `break` for a `continue`. Those that the tests of a part let
pass are printed with their diffs; a run of all takes a night or more. Kernels are left out, each of
whose mutants would be compiled. It needs cosmic-ray (extra `mutation`).
"""

import argparse
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Part(NamedTuple):
    """What is changed, what of it is not, and the tests that should notice."""

    changed: str
    excluded: str
    tests: str


PARTS = {
    "edit": Part("pagestore/trees/edit.py", "", "tests/pagestore/trees tests/ivm/engine"),
    "ways": Part(
        "ivm/ways",
        "ivm/ways/**/kernels/*.py",
        "tests/ivm/engine tests/ivm/maintenance tests/ivm/recursion tests/ivm/views",
    ),
}
CONFIG = """[cosmic-ray]
module-path = {changed}
timeout = 600.0
excluded-modules = [{excluded}]
test-command = {command}
[cosmic-ray.distributor]
name = "local"
"""


def main(words: list[str]) -> int:
    """Change a part of the code, and print the changes that pass its tests."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--sample", type=int, help="how many changes; all unless given")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(words)
    part = PARTS[given.part]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = copied(Path(folder) / "tree")
        command = f"{sys.executable} -m pytest -x -q -n 0 -p no:cacheprovider {part.tests}"
        excluded = json.dumps(part.excluded) if part.excluded else ""
        config = CONFIG.format(
            changed=json.dumps(part.changed), excluded=excluded, command=json.dumps(command)
        )
        (tree / "mutants.toml").write_text(config)

        def ray(*arguments: str) -> str:
            done = subprocess.run(
                [Path(sys.executable).with_name(arguments[0]), *arguments[1:]],
                cwd=tree, check=True, text=True, stdout=subprocess.PIPE,
            )  # fmt: skip
            return done.stdout

        ray("cosmic-ray", "init", "mutants.toml", "session.sqlite")
        if given.sample:
            keep(tree / "session.sqlite", given.sample, given.seed)
        ray("cosmic-ray", "exec", "mutants.toml", "session.sqlite")
        report = ray("cr-report", "--surviving-only", "--show-diff", "session.sqlite")
        print(report)
    return int("SURVIVED" in report)


def copied(tree: Path) -> Path:
    """Copy the files of the project, with the kernels that were compiled ahead, into a folder."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    kernels = [str(file.relative_to(ROOT)) for file in ROOT.glob("pagestore/shipped/*.so")]
    for name in (*filter(None, listed.stdout.split("\0")), *kernels):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name)
    return tree


def keep(session: Path, amount: int, seed: int) -> None:
    """Leave a random sample of the changes in a session."""
    with closing(sqlite3.connect(session)) as connection, connection:
        jobs = sorted(job for (job,) in connection.execute("SELECT job_id FROM work_items"))
        chosen = set(random.Random(seed).sample(jobs, min(amount, len(jobs))))
        gone = [(job,) for job in jobs if job not in chosen]
        for table in ("mutation_specs", "work_items"):
            connection.executemany(f"DELETE FROM {table} WHERE job_id = ?", gone)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
