"""A sample of each campaign by default; all of it with `python -m tests.reliability`, or `-m campaign`."""

import importlib
import os

import pytest

from tests.reliability.__main__ import PIECES
from tests.reliability.__main__ import main as run_all
from tests.support.syscalls import COMPILER

SAMPLES = {
    "images": 1500,
    "interrupts": 150,
    "kills": 6,
    "flips": 200,
    "beside": 30,
    "full": 6,
    "crafted": 200,
    "crafted_stores": 200,
    "files": 200,
    "stale": 12,
    "power": 200,
    "compose": 40,
    "over_cells": 8,
}


@pytest.mark.parametrize("name", PIECES)
def test_sample(name: str) -> None:
    if name == "power" and COMPILER is None and "CI" not in os.environ:
        pytest.skip("recording system calls needs a C compiler (cc)")
    amount = SAMPLES[name]
    counts = importlib.import_module(f"tests.reliability.{name}").run(1, amount)
    assert counts.total() >= amount


@pytest.mark.campaign
def test_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["tests.reliability"])
    assert run_all() == 0
