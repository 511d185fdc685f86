"""Which test shows which of the 69 scenarios that a queue in object storage has to stand.

A test that shows one has its number in its name: ``test_40_...``. Those of formats, of racing
appends and of stores that ignore conditions are at home with batches, the queue and the objects.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
OURS = (*range(16, 57), 58, 59, 60, *range(62, 70))
"""Of producer, consumer and sweeper."""


def numbered() -> dict[int, list[str]]:
    """Find the tests that have a scenario's number in their name."""
    found: dict[int, list[str]] = {}
    for path in sorted((HERE / "ends").glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                head = re.match(r"test((?:_\d+)+)_", node.name)
                for number in re.findall(r"\d+", head[1]) if head else ():
                    found.setdefault(int(number), []).append(f"{path.name}::{node.name}")
    return found


@pytest.mark.parametrize("number", OURS)
def test_a_scenario_has_a_test(number) -> None:
    assert numbered().get(number), f"no test has the number {number}"


def test_no_test_has_the_number_of_a_scenario_that_there_is_not() -> None:
    assert set(numbered()) <= set(range(1, 70))
