"""Make Spark report an error in the data source by the error's message (ivm/spark/executors.py)."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isfunction, isgeneratorfunction
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)


def sentences_first(class_: Class) -> Class:
    """Decorate a class whose methods Spark calls in its workers, so that errors are reported by
    their message.
    """
    for name, method in vars(class_).items():
        if isfunction(method) and not name.startswith("_"):
            setattr(
                class_,
                name,
                _generating(method) if isgeneratorfunction(method) else _reporting()(method),
            )
    return class_


@contextmanager
def _reporting() -> Iterator[None]:
    try:
        yield
    except Exception:
        # imported only after an error, since `ivm` loads slowly
        from ivm.spark.executors import sentence_first

        with sentence_first():
            raise


def _generating(method: Any) -> Any:
    @wraps(method)
    def generate(*arguments: Any) -> Iterator[Any]:
        with _reporting():
            yield from method(*arguments)

    return generate
