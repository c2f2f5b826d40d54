"""Benchmarks that are no commands of `pagestore` or `ivm`, on the same harness
(tools/bench/harness.py): `python -m benchmarks`. They are not installed.
"""

import argparse
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Command(NamedTuple):
    """A benchmark that prints what it finds; `run` returns the exit code, `flags` are the
    arguments, for argparse.
    """

    run: Callable[[argparse.Namespace], int]
    flags: Mapping[str, Mapping[str, Any]]

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""
        for name, how in self.flags.items():
            parser.add_argument(name, **how)
