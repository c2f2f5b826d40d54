"""Conjunctions as the join takes them: key orders, indices, bounds."""
