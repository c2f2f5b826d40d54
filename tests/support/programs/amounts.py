"""How many random examples a run tries: with TIMES=20 twenty times as many as the suite tries by
default.
"""

import os

TIMES = int(os.environ.get("TIMES", 1))


def times(amount: int) -> int:
    """Return a number of examples or seeds, multiplied by TIMES."""
    return amount * TIMES
