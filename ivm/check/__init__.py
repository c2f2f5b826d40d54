"""Checks that all that is stored for rules follows from the relations, and rebuilds it."""
