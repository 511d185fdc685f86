"""RULES.md has each rule once, and the tests that it names are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "quiver/chain/RULES.md").read_text()
ROWS = re.findall(r"^\| R(\d+) \| [^|]+ \| ([^|]+) \|$", PAGE, re.MULTILINE)
NAMED = sorted(set(re.findall(r"(tests/[a-z_/]+\.py)::(test_\w+)", str(ROWS))))


def test_each_rule_has_its_row() -> None:
    assert [int(number) for number, _ in ROWS] == list(range(1, 45))
    assert len(NAMED) > 20


@pytest.mark.parametrize("path, name", NAMED, ids=[name for _, name in NAMED])
def test_a_test_that_is_named_is_there(path: str, name: str) -> None:
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE)
