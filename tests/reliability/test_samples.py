"""A sample of each campaign by default; all of it with `python -m tests.reliability`, or `-m
campaign`.
"""

import importlib
import os

import pytest

from tests.reliability.__main__ import PIECES
from tests.reliability.__main__ import main as run_all
from tests.support.syscalls import COMPILER

SAMPLES = {
    "images": 750,
    "interrupts": 75,
    "kills": 6,
    "histories": 30,
    "flips": 100,
    "beside": 30,
    "full": 6,
    "crafted": 100,
    "crafted_stores": 60,
    "files": 100,
    "stale": 6,
    "power": 200,
    "compose": 16,
    "over_cells": 3,
}


@pytest.mark.parametrize("name", PIECES)
def test_sample(name: str) -> None:
    if name in ("power", "histories") and COMPILER is None and "CI" not in os.environ:
        pytest.skip("to be between a process and the system needs a C compiler (cc)")
    amount = SAMPLES[name]
    counts = importlib.import_module(f"tests.reliability.{name}").run(1, amount)
    assert counts.total() >= amount


@pytest.mark.campaign
def test_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["tests.reliability"])
    assert run_all() == 0
