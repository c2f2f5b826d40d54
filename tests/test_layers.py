"""Imports run one way: the contracts of pyproject.toml hold, and none runs in a circle, by
whatever means.
"""

import ast
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
cli = pytest.importorskip("importlinter.cli")


def test_import_contracts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    # it would disable the loggers of all others
    monkeypatch.setattr(cli.logging_config, "dictConfig", lambda _: None)
    assert cli.lint_imports(cache_dir=None) == cli.EXIT_STATUS_SUCCESS


@pytest.mark.parametrize("package", ["ivm", "pagestore"])
def test_every_file_and_folder_is_on_a_layer(package: str) -> None:
    """So that what is new is put on one: the contracts are exhaustive, and here is what they
    say.
    """
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    (contract,) = [one for one in contracts if one.get("containers") == [package]]
    assert contract["exhaustive"]
    layers = {name.strip() for layer in contract["layers"] for name in re.split(r"[|:]", layer)}
    folder = ROOT / package
    files = {file.stem for file in folder.glob("[!_]*.py")}
    assert layers == files | {file.parent.name for file in folder.glob("*/__init__.py")}


def sources(package: str, folder: str) -> dict[str, str]:
    """The source of each module of a package in `folder`, by the module's full name; a folder's
    by `name.__init__`.
    """
    root = ROOT / folder
    return {
        ".".join((package, *file.relative_to(root).with_suffix("").parts)): file.read_text()
        for file in root.rglob("*.py")
    }


def imported(module: str, source: str, modules: Collection[str]) -> set[str]:
    """The modules that one imports: within functions, for types, and by their names in strings,
    too.
    """
    named = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            named += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = (
                [*module.split(".")[: -node.level], node.module] if node.level else [node.module]
            )
            package = ".".join(filter(None, above))
            inside = [f"{package}.{a.name}" for a in node.names]
            named += [
                name if {name, f"{name}.__init__"}.intersection(modules) else package
                for name in inside
            ]
    if re.search(r"\b(import_module|__import__)\b", source):
        named += _by_name(module, source, modules)
    return {name if name in modules else f"{name}.__init__" for name in named}.intersection(
        modules
    ) - {module}


def _by_name(module: str, source: str, modules: Collection[str]) -> set[str]:
    """The modules that strings name, from the top or from a folder above; a string that names a
    folder, all in it.
    """
    strings = {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)}
    parts = module.split(".")
    above = ["", *(".".join(parts[:n]) + "." for n in range(1, len(parts)))]
    names = {
        package + text.strip(".") for text in strings if isinstance(text, str) for package in above
    }
    return {
        name
        for name in modules
        if name in names or (name.count(".") > 1 and name.rpartition(".")[0] in names)
    }


def circle(arrows: Mapping[str, Iterable[str]]) -> list[str]:
    """Some modules each of which leads to the next, and the last to the first; none if there are
    none.
    """
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def circle_of(modules: Mapping[str, str]) -> list[str]:
    return circle({name: imported(name, source, modules) for name, source in modules.items()})


def test_no_files_import_each_other_in_a_circle_not_even_by_name() -> None:
    ours = (
        sources("ivm", "ivm")
        | sources("pagestore", "pagestore")
        | sources("pagestore_tools", "tools")
    )
    assert "pagestore.runtime.jit.llvm" in imported(
        "pagestore.runtime.kernel", ours["pagestore.runtime.kernel"], ours
    )
    assert "pagestore_tools.store_commands.fsck" in imported(
        "pagestore_tools.cli.main", ours["pagestore_tools.cli.main"], ours
    )
    files = {name: source for name, source in ours.items() if not name.endswith(".__main__")}
    assert not circle_of(files)


@pytest.mark.parametrize(
    "back",
    [
        "from p.a import x",
        "from p import a",
        "def f():\n    import p.a",
        "if TYPE_CHECKING:\n    from p.a import X",
        "import importlib\ndef f(): return importlib.import_module('p.a')",
        "from importlib import import_module as m\nNAMES = {'a': '..a'}\ndef f(n): return "
        "m(NAMES[n], __package__)",
        "def f(): return __import__('p.a')",
    ],
)
def test_a_circle_is_seen(back: str) -> None:
    assert not circle_of({"p.a": "from p.b import y", "p.b": "'p.a'\nimport os"})
    assert {*circle_of({"p.a": "from p.b import y", "p.b": back})} == {"p.a", "p.b"}


def test_only_one_folder_imports_numba() -> None:
    """So that nobody waits for it who finds the machine code ready."""
    wanted = re.compile(r"^\s*(from|import) (numba|llvmlite)\b", re.MULTILINE)
    found = {
        name
        for name, source in (sources("pagestore", "pagestore") | sources("ivm", "ivm")).items()
        if wanted.search(source)
    }
    assert {name.rpartition(".")[0] for name in found} == {"pagestore.runtime.jit"}
