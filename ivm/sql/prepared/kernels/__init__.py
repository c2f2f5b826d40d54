"""Kernels that decide edits by key."""
