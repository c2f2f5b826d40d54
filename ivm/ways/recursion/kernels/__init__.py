"""Kernels of recursion: evaluation from scratch, and values of semilattices."""
