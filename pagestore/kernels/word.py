"""A word that starts at any byte of an array: one load where whole words would take two, two shifts and a mask."""

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

if config.DISABLE_JIT:

    def word_at(words: np.ndarray, byte: int) -> np.int64:
        """The eight bytes from `byte` on, as a little-endian word."""
        return words.view(np.uint8)[byte : byte + 8].view(np.int64)[0]

else:

    @intrinsic
    def word_at(typing, words, byte):
        """The eight bytes from `byte` on, as a little-endian word."""

        def build(context, builder, signature, arguments):
            start = context.make_array(words)(context, builder, arguments[0]).data
            place = builder.gep(builder.bitcast(start, ir.IntType(8).as_pointer()), [arguments[1]])
            return builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)

        return types.int64(words, types.int64), build
