"""A process that has not imported ivm, for tests in one that has."""

from collections.abc import Iterator
from contextlib import contextmanager

from pagestore.versions import hosts


@contextmanager
def without_host() -> Iterator[None]:
    """As in a process that has not imported ivm."""
    held = dict(hosts._hosts)
    hosts._hosts.clear()
    try:
        yield
    finally:
        hosts._hosts.update(held)
