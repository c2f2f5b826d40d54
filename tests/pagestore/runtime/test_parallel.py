"""Tasks on several threads: nested tasks, failing tasks, tasks in a forked process."""

import subprocess
import sys
import threading
import time

import pytest

from pagestore.runtime.parallel import Stoppable, Stopped, refuse_stopped, to_its_end, together
from tests.support.waiting import joined

FORKED = """
import os
from pagestore.runtime.parallel import refuse_stopped, together
tasks = [os.getpid] * 3
together(tasks)
child = os.fork()
if child:
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
raise SystemExit(together(tasks) != [os.getpid()] * 3)
"""


def test_tasks_that_have_tasks():
    def work(depth):
        return 1 + sum(together([lambda: work(depth - 1)] * 4)) if depth else 1

    assert work(3) == 1 + 4 + 16 + 64


def test_threads_stay():
    before = {thread.ident for thread in threading.enumerate()}
    for _ in range(50):
        together([threading.get_ident] * 3)
        time.sleep(0.001)  # a thread that is about to wait for work does not wait yet
    assert len({thread.ident for thread in threading.enumerate()} - before) < 10


@pytest.mark.parametrize("bad", [0, 1])
def test_an_error_waits_for_what_is_under_way(bad):
    done = []

    def well():
        time.sleep(0.05)
        done.append(True)

    def badly():
        raise ValueError("a task failed")

    with pytest.raises(ValueError, match="a task failed"):
        together([badly, well, well] if bad == 0 else [well, badly, well])
    assert len(done) == 2


def test_a_forked_process_has_threads_of_its_own():
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=60)


def test_a_task_that_fails_stops_the_others():
    """So an interrupt, which only the first thread gets, does not wait for all that the others
    have to do.
    """
    turns = []

    def endless():
        while True:
            refuse_stopped()
            turns.append(1)
            time.sleep(0.001)

    def interrupted():
        together([endless, endless])  # tasks of a task are stopped, too

    def fails():
        while not turns:
            time.sleep(0.001)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        together([fails, endless, interrupted])
    refuse_stopped()  # raises nothing in a thread that runs no task
    assert together([lambda: 1, lambda: 2]) == [1, 2]


@pytest.mark.parametrize("stopped", [0, 1])
def test_work_is_ended_with_its_tasks_and_with_the_work_around_it(stopped):
    begun, works = threading.Event(), (Stoppable(), Stoppable())
    outer, inner = works

    def endless():
        begun.set()
        while True:
            refuse_stopped()

    stops = threading.Thread(target=lambda: (begun.wait(), works[stopped].stop()))
    stops.start()
    with pytest.raises(Stopped):
        outer.run(lambda: inner.run(lambda: together([endless, endless])))
    joined(stops)
    refuse_stopped()
    assert works[stopped].run(lambda: to_its_end(refuse_stopped)) is None
    with pytest.raises(Stopped):
        Stoppable(0.0).run(endless)
