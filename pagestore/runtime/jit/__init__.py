"""All that imports numba: imported when a kernel is compiled, or loaded from numba's cache."""
