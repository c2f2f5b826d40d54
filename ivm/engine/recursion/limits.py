"""Limits of recursion: the most rows and rounds, so that an endless recursion stops."""

from collections.abc import Sequence
from dataclasses import dataclass

from ivm.engine.installed import InstalledStratum
from ivm.errors import LimitError
from ivm.lang.ir import Compare, Rule
from pagestore.host import is_operator

ROWS_MAX = 10_000_000  # of a recursion that computes values, unless the user says otherwise
ROUNDS_MAX = 1_000_000
CYCLE_SHOWN = 10  # facts of a cycle that an error shows
SHOWN = 5  # the last rounds that an error shows


@dataclass(frozen=True)
class Limits:
    """The most rows that a stratum may have, and the most rounds of one transaction; None for no limit.

    `where` is the place of the rule that an error shows, and `text` the rule.
    """

    where: str
    text: str
    rows_max: int | None = None
    rounds_max: int | None = None

    def check(self, rows: Sequence[int], count: int) -> None:
        """Raise LimitError if there are too many rows or rounds, given the new rows of each round and the row count."""
        if self.rows_max is not None and count > self.rows_max:
            raise self._error(rows, count, f"rows_max={self.rows_max:,} rows")
        if self.rounds_max is not None and len(rows) > self.rounds_max:
            raise self._error(rows, count, f"rounds_max={self.rounds_max:,} rounds")

    def endless(self, cycle: Sequence[str]) -> LimitError:
        """Return the error for facts that derive from one another in a cycle and become better each time around."""
        rest = f", and {len(cycle) - CYCLE_SHOWN:,} more" * (len(cycle) > CYCLE_SHOWN)
        first = cycle[0].partition(" = ")[0]
        return LimitError(
            f"{self.where}: {self.text} never ends, since values become better along their own derivation: "
            f"{', '.join(cycle[:CYCLE_SHOWN])}{rest}, and then {first} again; take out a row that closes this cycle, "
            "or change what is added along it"
        )

    def _error(self, rows: Sequence[int], count: int, limit: str) -> LimitError:
        growth = ", ".join(f"{n:,}" for n in rows[-SHOWN:])
        return LimitError(
            f"{self.where}: {self.text} goes beyond {limit}: it has {count:,} rows after {len(rows):,} rounds, "
            f"of which the last brought {growth}; bound what it computes, as by `n < 100`, or install it with a "
            "greater limit"
        )


def _computes(rule: Rule) -> bool:
    """Return whether a rule may compute new values."""
    if rule.aggregate and is_operator(rule.aggregate.op):
        return True
    return any(isinstance(x, Compare) and x.op == "=" for disjunct in rule.body for x in disjunct)


def limits_of(stratum: InstalledStratum) -> Limits:
    """Return the limits of a stratum: those of its block, or the defaults above if the recursion computes values."""
    rules = [rule for rule in stratum.rules if not stratum.recursive.isdisjoint(rule.reads)]
    computing = [rule for rule in rules if _computes(rule.definition)]
    shown, *_ = (*computing, *rules)
    rows, rounds = (ROWS_MAX, ROUNDS_MAX) if computing else (None, None)
    text = shown.definition.text or str(shown.definition)
    return Limits(str(shown.definition.where), text, shown.rows_max or rows, shown.rounds_max or rounds)
