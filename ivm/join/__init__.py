"""Leapfrog Triejoin: over pages and over flat tries, with the trace of what it does."""
