"""Arrays without a reference count, for the inside of a kernel.

numba counts references to every array that passes through a call or a loop, with one locked instruction each
time; that took 60 % of a join's time.  The caller of an entry kernel holds the arrays anyway, so the kernel may
work with views that own nothing.  A kernel that makes no arrays counts no references in the first place
(compiler.py).
"""

import numpy as np
from numba import config
from numba.core import cgutils
from numba.extending import intrinsic

if config.DISABLE_JIT:

    def borrowed(array: np.ndarray) -> np.ndarray:
        """The array itself: plain Python counts references on its own."""
        return array

else:

    @intrinsic
    def borrowed(typing, array):
        """A view that keeps nothing alive; it must not outlive the call.  It is read-only if the array is."""

        def build(context, builder, signature, arguments):
            owner = context.make_array(signature.args[0])(context, builder, arguments[0])
            view = context.make_array(signature.return_type)(context, builder)
            for part in ("nitems", "itemsize", "data", "shape", "strides"):
                setattr(view, part, getattr(owner, part))
            view.meminfo = cgutils.get_null_value(owner.meminfo.type)
            view.parent = cgutils.get_null_value(owner.parent.type)
            return view._getvalue()

        return array(array), build
