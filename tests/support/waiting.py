"""Waiting for what another thread or process does."""

import time
from collections.abc import Callable
from typing import Any


def until(holds: Callable[[], object], seconds: float = 60) -> None:
    """Wait until something holds.  Raises AssertionError if it does not within some seconds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"it does not hold after {seconds} seconds"
        time.sleep(0.001)


def joined(*running: Any, seconds: float = 120) -> None:
    """Wait until threads or processes have ended.  Raises AssertionError if one does not within some
    seconds.
    """
    for one in running:
        one.join(seconds)
        assert not one.is_alive(), f"{one} does not end"
