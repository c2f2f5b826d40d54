"""Kernels before they are compiled: the decorators, and the objects that represent kernels until
they are called.

    @kernel                         field is a Kernel: a name, a Python function, options
    def field(words, page, ...)     calling field or a TypedKernel of it loads shipped code, or imports jit/ to compile

So importing a package does not import numba. numba reads the `_numba_type_` of each object that a
kernel refers to, which jit/compiler.py makes.
"""

import os
from collections.abc import Callable
from functools import cached_property, update_wrapper
from typing import Any, ClassVar

from pagestore.errors import CompilerError
from pagestore.runtime.library import CHECKED, missing, shipped, shipped_address
from pagestore.runtime.types import guarded

JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")  # else kernels are plain Python


class Kernel:
    """A function that is compiled by numba when it is first called, with options of numba's."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        update_wrapper(self, function)
        self.py_func, self.options = function, options

    def __call__(self, *arguments: Any) -> Any:
        """Call it for whatever types the arguments have; numba looks at them each time."""
        return self.dispatcher(*arguments)

    @cached_property
    def dispatcher(self) -> Any:
        """numba's dispatcher of the kernel."""
        return _compiler().dispatcher(self.py_func, self.options)

    @property
    def _numba_type_(self) -> Any:
        return self.dispatcher._numba_type_

    def compile(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        """Compile the kernel for arguments of given types (see types.py); the result checks no
        types.
        """
        compiled: Callable[..., Any] = self.dispatcher.compile(_compiler().types_of(*arguments))
        return compiled


class TypedKernel:
    """The entry of a kernel for calls from Python: its argument types are groups, the arrays of
    types.py, int or bool, given here if they are not those of its signature.

    `call` checks no types: an array of another dtype or order is read as if it had the right one,
    and a group costs no more than its fields. The tests set `checking`, and then every call is
    checked; a shipped kernel has a guard that checks, too.
    """

    checking = False
    every: ClassVar["list[TypedKernel]"] = []  # all of this process, in import order

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.function, self.arguments = function, arguments or declared(function)
        TypedKernel.every.append(self)

    @cached_property
    def call(self) -> Callable[..., Any]:
        """The machine code, compiled or loaded on first use."""
        if not JIT:
            plain: Callable[..., Any] = self.function
            return plain
        found = shipped(self.function, self.arguments)
        if found is not None:
            return found
        call: Callable[..., Any] = self.function.compile(self.arguments)
        return guarded(call, self.function.__qualname__, self.arguments) if self.checking else call


def declared(function: Any) -> tuple[Any, ...]:
    """Return the types of a kernel's arguments as its signature declares them."""
    return (*function.__annotations__.values(),)


class FunctionPointer:
    """A kernel that other kernels call by its address, given before its arguments; it returns a
    word.

    It is compiled once for all of them, at the first `address()`, and is inlined in none.
    """

    every: ClassVar["list[FunctionPointer]"] = []  # all of this process, in import order

    def __init__(self, function: Kernel, arguments: tuple[Any, ...]) -> None:
        self.function, self.arguments = function, arguments or declared(function)
        function.options["no_cfunc_wrapper"] = False
        FunctionPointer.every.append(self)

    @cached_property
    def _pointer(self) -> Any:
        return _compiler().pointer(self.function.dispatcher, self.arguments)

    @property
    def _numba_type_(self) -> Any:
        return _compiler().type_of_function(self._pointer)

    @cached_property
    def _address(self) -> int:
        found = shipped_address(self.function, self.arguments)
        return int(self._pointer.address() if found is None else found)

    def address(self) -> int:
        """Return the address of the machine code."""
        return self._address


class Intrinsic:
    """An operation of the processor or the system that Python lacks; jit/llvm.py has its code."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name, self.__doc__ = function.__name__, function.__doc__

    @property
    def _numba_type_(self) -> Any:
        from pagestore.runtime.jit import llvm

        return _compiler().type_of_function(getattr(llvm, self._name))


def c_function(function: Callable[..., Any], signature: str, name: str) -> Any:
    """Compile a function that is not a kernel, named in errors, to one that C can call: numba's
    `cfunc`.
    """
    return _compiler(f"{name} must be compiled").c_function(function, signature)


def _compiler(reason: str = "") -> Any:
    """Import jit/compiler.py, and with it numba. Raises CompilerError if numba is not installed."""
    try:
        from pagestore.runtime.jit import compiler
    except ModuleNotFoundError as error:
        if error.name not in ("numba", "llvmlite"):
            raise
        reason = reason or f"a kernel must be compiled here, since {missing()}"
        raise CompilerError(
            f"{reason}, and numba is not installed: pip install 'pagestore-ivm[jit]'"
        ) from None
    return compiler


def kernel(function: Callable[..., Any], **options: Any) -> Any:
    """Decorate a function that kernels and Python call: cached, and without the GIL.

    It counts no references, which would cost time for every array at every call: so it must not
    make arrays, nor get new ones from others. Only a constant that is the whole index, as in a[-1],
    may be negative.
    """
    return Kernel(function, **options) if JIT else function


def inlined(function: Callable[..., Any]) -> Any:
    """Decorate a part of a kernel that is inlined where it is called: a call would pass seven
    words per array.
    """
    return kernel(function, forceinline=True)


def allocating(function: Callable[..., Any]) -> Any:
    """Like `kernel`, for a function that makes arrays."""
    return kernel(function, _nrt=True)


def on_demand(*arguments: Any, allocates: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a kernel that only kernels call, by its address: it is compiled at the first
    `address()`, if ever.

    `arguments` are their types (see types.py), if its signature does not declare them.
    """
    return lambda function: function_pointer(kernel(function, _nrt=allocates), *arguments)


def function_pointer(compiled: Any, *arguments: Any) -> Any:
    """Let kernels call a kernel by its `address()`; `arguments` as for `on_demand`. Not after
    its first call.

    Python and kernels may still call the kernel itself.
    """
    if JIT and not CHECKED:  # an error inside a call by address is not raised
        return FunctionPointer(compiled, arguments)

    @kernel
    def call(address, *args):  # type: ignore[no-untyped-def]
        return compiled(*args)

    call.address = lambda: 1
    return call


def intrinsic(function: Callable[..., Any]) -> Any:
    """Decorate an operation that Python lacks; the function is its version for Python without a
    compiler.
    """
    return Intrinsic(function) if JIT else function
