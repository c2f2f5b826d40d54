"""A sample of each campaign by default; all of it with `python -m tests.reliability`, or `-m campaign`."""

import importlib

import pytest

from tests.reliability.__main__ import PIECES
from tests.reliability.__main__ import main as run_all

SAMPLES = {
    "images": 1500,
    "interrupts": 150,
    "kills": 6,
    "flips": 200,
    "beside": 30,
    "full": 6,
    "crafted": 200,
    "crafted_stores": 200,
    "stale": 12,
    "compose": 40,
    "over_cells": 8,
}


@pytest.mark.parametrize("name", PIECES)
def test_sample(name: str) -> None:
    amount = SAMPLES[name]
    counts = importlib.import_module(f"tests.reliability.{name}").run(1, amount)
    assert counts.total() >= amount


@pytest.mark.campaign
def test_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["tests.reliability"])
    assert run_all() == 0
