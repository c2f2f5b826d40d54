"""How much of what is random a run tries: TIMES=20 tries twenty times what the suite tries by default."""

import os

TIMES = int(os.environ.get("TIMES", 1))


def times(amount: int) -> int:
    """Return so many examples or seeds, as often as TIMES says."""
    return amount * TIMES
