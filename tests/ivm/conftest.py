"""Fixtures of several files here."""

from pathlib import Path

import pytest

from tests.support.mirror import Mirror


@pytest.fixture
def views(tmp_path: Path):
    """`views(text)` is a Mirror of a workspace with that text installed."""
    opened = []

    def made(text: str, **options: object) -> Mirror:
        opened.append(Mirror(tmp_path / f"{len(opened)}.pages", text, **options))
        return opened[-1]

    yield made
    for mirror in opened:
        mirror.reopen()
        mirror.close()
