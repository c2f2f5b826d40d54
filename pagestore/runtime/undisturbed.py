"""Delay signals while a kernel is compiled or loaded: an exception in the midst of LLVM's work ends the process."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def undisturbed() -> Iterator[None]:
    """Hold back signals that arrive inside the block, and call their handlers after it.

    Python runs handlers in the main thread only, so in other threads there is nothing to hold back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    now = {number: signal.getsignal(number) for number in signal.valid_signals()}
    handlers: dict[int, Any] = {number: handler for number, handler in now.items() if callable(handler)}
    try:
        for number in handlers:
            signal.signal(number, lambda number, frame: came.append((number, frame)))
        yield
    finally:
        _restore(handlers, came)


def _restore(handlers: dict[int, Any], came: list[tuple[int, FrameType | None]]) -> None:
    """Put all handlers back, even if one is called at once and raises; then call those of the signals held back."""
    raised, left = None, [*handlers]
    while left:
        try:
            while left:
                signal.signal(left[-1], handlers[left[-1]])
                left.pop()
        except BaseException as error:
            raised = error
    for number, frame in came:
        handlers[number](number, frame)
    if raised:
        raise raised
