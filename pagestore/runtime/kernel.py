"""Kernels before they are compiled: the decorators, and the objects that represent kernels until they are called.

    @kernel                         field is a Kernel: a name, a Python function, options
    def field(words, page, ...)     calling field or a Door of it imports numba, and compiles or loads the kernel

So importing a package does not import the compiler. numba reads the `_numba_type_` of each object that a kernel
refers to, which compiler.py makes.
"""

import os
from collections.abc import Callable
from functools import cached_property, update_wrapper
from importlib import import_module
from typing import Any, ClassVar

from pagestore.errors import CompilerError
from pagestore.runtime.library import CHECKED, missing, shipped_address

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
        """Compile the kernel for arguments of given types (see arguments.py); the result checks no types."""
        compiled: Callable[..., Any] = self.dispatcher.compile(_compiler().types_of(*arguments))
        return compiled


class ByAddress:
    """A kernel that other kernels call by its address, given before its arguments; it returns a word.

    It is compiled once for all of them, at the first `address()`, and is inlined in none.
    """

    every: ClassVar["list[ByAddress]"] = []  # all of this process, in import order

    def __init__(self, function: Kernel, arguments: tuple[Any, ...]) -> None:
        self.function, self.arguments = function, arguments
        ByAddress.every.append(self)

    @cached_property
    def _jump(self) -> Any:
        return _compiler().jump(self.function.dispatcher, self.arguments)

    @property
    def _numba_type_(self) -> Any:
        return _compiler().type_of_function(self._jump)

    @cached_property
    def _address(self) -> int:
        found = shipped_address(self.function, self.arguments)
        return int(self._jump.address() if found is None else found)

    def address(self) -> int:
        """Return the address of the machine code."""
        return self._address


class Machine:
    """An operation of the machine that Python lacks; llvm.py has its code."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name, self.__doc__ = function.__name__, function.__doc__

    @property
    def _numba_type_(self) -> Any:
        return _compiler().type_of_function(getattr(import_module("pagestore.runtime.llvm"), self._name))


def _compiler() -> Any:
    """Import compiler.py, on demand and by its name, since it imports numba, and kernels."""
    try:
        return import_module("pagestore.runtime.compiler")
    except ModuleNotFoundError as error:
        if error.name not in ("numba", "llvmlite"):
            raise
        raise CompilerError(
            f"a kernel must be compiled here, since {missing()}, and numba is not installed: pip install "
            f"'pagestore-ivm[jit]'"
        ) from None


def kernel(function: Callable[..., Any], **options: Any) -> Any:
    """Decorate a function that kernels and Python call: cached, and without the GIL.

    It counts no references, which would cost time for every array at every call: so it must not make arrays, nor get
    new ones from others. Only a constant that is the whole index, as in a[-1], may be negative.
    """
    return Kernel(function, **options) if JIT else function


def inlined(function: Callable[..., Any]) -> Any:
    """Decorate a part of a kernel that is inlined where it is called: a call would pass seven words per array."""
    return kernel(function, forceinline=True)


def allocating(function: Callable[..., Any]) -> Any:
    """Like `kernel`, for a function that makes arrays."""
    return kernel(function, _nrt=True)


def addressed(function: Callable[..., Any], **options: Any) -> Any:
    """Like `kernel`, for a function that other kernels may call by its address."""
    return kernel(function, no_cfunc_wrapper=False, **options)


def late(*arguments: Any, allocates: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a kernel that only kernels call, by its address: it is compiled at the first `address()`, if ever.

    `arguments` are the types of its arguments (see arguments.py).
    """
    return lambda function: by_address(addressed(function, _nrt=allocates), *arguments)


def by_address(compiled: Any, *arguments: Any) -> Any:
    """Let kernels call an `addressed` kernel by its `address()`; `arguments` are its types (see arguments.py)."""
    if JIT and not CHECKED:  # an error inside a call by address is not raised
        return ByAddress(compiled, arguments)

    @kernel
    def call(address, *args):  # type: ignore[no-untyped-def]
        return compiled(*args)

    call.address = lambda: 1
    return call


def machine(function: Callable[..., Any]) -> Any:
    """Decorate an operation of the machine; the function is its version for Python without a compiler."""
    return Machine(function) if JIT else function
