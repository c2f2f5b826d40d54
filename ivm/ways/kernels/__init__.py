"""Kernels of the ways: probes, matches, ranges, states of aggregates."""
