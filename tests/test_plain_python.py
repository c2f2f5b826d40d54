"""The kernels as plain Python, and with every index checked: what they compute does not depend
on the compiler.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SMALL = [
    "tests/ivm/test_paper.py",
    "tests/ivm/maintenance/test_reach.py::test_a_constant_that_becomes_known_and_is_forgotten",
    "tests/ivm/recursion/test_recursive_views.py::test_in_memory_by_hashes",
    "tests/ivm/recursion/test_recursive_views.py::TestLimits::test_in_memory",
    "tests/pagestore/trees/test_fold_figures.py::test_maxsales_of_region_2",
    "tests/pagestore/trees/test_fold_figures.py::test_the_table_of_intervals",
    "tests/pagestore/trees/test_neighbours.py::test_neighbours_are_those_of_sorted_rows[7]",
    "tests/pagestore/trees/test_tree.py::TestSupport",
    "tests/pagestore/trees/test_tree.py::test_net_composes_in_order",
    "tests/pagestore/trees/test_tree.py::test_prefix_counts",
    "tests/pagestore/trees/test_tree.py::test_ranges_take_prefixes",
]


def run(tests, **environment):
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout


def test_small_cases_without_the_compiler():
    run(SMALL, NUMBA_DISABLE_JIT="1", PYTHONWARNINGS="ignore::RuntimeWarning")


def test_small_trees_with_bounds_checked(tmp_path):
    """What checks bounds is compiled for this test alone: a minute for these, five for what
    rules take.
    """
    check_bounds(
        ["tests/pagestore/trees/test_tree.py::TestSupport", "tests/pagestore/sorting"], tmp_path
    )


@pytest.mark.campaign
def test_everything_with_bounds_checked(tmp_path):
    """Rules among them, and whatever one edit is carried through."""
    check_bounds(["tests/pagestore", "tests/ivm"], tmp_path)


def check_bounds(tests, cache):
    run(tests, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(cache))
