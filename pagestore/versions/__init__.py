"""Versions of a store: how one is committed, recovered, retained and dropped."""
