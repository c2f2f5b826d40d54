"""Recursive views: evaluated in rounds, and maintained by ranks (docs/recursion.md)."""
