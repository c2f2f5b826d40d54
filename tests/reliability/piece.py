"""One piece of a campaign: `python -m tests.reliability.piece NAME SEED AMOUNT` prints what it
counted.
"""

import importlib
import sys

if __name__ == "__main__":
    name, seed, amount = sys.argv[1:]
    print(importlib.import_module(f"tests.reliability.{name}").run(int(seed), int(amount)))
