"""Benchmarks, on one harness (harness.py): `pagestore bench`, `ivm bench`, and those of
__main__.py.
"""
