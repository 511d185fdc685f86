"""A WAL folder for each test."""

from __future__ import annotations

from pathlib import Path

import pytest
from wal_kit import Folder


@pytest.fixture
def place(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "store")
