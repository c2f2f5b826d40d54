"""Compile kernels to machine code; imported when the first of them is compiled.

overrides.py compiles them in less than half the time, if numba's internals are as it expects.
Otherwise, or with `PAGESTORE_KERNELS=plain`, kernels are compiled as numba compiles any function.
They give the same answers.
"""

import os
from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir
from numba import cfunc, types
from numba.core import cgutils, compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher, cpu_target
from numba.extending import intrinsic

from pagestore.runtime.jit.cache import KernelCache
from pagestore.runtime.jit.types import types_of

OPTIONS = {"nopython": True, "nogil": True, "_nrt": False, "no_cfunc_wrapper": True}


def dispatcher(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Return numba's dispatcher of a kernel, with the kernel's own options."""
    options = {**OPTIONS, **options}
    if overridden():
        from pagestore.runtime.jit.overrides import Dispatcher, NoWraparound

        return Dispatcher(function, targetoptions=options, pipeline_class=NoWraparound)
    plain = CPUDispatcher(function, targetoptions=options)
    plain._cache = KernelCache(function)
    return plain


@cache
def overridden() -> bool:
    """Return whether overrides.py is used: it finds in numba what it overrides, and the user has
    not disabled it.
    """
    if os.environ.get("PAGESTORE_KERNELS") == "plain":
        return False
    try:
        from pagestore.runtime.jit.overrides import fits_numba, install
    except ImportError:  # numba has moved it
        return False
    if fits_numba():
        install()
    return fits_numba()


def optimised(kernel: Any, arguments: tuple[Any, ...]) -> Any:
    """Compile a dispatcher for arguments of these types as far as optimised LLVM; return numba's
    result.
    """
    typing, target = cpu_target.typing_context, cpu_target.target_context
    flags = compiler.Flags()
    cpu_target.options.parse_as_flags(flags, kernel.targetoptions)
    flags.no_compile = True
    pipeline = kernel._compiler.pipeline_class
    library = None
    if overridden():
        from pagestore.runtime.jit.overrides import ShippedModule

        library = ShippedModule(target.codegen(), kernel.py_func.__qualname__)
    with global_compiler_lock:
        typing.refresh()
        target.refresh()
        result = compiler.compile_extra(
            typing, target, kernel.py_func, types_of(*arguments), None, flags, {}, library, pipeline
        )
        result.library._ensure_finalized()
    return result


def pointer(compiled: Any, arguments: tuple[Any, ...]) -> Any:
    """Return a call, by address, of numba's C function of a kernel; `address()` compiles it."""
    wanted, returned = types_of(*arguments), types.int64

    @intrinsic
    def call(typing, address, *args):
        def generate(context, builder, signature, arguments):
            kind = ir.FunctionType(
                context.get_value_type(returned), [context.get_value_type(t) for t in wanted]
            )
            place = builder.inttoptr(arguments[0], kind.as_pointer())
            return builder.call(place, cgutils.unpack_tuple(builder, arguments[1]))

        return returned(types.int64, types.StarArgTuple.from_types(wanted)), generate

    @cache
    def address():
        result = compiled.get_compile_result(returned(*wanted))
        return result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name)

    call.address = address
    return call


def c_function(function: Callable[..., Any], signature: str) -> Any:
    """Compile a function to one that C can call."""
    return cfunc(signature)(function)


def type_of_function(function: Any) -> Any:
    """Return the type that numba has for an intrinsic."""
    typing = cpu_target.typing_context
    typing.refresh()
    return typing.resolve_value_type(function)
