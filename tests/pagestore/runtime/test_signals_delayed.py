"""Signals that arrive while kernels are compiled or loaded are delayed and not lost."""

import os
import signal
import threading

import pytest

from pagestore.runtime.jit.overrides import signals_delayed
from tests.support.waiting import joined


class Came(Exception):
    """Raised by the handlers of signals here."""


@pytest.fixture
def handler():
    def handle(number, frame):
        raise Came(number)

    before = signal.signal(signal.SIGUSR1, handle)
    yield handle
    signal.signal(signal.SIGUSR1, before)


def test_a_signal_waits(handler):
    done = []
    with pytest.raises(Came), signals_delayed():
        os.kill(os.getpid(), signal.SIGUSR1)
        for _ in range(1000):
            pass
        done.append("all of it")
    assert done and signal.getsignal(signal.SIGUSR1) is handler


def test_a_handler_that_does_nothing_is_called_as_often_as_signals_came():
    came = []
    before = signal.signal(signal.SIGUSR1, lambda *_: came.append(1))
    try:
        with signals_delayed():
            signal.raise_signal(signal.SIGUSR1)
            assert not came
        assert came == [1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_other_threads_have_no_signals_to_wait_for():
    def work():
        with signals_delayed():
            entered.append(signal.getsignal(signal.SIGINT))

    entered: list = []
    thread = threading.Thread(target=work)
    thread.start()
    joined(thread)
    assert entered == [signal.getsignal(signal.SIGINT)]
