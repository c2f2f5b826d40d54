"""What a version says that hosts keep of its relations.

edge  ──▶  host "ivm"  ──▶  reach, $index:edge:1.0          a property of each version says so, whoever opens it
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

from pagestore.errors import DependantsError

PROPERTY = "pagestore.dependants"


class Dependants(NamedTuple):
    """What a host keeps, and of what: the relations it reads, its own relations and hidden trees, its properties.

    `edit` and `release` are for whoever is refused: how relations are edited so that what is kept can follow, and how
    the host lets go of them.
    """

    host: str
    reads: tuple[str, ...]
    keeps: tuple[str, ...]
    properties: tuple[str, ...] = ()
    edit: str = "load that host first"
    release: str = "ask that host to let go of it"


def recorded_dependants(properties: Mapping[str, str | bytes]) -> dict[str, Dependants]:
    """What the properties of a version say, by host. Raises DependantsError where that cannot be read."""
    try:
        said = [Dependants(**one) for one in json.loads(properties.get(PROPERTY, "[]"))]
        return {
            host: Dependants(host, tuple(reads), tuple(keeps), tuple(properties), *remedies)
            for host, reads, keeps, properties, *remedies in said
        }
    except (TypeError, ValueError) as error:
        raise DependantsError(f"property {PROPERTY!r} says what hosts keep, and does not read: {error}") from None
