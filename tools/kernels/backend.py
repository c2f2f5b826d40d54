"""The build backend of this project: setuptools, and kernels compiled into the wheel.

`pip install .` compiles them for the machine that it runs on; `pip wheel . --config-settings
level=all` for every level of its architecture; with `level=none` they are compiled at first use. An
editable install compiles none. It includes a copy of the module that Spark finds by its name, since
Spark searches the folders on the path, where an editable install has nothing else.
"""

import base64
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401 - hooks that are not changed
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "pagestore" / "shipped"
FOUND = ROOT / "tools" / "spark" / "found" / "__init__.py"
COMPILING = ["abi3info", "numba>=0.61", "numpy>=2", "pyelftools"]
MACHINES = "x86_64", "aarch64"

Settings = dict[str, Any] | None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Return the requirements to compile kernels; also a C compiler, if the machine has none."""
    needed = build_meta.get_requires_for_build_wheel(config_settings)
    if level(config_settings) == "none":
        return needed
    has_compiler = os.environ.get("CC") or any(map(shutil.which, ("cc", "gcc", "clang")))
    return [*needed, *COMPILING, *([] if has_compiler else ["ziglang"])]


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Compile the kernels, and build a wheel for this platform that includes them."""
    # left by an earlier build
    for folder in (SHIPPED, ROOT / "build" / "lib" / "pagestore" / "shipped"):
        shutil.rmtree(folder, ignore_errors=True)
    levels = level(config_settings)
    if levels == "none":
        return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    command = [sys.executable, "-m", "tools.kernels.build", str(SHIPPED), "--level", levels]
    subprocess.run(command, cwd=ROOT, check=True)
    settings = {**(config_settings or {}), "--build-option": ["--plat-name", platform_tag(levels)]}
    return build_meta.build_wheel(wheel_directory, settings, metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel of an editable install, with the module that Spark looks for."""
    name = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    add_file(Path(wheel_directory, name), "pyspark_pagestore/__init__.py", FOUND.read_bytes())
    return name


def add_file(wheel: Path, name: str, content: bytes) -> None:
    """Add a file to a wheel, and to its record."""
    with zipfile.ZipFile(wheel) as old:
        files = {info.filename: old.read(info) for info in old.infolist()}
    [record] = [path for path in files if path.endswith(".dist-info/RECORD")]
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    files[name] = content
    files[record] += f"{name},sha256={digest},{len(content)}\n".encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as new:
        for file, data in files.items():
            new.writestr(file, data)


def level(config_settings: Settings) -> str:
    """Return the levels to compile for; `none` if no library is made for this kind of machine."""
    made = sys.platform == "linux" and platform.machine() in MACHINES
    return str((config_settings or {}).get("level", "own")) if made else "none"


def platform_tag(wanted: str) -> str:
    """Return the platform tag of a wheel. One level is for machines like this one, all levels
    for every Linux.
    """
    return (
        f"manylinux_2_17_{platform.machine()}" if wanted == "all" else f"linux_{platform.machine()}"
    )
