"""What hosts derive from a version's relations, as the version itself records it.

edge  ──▶  host "ivm"  ──▶  reach, $index:edge:1.0          recorded in a property of each version
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

from pagestore.errors import DependantsError

PROPERTY = "pagestore.dependants"


class Dependants(NamedTuple):
    """A host's dependencies: the relations it reads, the relations, hidden trees and properties that it maintains.

    `edit` and `release` go into the errors of refused changes: how to edit relations so that the host can follow, and
    how to make the host stop maintaining them.
    """

    host: str
    reads: tuple[str, ...]
    keeps: tuple[str, ...]
    properties: tuple[str, ...] = ()
    edit: str = "load that host first"
    release: str = "ask that host to let go of it"


def recorded_dependants(properties: Mapping[str, str | bytes]) -> dict[str, Dependants]:
    """Return the dependants in the properties of a version, by host. Raises DependantsError if they cannot be read."""
    try:
        said = [Dependants(**one) for one in json.loads(properties.get(PROPERTY, "[]"))]
        return {
            host: Dependants(host, tuple(reads), tuple(keeps), tuple(properties), *remedies)
            for host, reads, keeps, properties, *remedies in said
        }
    except (TypeError, ValueError, RecursionError) as error:
        raise DependantsError(f"property {PROPERTY!r} says what hosts keep, and does not read: {error}") from None
