"""Generations of plans, as stores have their numbers."""

from ivm.rules.installed import PLANNING_WITHOUT_RANGES, Rewrites


def planning_without(flag: str) -> int:
    """The number of plans without a rewrite, and without those that came after it."""
    return PLANNING_WITHOUT_RANGES + Rewrites._fields.index(flag)
