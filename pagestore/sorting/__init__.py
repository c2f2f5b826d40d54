"""Tuples of words in order: sorted, merged, packed into codes."""
