"""What others write down: names, commands and the first bytes of a store. None of it changes
unnoticed.

Whoever changes one of these lists writes an entry of the next release (CONTRIBUTING.md).
"""

import importlib
import inspect
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import ivm.transaction
import pagestore
import pagestore.host
from ivm.__main__ import ivm as ivm_command
from pagestore.__main__ import pagestore as pagestore_command

ROOT = Path(__file__).parents[1]

MODULES = {  # each public module, and the names that it offers
    "pagestore": """
        Change Changes Commits PagestoreError Prepared Relation Snapshot Store Transaction on_metric open
        register_host register_operator
    """,
    "pagestore.compiled": """
        ADD Bounds ByteTable Bytes CHANGES CURSOR_WORDS ERASE Flags FlushRoom FoldWords GAIN HEIGHT INSERT
        IntervalTree KEYS LEAF_ENTRIES LEAF_PAGE LEAF_SLOT MappedWords PATH PageAccounts Pages Queues ROOT Reordering
        SCANS SCANS_END SET TAKEN Table Tables TreeRef TypedKernel VERSION WORD_MAX WORD_MIN Words allocating ascends
        before begin_commit borrowed call_operator code_of compose_few field find_weighted finish_commit first
        float_of_bits float_to_bits flush_queue fold_intervals_at forward function_pointer gallop inlined kernel
        lowest next_changes next_leaf on_demand population raise_for run_end seek stab start_delta tree_at unpack
        work_words
    """,
    "pagestore.errors": """
        ClosedError CompilerError CorruptionError DependantsError EditError ExistsError ForkError FormatError
        LockedError MergeError MissingError MovedError NoStoreError OrderError OutOfMemoryError PagestoreError
        PoisonedError ReadOnlyError RecoveryWarning RetainedError SchemaError TransactionError VersionError WordError
    """,
    "pagestore.host": """
        ACTIONS ADD ALONE Blocks CARRY CHECKSUM COUNT Coded Coding Column Complement Computed Delta Dependants ERASE
        EditQueue Edits EphemeralTransaction FEW Frames INSERT KEYS_MAX MAIN MAX MIN MOST NULL Offered Operator Pages
        PreparedEdit PreparedSeries ROWS_SHOWN Relation Rope RowWords Runs SET SUM Schema Short Snapshot Spec
        Stoppable Stopped Store SyncQueue THEN TREE_WORDS TextFinder Transaction Tree Turn Type
        Violation WORD_MAX WORD_MIN WritableRelation YEARS accountable accounted as_inserted ascending begins bulk
        bulk_all catalog_of changes_table coding_within columns_of compose_edits count_prefixes delta differing distinct
        encode external_sort first_from flags_of float_values float_words fold_many folder_named get given_rows
        has_inverse html_table in_order interval_spec is_operator is_semilattice last_before local_path may_be_narrow
        message narrowed numbers_of of_numbers of_texts one_batch operator operator_code pages_of_both
        pays pooled printable ranks read_batches record_dependants recorded_dependants register_host
        refuse_stopped repeats row_changes rows_of select select_weighted sort_order stab_many thread_lock to_its_end
        together typed user_cache value_of_word with_nulls
    """,
    "ivm": "Answer IvmError Workspace open register_function",
    "ivm.dbapi": """
        BINARY Binary Connection Cursor DATETIME DataError DatabaseError Date DateFromTicks Error IntegrityError
        InterfaceError InternalError Kind NUMBER NotSupportedError OTHER OperationalError ProgrammingError ROWID
        STRING Time TimeFromTicks Timestamp TimestampFromTicks Warning apilevel connect paramstyle threadsafety
    """,
    "ivm.errors": """
        AggregateError ArityError ConstraintError ConstructError DivergenceError EditError FunctionConflictError
        IvmError MaintainError LimitError OptionError RangeError RecomputeError RecursionRefusedError RedefinitionError
        RoomError RuleError RuleSyntaxError RuleTypeError RuleWarning SafetyError UninstallError UnknownPredicateError
        UnknownViewError UnregisteredError Where
    """,
    "ivm.spark": "Cells Feed Views materialize",
}
MEMBERS = {  # of each class that is handed to users
    pagestore.Store: """
        at backup branch branches changes check cherry_pick close column_sizes commits compact delete_branch diff dump
        history merge mode on owns page_size path prepare pull push readers rebase recovery reopen restore retain revert
        sketch snapshot stat tag tags texts_removed threads transaction untag uuid vacuum version
    """,
    pagestore.Snapshot: """
        close decode encode finder get items keys message pages properties remembered threads timestamp tree values
        version
    """,
    pagestore.Changes: "close next version",
    pagestore.Commits: "close next version",
    pagestore.Prepared: "clear commit commit_async delete insert set",
    pagestore.Relation: """
        batches bounded complement computed_place cursor enough first get get_many items key_order keys last mapping
        name overlaps prefix range range_head rank record_batch record_batches scan scan_many scans schema select
        sorts_texts source stab stab_many starts_with to_arrow to_duckdb to_numpy to_pandas to_polars tree values
        view words words_where
    """,
    pagestore.Transaction: """
        add_column add_scan apply apply_indexed bulk catalog commit counts create create_intervals create_words
        declare_maintained decode dictionary drop drop_column drop_scan edit edit_queues encode finder flush
        following keeping_pages pages properties refuse_nulls remembered rename rename_column replace
        rollback savepoint stitch
        threads tree truncate version
    """,
    ivm.Workspace: """
        at blocks changes check close commit_async commit_at constraints declarations delete delete_range
        delete_where evaluate evaluated exec explain in_sql_transaction insert install lint make moment on predicates
        prepare prepare_sql prepare_transaction preview query repair replace replan rope rules_of set sql stats strict
        subscribe tick trace trace_distance
        transaction transaction_async uninstall verify violations what_if why why_changed
    """,
    ivm.transaction.Transaction: (
        "commit composed delete delete_range delete_where edit inner insert rollback savepoint set "
        "sql"
    ),
    ivm.Answer: "schema to_arrow to_duckdb to_numpy to_pandas to_polars",
}
FIRST = [
    pagestore.open, pagestore.Store.transaction, pagestore.Store.at, pagestore.Store.diff,
    pagestore.Relation.range,
    pagestore.host.WritableRelation.insert, pagestore.host.WritableRelation.delete, ivm.open,
    ivm.Workspace.install,
    ivm.Workspace.query, ivm.Workspace.sql, ivm.Workspace.transaction, ivm.Workspace.insert,
    ivm.Workspace.why,
]  # fmt: skip
COMMANDS = {
    pagestore_command: """
        info stat fsck history diff tag branch merge rebase revert cherry-pick pull push vacuum compact backup dump
        restore page bench prepare load print delete drop rename truncate completion
    """,
    ivm_command: """
        install uninstall exec query sql declare print explain why make check fsck trace watch shell serve studio mcp
        bench completion demo
    """,
}


def names_of(module: ModuleType) -> set[str]:
    """What a module defines or hands on, without its imports of modules and of others' names."""
    if hasattr(module, "__all__"):
        return set(module.__all__)
    package = module.__name__.partition(".")[0]
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__module__", "").partition(".")[0] == package
    }


@pytest.mark.parametrize("module", MODULES)
def test_names_of_modules(module: str) -> None:
    assert names_of(importlib.import_module(module)) == set(MODULES[module].split())


@pytest.mark.parametrize("package", ["pagestore", "ivm"])
def test_names_stand_in_the_api_reference(package: str) -> None:
    """The errors do as one module."""
    shown = set(
        re.findall(
            r"^::: ([\w.]+)$", (ROOT / "docs" / "api" / f"{package}.md").read_text(), re.MULTILINE
        )
    )
    names = {f"{package}.{name}" for name in MODULES[package].split() if not name.endswith("Error")}
    assert names | {f"{package}.errors"} <= shown


@pytest.mark.parametrize(
    "class_", MEMBERS, ids=lambda class_: f"{class_.__module__}.{class_.__name__}"
)
def test_members_of_classes(class_: type) -> None:
    assert [name for name in dir(class_) if not name.startswith("_")] == MEMBERS[class_].split()


@pytest.mark.parametrize("method", FIRST, ids=lambda method: method.__qualname__)
def test_methods_that_people_open_first_have_an_example(method: Callable) -> None:
    assert ">>>" in (inspect.getdoc(method) or "")


def test_members_of_what_a_transaction_edits(tmp_path: Path) -> None:
    with pagestore.open(tmp_path / "a.pages", sync="off") as store, store.transaction() as txn:
        relation = txn.create("r", "x: int64")
        added = {name for name in dir(relation) if not name.startswith("_")} - {
            *dir(pagestore.Relation)
        }
    assert " ".join(sorted(added)) == (
        "add bulk clear delete delete_range delete_where encode follow info insert pop "
        "remove_overlaps "
        "remove_stabbed set setdefault update"
    )


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_commands(command, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        command(["--help"])
    listed = re.findall(r"^    ([a-z-]+)\b", capsys.readouterr().out, re.MULTILINE)
    assert listed == COMMANDS[command].split()


@pytest.mark.parametrize(
    ("command", "name"),
    [(command, name) for command in COMMANDS for name in COMMANDS[command].split()],
)
def test_help_fits_a_terminal(
    command, name: str, monkeypatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit, match="0"):
        command([name, "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("usage:") and [line for line in lines if len(line) > 80] == []


def test_the_scripts_run_these_commands() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    for name, place in scripts.items():
        module, _, function = place.partition(":")
        command = getattr(importlib.import_module(module), function)
        assert command in COMMANDS and command.__name__ == name
    assert sorted(scripts) == ["ivm", "pagestore"]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_one_version(command, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        command(["--version"])
    assert capsys.readouterr().out == f"{command.__name__} {pagestore.__version__}\n"
    assert ivm.__version__ == pagestore.__version__


def test_the_first_bytes_of_a_store(tmp_path: Path) -> None:
    """The magic, and the number of the format, which has a folder of fixtures of its own."""
    path = tmp_path / "a.pages"
    pagestore.open(path).close()
    assert path.read_bytes()[:12] == b"pageSTR\0" + (4).to_bytes(4, "little")
    assert (ROOT / "fixtures" / "format-4").is_dir()


@pytest.mark.parametrize(
    "function", [pagestore.open, ivm.open, ivm.Workspace.install, ivm.Workspace.sql]
)
def test_options_are_named_and_those_of_few_values_list_them(
    function: Callable[..., object],
) -> None:
    """So that a type checker finds a wrong one."""
    parameters = inspect.signature(function).parameters.values()
    assert not any(one.kind is one.VAR_KEYWORD for one in parameters)
    text = inspect.getsource(inspect.getmodule(function))
    for name in {one.name for one in parameters} & {"mode", "sync", "maintenance", "dialect"}:
        assert re.search(rf"\b{name}: \"?(Mode|Sync|Dialect|Literal\[)", text), name


def test_both_ways_to_open_have_the_same_options() -> None:
    store, workspace = (inspect.signature(one).parameters for one in (pagestore.open, ivm.open))
    assert store.keys() <= workspace.keys()
    assert all(one.default == workspace[name].default for name, one in store.items())
