"""Kernels compiled ahead of time, into libraries that a wheel includes."""
