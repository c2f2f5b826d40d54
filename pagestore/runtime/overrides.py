"""How kernels are compiled where numba is as this file knows it: what Python calls, to machine code; what other
kernels call, as a part of those.

numba compiles every function for itself: wrappers that Python could call it by, all passes of the optimiser over it and
over everything that it calls, machine code. A kernel that stands ten calls deep went through that ten times. A part is
only lowered, and is optimised once, where it has become part of what Python calls. It is also the same for constants
and variables, and for arrays that may be written to and such that may not, where numba would compile it anew.

All of it rests on numba's insides, which have no promise. `fits_numba` looks for each of them; without one, compiler.py
takes numba as it is, which gives the same answers and compiles for more than twice as long.
"""

import gc
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.caching import FunctionCache, NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys
from numba.np import arrayobj

from pagestore.runtime.numba_cache import KernelCache
from pagestore.runtime.numba_types import fits
from pagestore.runtime.undisturbed import undisturbed

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
ATTRIBUTES = "_linking_libraries", "_final_module"  # that a library of code begins with


def fits_numba() -> bool:
    """Has numba everything that this file overrides or relies on?"""
    begun = {name for kind in JITCodeLibrary.__mro__ for name in getattr(kind.__init__, "__code__", _none).co_names}
    return all(hasattr(*place) for place in PLACES) and begun.issuperset(ATTRIBUTES)


_none = (lambda: None).__code__


def install() -> None:
    """Put `fix_index` in the place of numba's. It leaves alone what is not compiled by `FromTheFront`."""
    arrayobj.fix_integer_index = fix_index


class Dispatcher(CPUDispatcher):
    """A kernel as Python calls it."""

    _cache: Any

    @cached_property
    def part(self) -> "Part":
        """The same function as other kernels call it."""
        return Part(self.py_func, targetoptions=self.targetoptions, pipeline_class=Lowering)

    def compile(self, sig: Any) -> Any:
        """As numba's. Compiling makes millions of objects and little garbage; looking for that took a sixth of it."""
        if isinstance(self._cache, NullCache):  # now: it looks at the disk, and most are never called from Python
            self._cache = KernelCache(self.py_func) if self.targetoptions["_nrt"] else OnDisk(self.py_func)
        collecting = gc.isenabled()
        gc.disable()
        try:
            with undisturbed():
                return super().compile(sig)
        finally:
            if collecting:
                gc.enable()

    def get_call_template(self, args: Sequence, kws: dict) -> Any:
        """As numba's, when another kernel calls this one: what it calls is the part."""
        return self.part.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """As numba's, when another kernel calls this one."""
        return self.part.get_overload(sig)


class OnDisk(KernelCache):
    """The machine code of a kernel that makes no arrays."""

    def load(self, sig: Any, target_context: Any) -> Any:
        """As numba's, which first gets ready to compile, 0.1 s. Parts that make arrays need the counts."""
        rtsys.initialize(target_context)
        return self._load_overload(sig, target_context)


class Part(CPUDispatcher):
    """A kernel as other kernels call it."""

    def get_call_template(self, args: Sequence, kws: dict) -> Any:
        """As numba's, but an overload that takes such arguments is taken."""
        args = [types.unliteral(a) for a in args]
        return super().get_call_template(next((o for o in self.overloads if all(map(fits, o, args))), args), kws)

    def add_overload(self, result: Any) -> None:
        """As numba's, without a look for an entry point: a part has none."""
        self.overloads[tuple(result.signature.args)] = result
        self.targetctx.insert_user_function(result.fndesc, result.fndesc, [result.library])

    def get_overload(self, sig: Any) -> Any:
        """As numba's: what the part is called in the language of LLVM."""
        return self.overloads[tuple(sig)].fndesc


class FromTheFront(Compiler):
    """numba's pipeline for functions whose indices count from the front, but for constants that stand alone.

    numba asks of each whether it is negative, and adds the length if so: a few instructions in every loop, which
    often keep the compiler from widening it.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.state.targetctx.counts_from_the_end = False  # a copy of its own, see `fix_index`


def fix_index(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
    """As numba's, of which kernels leave out the question whether it is negative."""
    if getattr(context, "counts_from_the_end", True) or isinstance(index, ir.Constant):
        return numbas_fix_index(context, builder, kind, index, size)
    return context.cast(builder, index, kind, types.intp)


numbas_fix_index = arrayobj.fix_integer_index


class Lowering(FromTheFront):
    """That as far as LLVM's language."""

    def __init__(self, typing: Any, target: Any, library: Any, args: Any, result: Any, flags: Any, names: Any) -> None:
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        super().__init__(typing, target, Lowered(target.codegen(), "part"), args, result, flags, names)


class Lowered(JITCodeLibrary):
    """A part and what it calls, neither optimised nor made runnable."""

    def finalize(self) -> None:
        """As numba's, without optimising and without machine code: only link in what the part calls."""
        for library in dict.fromkeys(self._linking_libraries):
            if hasattr(self, "_reload_init"):  # numba 0.62 and newer
                self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


class Ahead(JITCodeLibrary):
    """Code that is optimised, and then shipped: it does not run here, so nothing makes it runnable."""

    def _finalize_final_module(self) -> None:
        """Leave out numba's machine code."""
