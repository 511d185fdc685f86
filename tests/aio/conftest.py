"""A disk whose syncs can be held up; they never are for longer than a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gated_disk import GatedDisk


@pytest.fixture
def disk() -> Iterator[GatedDisk]:
    disk = GatedDisk()
    yield disk
    disk.gate.open()
