"""The store of served.py, and servers that show it."""

import shutil
import warnings

import pytest

from tests.tools.serving.served import Studio, fill


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    path = tmp_path_factory.mktemp("serving") / "s.pages"
    with warnings.catch_warnings(action="ignore"):
        fill(path)
    return path


@pytest.fixture
def path(filled, tmp_path):
    return shutil.copy(filled, tmp_path / "s.pages")


@pytest.fixture
def studio(path):
    """A server of a store of its own."""
    yield from running(path)


@pytest.fixture(scope="module")
def shown(filled):
    """A server that no test changes anything with."""
    yield from running(filled)


def running(path):
    pytest.importorskip(
        "uvicorn", reason="ivm studio is not installed: pip install 'pagestore-ivm[studio]'"
    )
    studio = Studio(path)
    yield studio
    if studio.process.poll() is None:
        studio.end()
