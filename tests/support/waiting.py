"""Waiting for what another thread or process does."""

import time
from collections.abc import Callable


def until(holds: Callable[[], object], seconds: float = 60) -> None:
    """Wait until something holds.  Raises AssertionError if it does not within some seconds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"it does not hold after {seconds} seconds"
        time.sleep(0.001)
