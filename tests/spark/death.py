"""Python workers of Spark that are killed from within, so that the kill falls into a task's work
and not beside it.
"""

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any


@dataclass
class Death:
    """Kills this process, or all Python workers of its Spark, some seconds after the `with` block
    begins.

    Not after the block's end, and only once: of all processes that have this object, one makes the
    file `marker`.
    """

    marker: Path
    seconds: float
    everybody: bool = False

    def __enter__(self) -> "Death":
        self._timer = Timer(self.seconds, self._strike)
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_timer"}

    def _strike(self) -> None:
        # needed by few of those that import this
        from tests.spark.pipeline import kill, python_workers

        try:
            self.marker.touch(exist_ok=False)
        except FileExistsError:
            return
        if self.everybody:
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
            spark_process = int(daemon.rpartition(")")[2].split()[1])
            kill([pid for pid in python_workers(spark_process) if pid != os.getpid()])
        os.kill(os.getpid(), signal.SIGKILL)
