"""Constructs that become other rules: lists of numbers, aggregates in bodies, orders,
equivalences, constraints.
"""
