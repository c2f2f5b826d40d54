"""Kernels of the join: over pages, over flat tries, and the change oracle as a trie."""
