"""Compile kernels faster by overriding numba: only kernels that Python calls are compiled to
machine code; kernels that others call become part of their callers.

numba compiles every function by itself: wrappers for calls from Python, all passes of the optimiser
over it and over everything that it calls, machine code. A kernel ten calls deep would go through
that ten times. An `InlinedKernel` only becomes LLVM's language, and is optimised once, inside the
kernel that Python calls. One serves constants and variables, writable and read-only arrays, where
numba would compile it anew for each.

All of this rests on numba's internals, which may change. `fits_numba` checks each of them; if one
is missing, compiler.py uses numba unchanged, which gives the same answers and takes more than twice
as long to compile.
"""

import gc
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from types import FrameType
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.caching import FunctionCache, NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys
from numba.np import arrayobj

from pagestore.runtime.jit.cache import KernelCache
from pagestore.runtime.jit.types import fits

PLACES = (  # of what is overridden or called here
    (arrayobj, "fix_integer_index"),
    (CPUDispatcher, "get_call_template"),
    (CPUDispatcher, "get_overload"),
    (CPUDispatcher, "add_overload"),
    (FunctionCache, "_load_overload"),
    (JITCodeLibrary, "finalize"),
    (JITCodeLibrary, "_finalized"),
    (JITCodeLibrary, "_finalize_final_module"),
    (JITCodeLibrary, "_get_module_for_linking"),
    (rtsys, "initialize"),
)
ATTRIBUTES = "_linking_libraries", "_final_module"  # that the constructor of a library of code sets


def fits_numba() -> bool:
    """Return whether numba has everything that this file overrides or relies on."""
    begun = {
        name
        for kind in JITCodeLibrary.__mro__
        for name in getattr(kind.__init__, "__code__", _none).co_names
    }
    return all(hasattr(*place) for place in PLACES) and begun.issuperset(ATTRIBUTES)


_none = (lambda: None).__code__


def install() -> None:
    """Replace numba's function by `fix_index`, which changes only what `NoWraparound` compiles."""
    arrayobj.fix_integer_index = fix_index


class Dispatcher(CPUDispatcher):
    """A kernel, for calls from Python."""

    _cache: Any

    @cached_property
    def inlined(self) -> "InlinedKernel":
        """The same function, for calls from other kernels."""
        return InlinedKernel(self.py_func, targetoptions=self.targetoptions, pipeline_class=ToLlvm)

    def compile(self, sig: Any) -> Any:
        """Like numba's, without garbage collection, which found little in a sixth of the time."""
        # only now: it reads the disk, and most are never called from Python
        if isinstance(self._cache, NullCache):
            self._cache = (
                KernelCache(self.py_func)
                if self.targetoptions["_nrt"]
                else CachedKernel(self.py_func)
            )
        collecting = gc.isenabled()
        gc.disable()
        try:
            with signals_delayed():
                return super().compile(sig)
        finally:
            if collecting:
                gc.enable()

    def get_call_template(self, args: Sequence, kws: dict) -> Any:
        """Like numba's; another kernel calls this one, and inlines it."""
        return self.inlined.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """Like numba's; another kernel calls this one."""
        return self.inlined.get_overload(sig)


class CachedKernel(KernelCache):
    """The machine code of a kernel that makes no arrays."""

    def load(self, sig: Any, target_context: Any) -> Any:
        """Like numba's, which would first prepare to compile, 0.1 s. Only kernels that make
        arrays need that.
        """
        rtsys.initialize(target_context)
        return self._load_overload(sig, target_context)


class InlinedKernel(CPUDispatcher):
    """A kernel, for calls from other kernels."""

    def get_call_template(self, args: Sequence, kws: dict) -> Any:
        """Like numba's, but use an overload that `fits` the arguments."""
        args = [types.unliteral(a) for a in args]
        return super().get_call_template(
            next((o for o in self.overloads if all(map(fits, o, args))), args), kws
        )

    def add_overload(self, result: Any) -> None:
        """Like numba's, but without an entry point, which nobody would call."""
        self.overloads[tuple(result.signature.args)] = result
        self.targetctx.insert_user_function(result.fndesc, result.fndesc, [result.library])

    def get_overload(self, sig: Any) -> Any:
        """Like numba's: return the descriptor by which LLVM code calls the kernel."""
        return self.overloads[tuple(sig)].fndesc


class NoWraparound(Compiler):
    """numba's pipeline for functions without negative indices, except constants that are the whole
    index.

    numba tests whether each index is negative, and adds the length if so: a few instructions in
    every loop, which often keep the compiler from vectorizing it.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        # the context is our own copy; see `fix_index`
        self.state.targetctx.counts_from_the_end = False


def fix_index(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
    """Like numba's, but kernels do not test whether the index is negative."""
    if getattr(context, "counts_from_the_end", True) or isinstance(index, ir.Constant):
        return numbas_fix_index(context, builder, kind, index, size)
    return context.cast(builder, index, kind, types.intp)


numbas_fix_index = arrayobj.fix_integer_index


class ToLlvm(NoWraparound):
    """The same pipeline, ending with LLVM's language."""

    def __init__(
        self, typing: Any, target: Any, library: Any, args: Any, result: Any, flags: Any, names: Any
    ) -> None:
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        super().__init__(
            typing, target, LlvmModule(target.codegen(), "inlined"), args, result, flags, names
        )


class LlvmModule(JITCodeLibrary):
    """An inlined kernel and those that it calls, neither optimised nor made runnable."""

    def finalize(self) -> None:
        """Like numba's, without optimising and without machine code: only link in the kernels
        that this one calls.
        """
        for library in dict.fromkeys(self._linking_libraries):
            if hasattr(self, "_reload_init"):  # numba 0.62 and newer
                self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


class ShippedModule(JITCodeLibrary):
    """Code that is optimised, and then shipped: it does not run here, so it is not made runnable."""

    def _finalize_final_module(self) -> None:
        """Make no machine code."""


@contextmanager
def signals_delayed() -> Iterator[None]:
    """Delay signals that arrive inside the block: an exception in the midst of LLVM's work ends the
    process.

    Their handlers are called after the block. Python runs handlers in the main thread only, so in
    other threads there is nothing to delay.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    delayed: list[tuple[int, FrameType | None]] = []
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    handlers: dict[int, Any] = {
        number: handler for number, handler in before.items() if callable(handler)
    }
    try:
        for number in handlers:
            signal.signal(number, lambda number, frame: delayed.append((number, frame)))
        yield
    finally:
        _restore(handlers, delayed)


def _restore(handlers: dict[int, Any], delayed: list[tuple[int, FrameType | None]]) -> None:
    """Put all handlers back, even if one is called at once and raises; then call those of the
    delayed signals.
    """
    raised, left = None, [*handlers]
    while left:
        try:
            while left:
                signal.signal(left[-1], handlers[left[-1]])
                left.pop()
        except BaseException as error:
            raised = error
    for number, frame in delayed:
        handlers[number](number, frame)
    if raised:
        raise raised
