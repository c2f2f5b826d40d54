"""What numba has no words for: a load from any byte, a hint to load, a choice without a branch, a place by number."""

import ctypes

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

if config.DISABLE_JIT:

    def word_at(words: np.ndarray, byte: int) -> np.int64:
        """The eight bytes from `byte` on, as a little-endian word."""
        return words.view(np.uint8)[byte : byte + 8].view(np.int64)[0]

    def either(condition: bool, a: int, b: int) -> int:
        """a if the condition holds, else b."""
        return a if condition else b

    def prefetch(words: np.ndarray, i: int) -> None:
        """Begin to load words[i]."""

    def pointer(address: int) -> ctypes.c_void_p:
        """An address as `numba.carray` takes it."""
        return ctypes.c_void_p(int(address))

else:

    @intrinsic
    def word_at(typing, words, byte):
        """The eight bytes from `byte` on, as a little-endian word."""

        def build(context, builder, signature, arguments):
            start = context.make_array(words)(context, builder, arguments[0]).data
            place = builder.gep(builder.bitcast(start, ir.IntType(8).as_pointer()), [arguments[1]])
            return builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)

        return types.int64(words, types.int64), build

    @intrinsic
    def either(typing, condition, a, b):
        """a if the condition holds, else b.

        Without the hint LLVM makes a branch of it, which a search over random keys mispredicts every other time:
        halving 1,300 values took 47 ns, and takes 10.
        """

        def build(context, builder, signature, arguments):
            choice = builder.select(*arguments)
            choice.set_metadata("unpredictable", builder.module.add_metadata([]))
            return choice

        return types.int64(types.boolean, types.int64, types.int64), build

    @intrinsic
    def prefetch(typing, words, i):
        """Begin to load words[i], wherever that is: nobody waits, and a place outside the array does no harm."""

        def build(context, builder, signature, arguments):
            byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            start = context.make_array(words)(context, builder, arguments[0]).data
            kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
            load = builder.module.declare_intrinsic("llvm.prefetch.p0", (), kind)
            hints = [number(0), number(3), number(1)]  # to read, to keep, data
            builder.call(load, [builder.bitcast(builder.gep(start, [arguments[1]]), byte), *hints])
            return context.get_dummy_value()

        return types.void(words, types.int64), build

    @intrinsic
    def pointer(typing, address):
        """An address as `numba.carray` takes it."""

        def build(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

        return types.voidptr(types.int64), build
