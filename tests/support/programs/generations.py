"""Generations of plans, as stores have their numbers."""

import json

from ivm.rules.installed import PLANNING_WITHOUT_RANGES, Rewrites


def planning_without(flag: str) -> int:
    """The number of plans without a rewrite, and without those that came after it."""
    return PLANNING_WITHOUT_RANGES + Rewrites._fields.index(flag)


def planning_of(saved: str) -> int:
    """The number of plans that rules need, as a store saves them, but for `apart`, which all have."""
    flags = set().union(*json.loads(saved)["blocks"]) - {"apart"}
    used = (n for n, name in enumerate(Rewrites._fields, 1) if name in flags)
    return PLANNING_WITHOUT_RANGES + max(used, default=0)
