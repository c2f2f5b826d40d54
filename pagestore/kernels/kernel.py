"""How a kernel is compiled: cached, without the GIL, and once for constants and variables alike.

numba would compile a function anew for every constant that another kernel passes to it, which took most of the time
of a first use.
"""

from collections.abc import Callable, Sequence
from typing import Any

from numba import config, njit, types


def kernel(function: Callable, **options: Any) -> Any:
    """Decorate a function that kernels and Python call."""
    compiled = njit(cache=True, nogil=True, **options)(function)
    if not config.DISABLE_JIT:
        template = compiled.get_call_template

        def without_literals(args: Sequence, kws: dict) -> Any:
            """numba's `get_call_template`, the types of constants widened."""
            return template([types.unliteral(a) for a in args], {k: types.unliteral(a) for k, a in kws.items()})

        compiled.get_call_template = without_literals
    return compiled


def inlined(function: Callable) -> Any:
    """Decorate a part of a kernel that is copied to where it is called: a call hands over seven words an array."""
    return kernel(function, forceinline=True)
