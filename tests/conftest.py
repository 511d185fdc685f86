"""What holds for every test of every room."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

LOST = "lost without an outcome"


@pytest.fixture(autouse=True)
def _its_lost_handles_warn_in_vain(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collect what a dead store leaves while the filter of its own test still holds."""
    yield
    marks = request.node.iter_markers("filterwarnings")
    if any(LOST in str(text) for mark in marks for text in mark.args):
        gc.collect()
