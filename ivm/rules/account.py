"""What maintenance of a view did, for `Workspace.stats` and for plans that follow the data."""

from dataclasses import dataclass


@dataclass
class Account:
    """What maintenance of one view did in the newest transaction that touched it.

    Times are seconds; if one kernel call maintained several views, each has its time. `operations`
    counts iterator operations on both versions, `matched` the sensitivity intervals that surgeries
    hit, `inserted` and `erased` the view's rows. Of a recursive view, `rounds` counts its rounds,
    `examined` the rows whose support was searched for.
    """

    maintain_seconds: float = 0.0
    operations: int = 0
    matched: int = 0
    inserted: int = 0
    erased: int = 0
    rounds: int = 0
    examined: int = 0
