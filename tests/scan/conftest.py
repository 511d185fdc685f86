from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import quiver

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a store of slots ``logs`` and ``metrics``: each list of bundles becomes a segment."""

    def write(*segments: list[Mapping[str, Any]], core: int = 0) -> str:
        path = tmp_path / "store"
        with quiver.open(path, slots=["logs", "metrics"], core=core, worker=False) as store:
            for bundles in segments:
                for bundle in bundles:
                    store.append(bundle)
                store.finalize()
        return str(path)

    return write
