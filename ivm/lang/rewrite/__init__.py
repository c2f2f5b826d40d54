"""Constructs that become other rules: lists of numbers, aggregates in bodies, orders of rows, equivalences."""
