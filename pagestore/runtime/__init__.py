"""How kernels run: compiled, kept on disk, over borrowed arrays, side by side."""
