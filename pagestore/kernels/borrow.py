"""Arrays without a reference count, for the inside of a kernel.

numba counts references to every array that passes through a call or a loop, with a locked instruction
each; in a join that was 60 % of the time.  An entry kernel's caller holds its arrays anyway, so the
kernel may go on with views that own nothing.  They are of a type of their own, in which numba finds nothing
to count: with a null owner alone it still calls the counter twice for every array of every call.
"""

from typing import Any

import numpy as np
from numba import config
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

if config.DISABLE_JIT:

    def borrowed(array: np.ndarray) -> np.ndarray:
        """The array itself: plain Python has its own counts."""
        return array

    frozen = borrowed

else:

    class Borrowed(types.Array):
        """An array, and every slice of it, that keeps nothing alive."""

        def __init__(self, of: types.Array) -> None:
            super().__init__(of.dtype, of.ndim, of.layout, not of.mutable, f"borrowed {of}", of.aligned)

        def copy(self, *same: Any, **changed: Any) -> Any:
            return Borrowed(super().copy(*same, **changed))

    @register_model(Borrowed)
    class BorrowedModel(models.StructModel):
        """As numba's model of an array, but that `meminfo` is any pointer."""

        def __init__(self, manager: Any, array: types.Array) -> None:
            usual = models.ArrayModel(manager, array)
            fields = zip(usual._fields, usual._members, strict=True)
            super().__init__(manager, array, [(n, types.voidptr if n == "meminfo" else m) for n, m in fields])

    def view(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        """Code for an array without its owner."""
        owner = context.make_array(signature.args[0])(context, builder, arguments[0])
        made = context.make_array(signature.return_type)(context, builder)
        for part in ("nitems", "itemsize", "data", "shape", "strides"):
            setattr(made, part, getattr(owner, part))
        made.meminfo = cgutils.get_null_value(made.meminfo.type)
        made.parent = cgutils.get_null_value(made.parent.type)
        return made._getvalue()

    @intrinsic
    def borrowed(typing, array):
        """A view that keeps nothing alive; it must not outlive the call.  A read-only array stays one."""
        return Borrowed(array)(array), view

    @intrinsic
    def frozen(typing, array):
        """As `borrowed`, of an array that is not written to: one type whether it could be or not."""
        return Borrowed(array.copy(readonly=True))(array), view
