"""Machine operations that numba lacks: a load from any byte, a prefetch, a copy past the cache, a choice without a
branch, a step of crc32c, and arrays made from an address.
"""

import ctypes

import numpy as np
from llvmlite import ir
from numba import carray, config, types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

LINE = 8  # words of a cache line


def crc_instruction() -> tuple[str, int]:
    """LLVM's name of the instruction that adds a word to a crc32c, and the bits of its crc; ("", 0) if there is none.

    LLVM would end the process over an instruction that is not among the features numba compiles for. numba's cache
    keeps kernels for different features apart.
    """
    features = get_host_cpu_features() if config.CPU_FEATURES is None else config.CPU_FEATURES
    known = {"+crc32": ("llvm.x86.sse42.crc32.64.64", 64), "+crc": ("llvm.aarch64.crc32cx", 32)}
    return next((known[feature] for feature in features.split(",") if feature in known), ("", 0))


CRC_INSTRUCTION, CRC_BITS = ("", 0) if config.DISABLE_JIT else crc_instruction()

if config.DISABLE_JIT:

    def word_at(words: np.ndarray, byte: int) -> np.int64:
        """The eight bytes from `byte` on, as a little-endian word."""
        return words.view(np.uint8)[byte : byte + 8].view(np.int64)[0]

    def either(condition: bool, a: int, b: int) -> int:
        """a if the condition holds, else b."""
        return a if condition else b

    def prefetch(words: np.ndarray, i: int) -> None:
        """Begin to load words[i]."""

    def copy_past(to: int, at: int) -> None:
        """Copy a line from one address to another."""
        ctypes.memmove(int(to), int(at), LINE * 8)

    def fence() -> None:
        """Do nothing: `copy_past` has stored the line already."""

    def words_at(address: int, n: int) -> np.ndarray:
        """The n words from an address on; where n is 0, the address may be anything."""
        return carray(ctypes.c_void_p(int(address)), (n,), np.int64) if n else np.empty(0, np.int64)

    def bytes_at(address: int, n: int) -> np.ndarray:
        """The n bytes from an address on."""
        return carray(ctypes.c_void_p(int(address)), (n,), np.uint8)

    def as_array(words: tuple) -> np.ndarray:
        """A tuple of words as an array."""
        return np.array(words, np.int64)

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

        Without the hint LLVM makes a branch, which a binary search over random keys mispredicts every other time:
        searching 1,300 values took 47 ns with the branch, and takes 10 ns without it.
        """

        def build(context, builder, signature, arguments):
            choice = builder.select(*arguments)
            choice.set_metadata("unpredictable", builder.module.add_metadata([]))
            return choice

        return types.int64(types.boolean, types.int64, types.int64), build

    @intrinsic
    def prefetch(typing, words, i):
        """Begin to load words[i] without waiting for it; an index outside the array does no harm."""

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
    def copy_past(typing, to, at):
        """Copy a cache line from address `at` to address `to`, a multiple of LINE words, past the cache."""

        def build(context, builder, signature, arguments):
            line = ir.VectorType(ir.IntType(64), LINE).as_pointer()
            to, at = (builder.inttoptr(address, line) for address in arguments)
            store = builder.store(builder.load(at, align=8), to, align=8 * LINE)
            store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), build

    @intrinsic
    def fence(typing):
        """Make every earlier `copy_past` visible to any thread that sees a later store."""

        def build(context, builder, signature, arguments):
            builder.fence("seq_cst")
            return context.get_dummy_value()

        return types.void(), build

    @intrinsic
    def crc_of_word(typing, crc, word):
        """The crc32c `crc` of some bytes, extended by one word; only where there is a CRC_INSTRUCTION."""

        def build(context, builder, signature, arguments):
            word, number = ir.IntType(64), ir.IntType(CRC_BITS)
            step = builder.module.declare_intrinsic(CRC_INSTRUCTION, (), ir.FunctionType(number, [number, word]))
            before = arguments[0] if CRC_BITS == 64 else builder.trunc(arguments[0], number)
            after = builder.call(step, [before, arguments[1]])
            return after if CRC_BITS == 64 else builder.zext(after, word)

        return types.int64(types.int64, types.int64), build

    def array_at(item):
        """An intrinsic that makes an array, which owns nothing, from an address and a length."""

        def typed(typing, address, n):
            def build(context, builder, signature, arguments):
                data = builder.inttoptr(arguments[0], context.get_data_type(item).as_pointer())
                return view(context, builder, signature.return_type, data, arguments[1])

            return types.Array(item, 1, "C")(types.int64, types.int64), build

        return intrinsic(typed)

    def view(context, builder, kind, data, n):
        """Generate code for a contiguous array of n items at `data`."""
        array = context.make_array(kind)(context, builder)
        step = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
        context.populate_array(array, data=data, shape=[n], strides=[step], itemsize=step, meminfo=None)
        return array._getvalue()

    words_at, bytes_at = array_at(types.int64), array_at(types.uint8)

    @intrinsic
    def as_array(typing, words):
        """A tuple of words as an array, valid during the call only."""
        if not isinstance(words, types.UniTuple):
            return None

        def build(context, builder, signature, arguments):
            data = builder.bitcast(cgutils.alloca_once_value(builder, arguments[0]), ir.IntType(64).as_pointer())
            return view(context, builder, signature.return_type, data, context.get_constant(types.intp, words.count))

        return types.Array(types.int64, 1, "C")(words), build
