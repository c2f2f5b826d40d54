"""The values that a question is given: its plans have a place for each, and so serve other values.

    q(n) <- sale(n, qty), qty > $value[0, "int64"].        the value 0 is among those of the encoder

No pass sees a constant in it: what is planned holds for any value of the type.
"""

from collections.abc import Sequence

import numpy as np

from ivm.lang.functions import define
from ivm.lang.ir import GIVEN, Const, Type
from ivm.terms.operands import Operands, Result


def _value(x: Operands) -> Result:
    numbers = x.words[0].tolist()
    word = x.encode.given(numbers[0]) if numbers else 0
    return np.full(x.n, word, np.int64), x.none()


def _type(_: Sequence[Type], constants: Sequence[Const | None]) -> Type:
    assert constants[1] is not None
    return str(constants[1].value)


define(GIVEN, "int64, string -> any", _value, gives=_type)
