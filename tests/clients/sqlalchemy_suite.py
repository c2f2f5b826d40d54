"""SQLAlchemy's own suite for dialects over this one: `python -m tests.clients.sqlalchemy_suite`,
with words that choose tests, as pytest's -k takes them.
"""

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

from ivm.sqlalchemy import IvmDialect

for name in ("ivm", f"ivm.{IvmDialect.driver}"):
    sa.dialects.registry.register(name, "ivm.sqlalchemy", "IvmDialect")
LEFT_OUT = {  # what is not there, with the reason
    "schemas": "a store has one schema",
    "temp_table_names temporary_tables temp_table_reflection temporary_views": "tables are kept in the file",
    "sequences sequences_optional": "numbers are those of identity columns",
    "comment_reflection": "tables have no comments",
    "bound_limit_offset sql_expression_limit_offset": "LIMIT takes a number or a parameter",
    "precision_numerics_enotation_large precision_numerics_many_significant_digits": "38 digits",
    "insert_order_dbapi": "RETURNING gives rows in the order of the key",
    "like_escapes": "LIKE … ESCAPE wants a pattern that is written out",
}


TESTS_OUT = {  # tests that no requirement names, with the reason
    "test_get_unique_constraints test_get_multi_unique_constraints":
        "a UNIQUE that holds the key says nothing more, and is not kept",
    "test_get_view_names": "views with a quote in their names, which the suite makes, are not made",
    "test_string_length_reflection": "texts have no longest length",
    "test_long_convention_name": "names of primary keys and of UNIQUE that an index is are not kept",
    "test_last_inserted_id": "a key is told by RETURNING, and by no lastrowid",
    "test_truediv_numeric test_truediv_divisor": "a quotient of decimals is a float",
    "test_round_trip_executemany_returning": "RETURNING gives rows in the order of the key",
    "test_imv_returning_datatypes": "bytes that are no UTF-8 are inserted as columns, and not compared",
}  # fmt: skip


class Requirements(SuiteRequirements):
    """What of the suite this dialect has."""


def _is_out() -> Any:
    return exclusions.closed()


for names in LEFT_OUT:
    for name in names.split():
        setattr(Requirements, name, property(lambda self: _is_out()))


class Reasons:
    """A plugin of pytest: tests that are left out are skipped with their reason."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Skip them."""
        reasons = {name: why for names, why in TESTS_OUT.items() for name in names.split()}
        for item in items:
            if (why := reasons.get(getattr(item, "originalname", ""))) is not None:
                item.add_marker(pytest.mark.skip(reason=why))


if __name__ == "__main__":
    words = ["-k", " or ".join(sys.argv[1:])] if sys.argv[1:] else []
    sys.path.insert(0, os.getcwd())
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("setup.cfg").write_text(
            "[sqla_testing]\nprofile_file=profiles.txt\nrequirement_cls=tests.clients.sqlalchemy_suite:Requirements\n"
            f"[db]\ndefault=ivm:///{folder}/suite.pages\n"
        )
        Path("test_suite.py").write_text("from sqlalchemy.testing.suite import *\n")
        options = ["-q", "--tb=line", "-W", "ignore", "-p", "no:cacheprovider", "test_suite.py"]
        given = ["-p", "sqlalchemy.testing.plugin.pytestplugin", *options, *words]
        sys.exit(pytest.main(given, plugins=[Reasons()]))
