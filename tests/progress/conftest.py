"""Fixtures of the tests of progress."""

from __future__ import annotations

import pytest

from quiver.testing import MemoryDisk


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()
