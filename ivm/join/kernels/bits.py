"""The bits of a word: how many are set, and which is the lowest."""

from numba import config, types
from numba.extending import intrinsic

if config.DISABLE_JIT:

    def population(word: int) -> int:
        """How many bits of an int64 are set."""
        return (int(word) & 0xFFFFFFFFFFFFFFFF).bit_count()

    def lowest(word: int) -> int:
        """The number of the lowest bit set of an int64 that is not 0."""
        return (int(word) & -int(word)).bit_length() - 1

else:

    @intrinsic
    def population(typing, word):
        """How many bits of an int64 are set."""

        def build(context, builder, signature, arguments):
            return builder.ctpop(arguments[0])

        return types.int64(types.int64), build

    @intrinsic
    def lowest(typing, word):
        """The number of the lowest bit set of an int64 that is not 0."""

        def build(context, builder, signature, arguments):
            return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

        return types.int64(types.int64), build
