"""Incrementally maintained Datalog views over a pagestore (see ivm.workspace)."""

from ivm.answer import Answer
from ivm.errors import IvmError
from ivm.terms.numbers import register_function
from ivm.workspace import Workspace, open
from pagestore import __version__ as __version__

__all__ = ["Answer", "IvmError", "Workspace", "open", "register_function"]
