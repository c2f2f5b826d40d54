"""Kernels over the trees of a dictionary."""
