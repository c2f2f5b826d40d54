"""The wheel holds every package of the source tree, and an editable install what Spark looks
for.
"""

import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RENAMED = {"pagestore_tools.spark.found": "pyspark_pagestore"}


def test_every_package_folder_is_listed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = [
        init.parent.relative_to(ROOT).parts
        for top in ("ivm", "pagestore", "tools")
        for init in (ROOT / top).rglob("__init__.py")
    ]
    names = [".".join(parts).replace("tools", "pagestore_tools", 1) for parts in found]
    assert sorted(listed) == sorted(RENAMED.get(name, name) for name in names)


def test_files_that_are_no_code_are_listed() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"][
        "package-data"
    ]
    page = ROOT / "tools" / "serving"
    listed = {
        file.name for pattern in data["pagestore_tools.serving"] for file in page.glob(pattern)
    }
    assert listed == {"index.html", "studio.css", "studio.js"}


def test_an_editable_wheel_has_the_module_that_spark_finds(tmp_path: Path) -> None:
    pytest.importorskip("setuptools.build_meta", reason="building takes setuptools")
    from pagestore_tools.kernels.backend import add_file

    wheel = tmp_path / "one-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("one.py", "pass\n")
        made.writestr("one-1.0.dist-info/RECORD", "one.py,,\none-1.0.dist-info/RECORD,,\n")
    add_file(wheel, "two/__init__.py", b"x = 1\n")
    with zipfile.ZipFile(wheel) as made:
        assert made.read("two/__init__.py") == b"x = 1\n"
        record = made.read("one-1.0.dist-info/RECORD").decode().splitlines()
        assert [line.partition(",")[0] for line in record] == [
            "one.py",
            "one-1.0.dist-info/RECORD",
            "two/__init__.py",
        ]
