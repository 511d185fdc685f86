"""A store, a queue in memory, and shippers between them."""

from __future__ import annotations

import pytest
from shipper_kit import Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()
