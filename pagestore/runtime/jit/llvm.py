"""The operations of intrinsics.py in the language of LLVM, for numba."""

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

from pagestore.runtime.types import LINE

memcpy = types.ExternalFunction("memcpy", types.int64(types.int64, types.int64, types.int64))
pwrite = types.ExternalFunction(
    "pwrite", types.int64(types.int32, types.int64, types.int64, types.int64)
)


def crc_instruction() -> tuple[str, int]:
    """Return LLVM's name of the crc32c instruction for a word, and the bits of its crc; ("", 0) if
    there is none.

    LLVM aborts the process on an instruction that is not among the features numba compiles for.
    numba's cache keeps kernels for different features apart.
    """
    features = get_host_cpu_features() if config.CPU_FEATURES is None else config.CPU_FEATURES
    known = {"+crc32": ("llvm.x86.sse42.crc32.64.64", 64), "+crc": ("llvm.aarch64.crc32cx", 32)}
    return next((known[feature] for feature in features.split(",") if feature in known), ("", 0))


@intrinsic
def word_at(typing, words, byte):
    def build(context, builder, signature, arguments):
        start = context.make_array(words)(context, builder, arguments[0]).data
        place = builder.gep(builder.bitcast(start, ir.IntType(8).as_pointer()), [arguments[1]])
        return builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)

    return types.int64(words, types.int64), build


@intrinsic
def put_word(typing, data, byte, word):
    def build(context, builder, signature, arguments):
        start = context.make_array(data)(context, builder, arguments[0]).data
        place = builder.gep(builder.bitcast(start, ir.IntType(8).as_pointer()), [arguments[1]])
        builder.store(arguments[2], builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(data, types.int64, types.int64), build


@intrinsic
def either(typing, condition, a, b):
    def build(context, builder, signature, arguments):
        choice = builder.select(*arguments)
        choice.set_metadata("unpredictable", builder.module.add_metadata([]))
        return choice

    return types.int64(types.boolean, types.int64, types.int64), build


@intrinsic
def prefetch(typing, words, i):
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
    def build(context, builder, signature, arguments):
        line = ir.VectorType(ir.IntType(64), LINE).as_pointer()
        to, at = (builder.inttoptr(address, line) for address in arguments)
        store = builder.store(builder.load(at, align=8), to, align=8 * LINE)
        store.set_metadata(
            "nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        )
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), build


@intrinsic
def fence(typing):
    def build(context, builder, signature, arguments):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), build


@intrinsic
def has_crc_instruction(typing):
    known = bool(crc_instruction()[0])

    def build(context, builder, signature, arguments):
        return context.get_constant(types.boolean, known)

    return types.boolean(), build


@intrinsic
def crc_of_word(typing, crc, word):
    name, bits = crc_instruction()

    def build(context, builder, signature, arguments):
        if not name:  # never runs: `has_crc_instruction` is a constant False
            return arguments[0]
        word, number = ir.IntType(64), ir.IntType(bits)
        step = builder.module.declare_intrinsic(name, (), ir.FunctionType(number, [number, word]))
        before = arguments[0] if bits == 64 else builder.trunc(arguments[0], number)
        after = builder.call(step, [before, arguments[1]])
        return after if bits == 64 else builder.zext(after, word)

    return types.int64(types.int64, types.int64), build


@intrinsic
def float_of_bits(typing, bits):
    def build(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), build


@intrinsic
def float_to_bits(typing, value):
    def build(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), build


def _array_at(item, readonly=False):
    """Return an intrinsic that makes an array, which owns nothing, from an address and a length."""

    def typed(typing, address, n):
        def build(context, builder, signature, arguments):
            data = builder.inttoptr(arguments[0], context.get_data_type(item).as_pointer())
            return _view(context, builder, signature.return_type, data, arguments[1])

        return types.Array(item, 1, "C", readonly)(types.int64, types.int64), build

    return intrinsic(typed)


def _view(context, builder, kind, data, n):
    """Generate code for a contiguous array of n items at `data`."""
    array = context.make_array(kind)(context, builder)
    step = context.get_constant(
        types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype))
    )
    context.populate_array(array, data=data, shape=[n], strides=[step], itemsize=step, meminfo=None)
    return array._getvalue()


words_at = _array_at(types.int64)
bytes_at = _array_at(types.uint8)
mapped_at = _array_at(types.int64, True)


@intrinsic
def as_array(typing, words):
    if not isinstance(words, types.UniTuple):
        return None

    def build(context, builder, signature, arguments):
        data = builder.bitcast(
            cgutils.alloca_once_value(builder, arguments[0]), ir.IntType(64).as_pointer()
        )
        return _view(
            context,
            builder,
            signature.return_type,
            data,
            context.get_constant(types.intp, words.count),
        )

    return types.Array(types.int64, 1, "C")(words), build


@intrinsic
def borrowed(typing, array):
    def build(context, builder, signature, arguments):
        owner = context.make_array(signature.args[0])(context, builder, arguments[0])
        view = context.make_array(signature.return_type)(context, builder)
        for part in ("nitems", "itemsize", "data", "shape", "strides"):
            setattr(view, part, getattr(owner, part))
        view.meminfo = cgutils.get_null_value(owner.meminfo.type)
        view.parent = cgutils.get_null_value(owner.parent.type)
        return view._getvalue()

    return array(array), build


@intrinsic
def call_operator(typing, address, a, b):
    def build(context, builder, signature, args):
        word = ir.IntType(64)
        kind = ir.FunctionType(word, [word, word]).as_pointer()
        return builder.call(builder.inttoptr(args[0], kind), args[1:])

    return types.int64(types.int64, types.int64, types.int64), build


@intrinsic
def population(typing, word):
    def build(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(types.int64), build


@intrinsic
def lowest(typing, word):
    def build(context, builder, signature, arguments):
        return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

    return types.int64(types.int64), build
