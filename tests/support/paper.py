"""The paper's worked examples, as fixtures/paper/ has them."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "fixtures" / "paper"
ENDS = {"-inf": -(2**63), "+inf": 2**63 - 1}  # of intervals


def example(name: str) -> dict[str, Any]:
    """One example, in which the ends of open intervals are int64's least and greatest."""

    def finite(value: Any) -> Any:
        if isinstance(value, list):
            return [
                ENDS.get(item, item) if isinstance(item, str) else finite(item) for item in value
            ]
        return (
            {key: finite(item) for key, item in value.items()} if isinstance(value, dict) else value
        )

    return finite(json.loads((FOLDER / f"{name}.json").read_text()))
