"""Versions of a store: how one is committed, recovered, kept and let go."""
