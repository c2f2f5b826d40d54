"""Values for the parameters of a statement."""

from collections.abc import Mapping, Sequence
from typing import Any

Parameters = Sequence[Any] | Mapping[str, Any] | None
