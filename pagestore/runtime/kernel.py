"""Kernels before anybody compiles them: the decorators, and what stands for a kernel until it is called.

    @kernel                         field is a Kernel: a name, a Python function, options
    def field(words, page, ...)     field(...) or a Door of it: now numba is imported, and the kernel compiled or loaded

Importing a package costs no compiler this way. numba asks each thing that a kernel refers to for its `_numba_type_`,
and is told what compiler.py makes of it.
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
        """What numba calls the kernel by."""
        return _compiler().dispatcher(self.py_func, self.options)

    @property
    def _numba_type_(self) -> Any:
        return self.dispatcher._numba_type_

    def compile(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        """The kernel for arguments of given types (see arguments.py); it looks at no types any more."""
        compiled: Callable[..., Any] = self.dispatcher.compile(_compiler().types_of(*arguments))
        return compiled


class ByAddress:
    """A kernel that other kernels call by its address, given before its arguments; it returns a word.

    It is compiled once for all of them, when its `address()` is asked for, and is part of none.
    """

    every: ClassVar["list[ByAddress]"] = []  # all of this process, in the order of their imports

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
        """The address of the machine code."""
        return self._address


class Machine:
    """An operation of the machine that Python lacks; llvm.py says how it is made."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name, self.__doc__ = function.__name__, function.__doc__

    @property
    def _numba_type_(self) -> Any:
        return _compiler().type_of_function(getattr(import_module("pagestore.runtime.llvm"), self._name))


def _compiler() -> Any:
    """The module compiler.py, which imports numba, and kernels: so it is imported late, and by its name."""
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

    It counts no references, which every array costs at every call: it makes no arrays and gets none from others.
    Of its indices only a constant that stands alone, as in a[-1], may be negative.
    """
    return Kernel(function, **options) if JIT else function


def inlined(function: Callable[..., Any]) -> Any:
    """Decorate a part of a kernel that is copied to where it is called: a call hands over seven words an array."""
    return kernel(function, forceinline=True)


def allocating(function: Callable[..., Any]) -> Any:
    """As `kernel`, for a function that makes arrays."""
    return kernel(function, _nrt=True)


def addressed(function: Callable[..., Any], **options: Any) -> Any:
    """As `kernel`, for a function that other kernels may call by its address."""
    return kernel(function, no_cfunc_wrapper=False, **options)


def late(*arguments: Any, allocates: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a kernel that only kernels call, by its address: compiled once `address()` is asked for, if ever.

    `arguments` are their types (see arguments.py).
    """
    return lambda function: by_address(addressed(function, _nrt=allocates), *arguments)


def by_address(compiled: Any, *arguments: Any) -> Any:
    """An `addressed` kernel as kernels call it by its `address()`; `arguments` are their types (see arguments.py)."""
    if JIT and not CHECKED:  # an error that is found behind an address is not raised
        return ByAddress(compiled, arguments)

    @kernel
    def call(address, *args):  # type: ignore[no-untyped-def]
        return compiled(*args)

    call.address = lambda: 1
    return call


def machine(function: Callable[..., Any]) -> Any:
    """Decorate an operation of the machine; the function says what it does, for Python without a compiler."""
    return Machine(function) if JIT else function
