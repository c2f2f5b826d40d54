"""Queries of SQL as bodies of rules."""
