"""Constructs that become rules of the others."""
