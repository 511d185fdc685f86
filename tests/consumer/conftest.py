"""A store, and subscribers beside it."""

from __future__ import annotations

import pytest
from beside_kit import Beside


@pytest.fixture
def beside() -> Beside:
    return Beside()
