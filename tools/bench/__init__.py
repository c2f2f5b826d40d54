"""Benchmarks: this project and other systems at the same work, in turns."""
