"""The functions of Python that some work calls: half of the time of small work, and the same on
each machine.  And an interrupt at one of its lines.
"""

import gc
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from types import CodeType, FrameType

OURS = ("/pagestore/", "/ivm/", "/tools/")


def functions_called(work: Callable[[], object]) -> list[CodeType]:
    """Run the work; list the code of each function of Python that it calls, in order, but not
    itself.

    No garbage is collected meanwhile: what other tests left would run its functions here.
    """
    found: list[CodeType] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            found.append(frame.f_code)

    _profiled(work, note)
    return found[1:]


def calls_of(work: Callable[[], object]) -> int:
    """Run the work; return how many functions of Python and of C it calls, but itself."""
    events: Counter[str] = Counter()
    _profiled(work, lambda _, event, __: events.update([event]))
    return events["call"] + events["c_call"] - 2  # itself, and what ends the count


def _profiled(work: Callable[[], object], note: Callable[[FrameType, str, object], None]) -> None:
    collects = gc.isenabled()
    gc.disable()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        if collects:
            gc.enable()


def is_ours(code: CodeType) -> bool:
    """Whether the packages define it, their generated functions among them."""
    return any(folder in code.co_filename for folder in OURS) or code.co_filename == "<string>"


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
