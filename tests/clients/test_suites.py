"""Samples of the suites that SQLAlchemy and Ibis have for dialects and backends: what is left out
is named in them with its reason, and nothing else may fail.
"""

import re
import subprocess
import sys

import pytest

SUITES = {
    "sqlalchemy_suite": ("InsertBehavior", "Returning", "FetchLimit", "get_indexes"),
    "ibis_suite": ("set_ops", "conditionals"),
}  # fmt: skip
NEEDED = {"sqlalchemy_suite": ["sqlalchemy"], "ibis_suite": ["ibis", "filelock", "pytest_mock"]}
LEAST = {"sqlalchemy_suite": 60, "ibis_suite": 33}  # tests that pass


@pytest.mark.parametrize("suite", SUITES)
def test_a_sample_of_the_suite_passes(suite: str) -> None:
    for needed in NEEDED[suite]:
        pytest.importorskip(needed)
    words = [sys.executable, "-m", f"tests.clients.{suite}", *SUITES[suite]]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    passed = re.search(r"(\d+) passed", done.stdout)
    assert done.returncode == 0 and passed, done.stdout[-2000:]
    assert int(passed[1]) >= LEAST[suite]
