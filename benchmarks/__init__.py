"""Benchmarks that are no commands of `pagestore` or `ivm`, on the same harness
(tools/bench/harness.py): `python -m benchmarks`. They are not installed.
"""
