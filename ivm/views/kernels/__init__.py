"""Kernels of views: exact sums."""
