"""Benchmarks that are commands, `pagestore bench` and `ivm bench`, on one harness (harness.py), which
those in benchmarks/ use, too.
"""
