"""Operators and functions of SQL as terms of rules."""
