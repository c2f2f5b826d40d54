"""Incrementally maintained Datalog views over a pagestore (see ivm.workspace)."""

from ivm.answer import Answer
from ivm.errors import IvmError
from ivm.workspace import Workspace, open

__all__ = ["Answer", "IvmError", "Workspace", "open"]
