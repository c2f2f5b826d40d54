"""Kernels of maintenance."""
