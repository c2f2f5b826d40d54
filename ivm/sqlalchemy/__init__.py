"""SQLAlchemy's dialect of a store: `create_engine("ivm:///orders.pages")`, or `ivm://` in memory.

>>> import sqlalchemy as sa
>>> engine, metadata = sa.create_engine("ivm://"), sa.MetaData()
>>> paid = sa.Table("paid", metadata, sa.Column("id", sa.Integer, primary_key=True),
...                 sa.Column("who", sa.String), sa.Column("cents", sa.Integer))
>>> metadata.create_all(engine)
>>> total = sa.select(paid.c.who, sa.func.sum(paid.c.cents).label("cents")).group_by(paid.c.who)
>>> with engine.begin() as connection:
...     _ = connection.execute(CreateMaterializedView("spent", total))
...     _ = connection.execute(paid.insert(), [{"who": "ada", "cents": 5}, {"who": "ada", "cents": 2}])
>>> spent = sa.Table("spent", sa.MetaData(), autoload_with=engine)  # a kept view is a table
>>> with engine.connect() as connection:
...     [tuple(row) for row in connection.execute(sa.select(spent.c.who, spent.c.cents))]
[('ada', 7)]

A statement that creates, alters or drops commits what was edited before it, as in MySQL.
"""

import sys

from ivm.sqlalchemy.dialect import IvmDialect
from ivm.sqlalchemy.views import CreateMaterializedView, DropMaterializedView

if "alembic" in sys.modules:  # which asks for its part of a dialect by name
    from ivm.sqlalchemy.alembic import IvmImpl as IvmImpl

__all__ = ["CreateMaterializedView", "DropMaterializedView", "IvmDialect"]
