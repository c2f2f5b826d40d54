"""Kept views as constructs: CREATE and DROP MATERIALIZED VIEW."""

from __future__ import annotations

from typing import Any

from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import ExecutableDDLElement
from sqlalchemy.sql.selectable import SelectBase


class CreateMaterializedView(ExecutableDDLElement):
    """CREATE MATERIALIZED VIEW name AS a select, which every edit keeps up to date."""

    inherit_cache = False

    def __init__(self, name: str, select: SelectBase, replace: bool = False) -> None:
        self.name, self.select, self.replace = name, select, replace


class DropMaterializedView(ExecutableDDLElement):
    """DROP MATERIALIZED VIEW name; with `if_exists` none is no error."""

    inherit_cache = False

    def __init__(self, name: str, if_exists: bool = False) -> None:
        self.name, self.if_exists = name, if_exists


@compiles(CreateMaterializedView)
def _create(element: CreateMaterializedView, compiler: Any, **_: Any) -> str:
    query = compiler.sql_compiler.process(element.select, literal_binds=True)
    name = compiler.preparer.quote(element.name)
    return f"CREATE {'OR REPLACE ' * element.replace}MATERIALIZED VIEW {name} AS {query}"


@compiles(DropMaterializedView)
def _drop(element: DropMaterializedView, compiler: Any, **_: Any) -> str:
    name = compiler.preparer.quote(element.name)
    return f"DROP MATERIALIZED VIEW {'IF EXISTS ' * element.if_exists}{name}"
