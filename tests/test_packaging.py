"""The wheel holds every package of the source tree."""
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_package_folder_is_listed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = [init.parent for top in ("ivm", "pagestore", "tools") for init in (ROOT / top).rglob("__init__.py")]
    names = [".".join(folder.relative_to(ROOT).parts) for folder in folders]
    assert sorted(listed) == sorted("pagestore_" + name if name.startswith("tools") else name for name in names)
