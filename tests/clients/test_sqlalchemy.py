"""SQLAlchemy's Core and ORM, Alembic and pandas over a store, through the dialect."""

import datetime
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import ivm

sa = pytest.importorskip("sqlalchemy")
orm = pytest.importorskip("sqlalchemy.orm")

from ivm.sqlalchemy import CreateMaterializedView, DropMaterializedView, dialect  # noqa: E402

sa.dialects.registry.register("ivm", "ivm.sqlalchemy", "IvmDialect")  # where it is not installed

BASE = orm.declarative_base()


class User(BASE):
    __tablename__ = "user_account"
    id = sa.Column(sa.Integer, primary_key=True)
    name = sa.Column(sa.String(30), index=True, nullable=False)
    joined = sa.Column(sa.DateTime, server_default=sa.func.now())
    price = sa.Column(sa.Numeric(10, 2), default=0)
    data = sa.Column(sa.JSON)
    addresses = orm.relationship("Address", back_populates="user", cascade="all, delete-orphan")


class Address(BASE):
    __tablename__ = "address"
    id = sa.Column(sa.Integer, primary_key=True)
    email = sa.Column(sa.String, unique=True)
    user_id = sa.Column(sa.ForeignKey("user_account.id", name="of_user"), nullable=False)
    user = orm.relationship("User", back_populates="addresses")


PER_USER = (
    sa.select(User.name, sa.func.count(Address.id).label("n")).join(Address).group_by(User.name)
)


@pytest.fixture(params=["memory", "file"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    url = "ivm://" if request.param == "memory" else f"ivm:///{tmp_path}/a.pages?timeout=2"
    made = sa.create_engine(url)
    BASE.metadata.create_all(made)
    with made.begin() as connection:
        connection.execute(CreateMaterializedView("per_user", PER_USER))
    yield made
    made.dispose()


def test_objects_are_kept_and_a_view_follows_them(engine: Any) -> None:
    per_user = sa.text("SELECT name, n FROM per_user ORDER BY name")
    with orm.Session(engine) as session:
        ada = User(name="ada", addresses=[Address(email="a@x"), Address(email="b@x")])
        session.add_all([ada, User(name="bob", price=Decimal("3.50"), data={"a": [1, 2]})])
        session.commit()
        assert [ada.id, *(one.id for one in ada.addresses)] == [1, 1, 2]
        assert isinstance(ada.joined, datetime.datetime)
        bob = session.scalars(sa.select(User).where(User.name.in_(["bob"]))).one()
        assert (bob.price, bob.data) == (Decimal("3.50"), {"a": [1, 2]})
        ada.addresses.pop()
        with session.begin_nested() as nested:
            session.add(User(name="eve"))
            session.flush()
            nested.rollback()
        session.commit()
        assert session.execute(per_user).all() == [("ada", 1)]
        assert session.scalar(sa.select(sa.func.count()).select_from(User)) == 2
        for wrong in (Address(email="a@x", user_id=1), Address(email="c@x", user_id=99)):
            session.add(wrong)
            with pytest.raises(sa.exc.IntegrityError):
                session.commit()
            session.rollback()
        session.delete(bob)
        session.commit()
        assert session.scalars(sa.select(User.name)).all() == ["ada"]


def test_core_asks_edits_and_returns(engine: Any) -> None:
    users = User.__table__
    with engine.begin() as connection:
        connection.execute(users.insert(), [{"name": name} for name in "cab"])
        made = connection.execute(
            users.insert().values(name="d").returning(users.c.id, users.c.name)
        )
        assert made.all() == [(4, "d")]
        edit = users.update().where(users.c.name == "a").values(price=users.c.price + 2)
        assert connection.execute(edit.returning(users.c.price)).all() == [(Decimal("2.00"),)]
        assert connection.execute(users.delete().where(users.c.id > 3)).rowcount == 1
    with engine.connect() as connection:
        names = sa.select(users.c.name).order_by(users.c.name)
        assert connection.scalars(names.limit(2).offset(1)).all() == ["b", "c"]
        assert connection.scalars(names.offset(2)).all() == ["c"]
        assert connection.scalars(names.where(users.c.id.in_([]))).all() == []
        assert connection.scalar(sa.select(sa.literal(3) / sa.literal(2))) == 1.5
    with pytest.raises(sa.exc.ProgrammingError, match="no table"), engine.connect() as connection:
        connection.execute(sa.text("SELECT * FROM nope"))


def test_tables_and_views_are_reflected(engine: Any) -> None:
    inspector = sa.inspect(engine)
    assert inspector.get_table_names() == ["address", "user_account"]
    assert inspector.get_materialized_view_names() == ["per_user"]
    assert [one["name"] for one in inspector.get_indexes("user_account")] == [
        "ix_user_account_name"
    ]
    (key,) = inspector.get_foreign_keys("address")
    assert (key["name"], key["referred_table"], key["referred_columns"]) == (
        "of_user", "user_account", ["id"],
    )  # fmt: skip
    found = sa.MetaData()
    found.reflect(engine, views=True)
    own = found.tables["user_account"]
    assert [one.name for one in own.primary_key] == ["id"] and own.c.id.autoincrement
    assert str(own.c.price.type) == "NUMERIC(10, 2)" and not own.c.name.nullable
    assert [*found.tables["per_user"].c.keys()] == ["name", "n"]
    with engine.begin() as connection:
        connection.execute(DropMaterializedView("per_user"))
        connection.execute(DropMaterializedView("per_user", if_exists=True))
    BASE.metadata.drop_all(engine)
    assert sa.inspect(engine).get_table_names() == []


def test_a_wrong_url_is_refused() -> None:
    for url in ("ivm:///a.pages?cache=5", "ivm://host/a.pages"):
        with pytest.raises(sa.exc.ArgumentError):
            sa.create_engine(url).connect()
    assert dialect.IvmDialect.get_pool_class(sa.make_url("ivm://")) is sa.pool.StaticPool


def test_pandas_writes_and_reads(engine: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2, 3], "b": ["x", "y", None], "f": [1.5, None, 2]})
    frame.to_sql("frame", engine, index=False)
    frame.to_sql("frame", engine, if_exists="append", index=False, method="multi")
    read = pandas.read_sql("SELECT DISTINCT * FROM frame ORDER BY a", engine)
    pandas.testing.assert_frame_equal(read, frame)
    frame.to_sql("frame", engine, if_exists="replace", index=True)  # with an index of the table
    assert len(pandas.read_sql_table("frame", engine)) == 3


MIGRATED = """
import sqlalchemy as sa
from alembic import context
from models import metadata
sa.dialects.registry.register("ivm", "ivm.sqlalchemy", "IvmDialect")
engine = sa.create_engine(context.config.get_main_option("sqlalchemy.url"))
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()
"""
MODELS = """
import sqlalchemy as sa
metadata = sa.MetaData()
sa.Table("a", metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("x", sa.String){more})
"""
MORE = """, sa.Column("y", sa.Integer, server_default="7"))
sa.Table("b", metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("a", sa.ForeignKey("a.id"))"""


def test_alembic_migrates_under_kept_views(tmp_path: Path) -> None:
    pytest.importorskip("alembic")
    file, folder = tmp_path / "a.pages", tmp_path / "migrations"

    def alembic(*words: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "alembic", *words], cwd=tmp_path, capture_output=True, text=True,
            env={"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}"}, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]

    alembic("init", "migrations")
    (folder / "env.py").write_text(MIGRATED)
    text = (tmp_path / "alembic.ini").read_text()
    lines = [
        f"sqlalchemy.url = ivm:///{file}" if one.startswith("sqlalchemy.url") else one
        for one in text.splitlines()
    ]
    (tmp_path / "alembic.ini").write_text("\n".join(lines))
    (tmp_path / "models.py").write_text(MODELS.format(more=""))
    alembic("revision", "--autogenerate", "-m", "one")
    alembic("upgrade", "head")
    with ivm.open(file) as ws:
        ws.sql("INSERT INTO a VALUES (1, 'q')")
        ws.sql("CREATE MATERIALIZED VIEW v AS SELECT x, count(*) AS n FROM a GROUP BY x")
    (tmp_path / "models.py").write_text(MODELS.format(more=MORE))
    alembic("revision", "--autogenerate", "-m", "two")
    alembic("upgrade", "head")
    with ivm.open(file) as ws:
        assert [*ws["v"]] == [("q", 1)] and [*(ws.sql("SELECT * FROM a") or ())] == [(1, "q", 7)]
        assert "b" in ws
    alembic("downgrade", "-1")
    with ivm.open(file) as ws:
        assert [*ws["v"]] == [("q", 1)] and "b" not in ws


def test_the_example_of_the_package_runs() -> None:
    import doctest

    import ivm.sqlalchemy

    found = doctest.testmod(ivm.sqlalchemy, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert (found.attempted > 3, found.failed) == (True, 0)
