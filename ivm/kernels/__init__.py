"""The join's inner loops. Importing pagestore.kernels first decides where their machine code is cached."""

import pagestore.kernels  # noqa: F401
