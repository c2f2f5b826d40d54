"""The wheel holds every package of the source tree."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_package_folder_is_listed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = [
        init.parent.relative_to(ROOT).parts
        for top in ("ivm", "pagestore", "tools")
        for init in (ROOT / top).rglob("__init__.py")
    ]
    names = [".".join(parts).replace("tools", "pagestore_tools", 1) for parts in found]
    assert sorted(listed) == sorted(names)
