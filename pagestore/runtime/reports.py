"""Reports of commits, of waits for a lock and of recoveries: to loggers, and to a function for
metrics.

    logging.getLogger("pagestore.commit").setLevel(logging.DEBUG)     also pagestore.lock, pagestore.recovery
    pagestore.on_metric(lambda name, value, attributes: ...)

Nothing is measured while neither wants it. Names follow OpenTelemetry's conventions for clients of
databases where these have one; seconds are floats.

    db.client.operation.duration      seconds of a commit           db.system.name  db.namespace  db.operation.name
    pagestore.commit.rows             rows inserted and deleted     also db.collection.name  pagestore.view
    pagestore.commit.syncs            syncs of the disk
    pagestore.lock.wait_time          seconds that a transaction waited to begin
    pagestore.recovery                1 for a store that was not closed
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

Metric = Callable[[str, float, Mapping[str, str]], None]

COMMIT, LOCK, RECOVERY = (
    logging.getLogger(f"pagestore.{name}") for name in ("commit", "lock", "recovery")
)
metric: Metric | None = None  # called with a name, a value and attributes

# a program that sets up no logging prints nothing
logging.getLogger("pagestore").addHandler(logging.NullHandler())


def on_metric(function: Metric | None) -> Metric | None:
    """Call a function with the name, value and attributes of each metric from now on; return the
    one called before.

    The function is called in the thread that commits, after the commit. What it raises is logged,
    and nothing else. None ends it.

    >>> import pagestore
    >>> seen = []
    >>> before = pagestore.on_metric(lambda name, value, attributes: seen.append((name, value, attributes)))
    >>> with pagestore.open(":memory:") as store, store.transaction() as txn:
    ...     txn.create("edge", "x: int64, y: int64").insert([(1, 2), (2, 3)])
    >>> _ = pagestore.on_metric(before)
    >>> [(value, attributes["db.collection.name"]) for name, value, attributes in seen if name.endswith("rows")]
    [(2, 'edge')]
    """
    global metric
    before, metric = metric, function
    return before


def measure(
    path: str, name: str, value: float, attributes: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Call the function for metrics, if there is one."""
    if metric is None:
        return
    try:
        metric(name, value, {"db.system.name": "pagestore", "db.namespace": path, **attributes})
    except Exception:
        COMMIT.exception("the function for metrics failed for %s", name)


def report_recovery(path: str, found: str, problems: bool) -> None:
    """Report what opening a store found that was not closed; a warning if a commit was damaged."""
    RECOVERY.log(logging.WARNING if problems else logging.INFO, "%s: %s", path, found)
    measure(path, "pagestore.recovery", 1, {"pagestore.damaged": str(problems).lower()})


@contextmanager
def waiting(path: str, whom: Callable[[], str]) -> Iterator[None]:
    """Report how long the block waits to write a file that others have; `whom` says who."""
    if metric is None and not LOCK.isEnabledFor(logging.DEBUG):
        yield
        return
    began, other = time.perf_counter(), whom()
    try:
        yield
    finally:
        took = time.perf_counter() - began
        LOCK.debug(
            "waited %.6f s to write %s, which %s had",
            took,
            path,
            other,
            extra={"path": path, "seconds": took, "holder": other},
        )
        measure(path, "pagestore.lock.wait_time", took)
