"""Aggregates: one of them, each by its name, and those that depend on an order."""
