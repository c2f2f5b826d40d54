"""An interrupt at a chosen line."""

import sys
from contextlib import contextmanager


@contextmanager
def interrupted_at(line, *functions):
    """Raise at a line, counted from the first that is executed in these functions; a list of
    what came.
    """
    passed, came = 0, []

    def trace(frame, event, _):
        nonlocal passed
        if frame.f_code.co_name not in functions:
            return None if event == "call" and frame.f_back is None else trace
        passed += event == "line"
        if passed == line:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        yield came
    except KeyboardInterrupt as interrupt:
        came.append(interrupt.with_traceback(None))
    finally:
        sys.settrace(None)
