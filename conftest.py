"""Examples in docstrings run in an empty folder, and leave no file behind."""

import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Remove what an example writes to its working folder; fail if it leaves a temporary file."""
    if not isinstance(item, pytest.DoctestItem):
        return (yield)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        working, temporary = Path(folder, "working"), Path(folder, "temporary")
        working.mkdir()
        temporary.mkdir()
        patch.chdir(working)
        patch.setattr(tempfile, "tempdir", str(temporary))
        yield
        left = [path.name for path in temporary.iterdir()]
        assert not left, (
            f"{item.name} leaves {', '.join(left)} in the folder of temporary files: open "
            f"':memory:'"
        )
