from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from store_kit import writer

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a store of slots ``logs`` and ``metrics``: each list of bundles becomes a segment."""
    return writer(tmp_path / "store")
