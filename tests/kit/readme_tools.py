"""The README's table of tools: its rows, for the tests that run them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

PAGE = Path(__file__).parents[2] / "README.md"
HEAD = "| tool | the line | columns, filters handed down | copies |"


@dataclass(frozen=True)
class Tool:
    name: str
    line: str
    handed_down: str
    copies: str


def tools() -> dict[str, Tool]:
    """Give the rows of the table by the name of the tool."""
    _, _, behind = PAGE.read_text().partition(f"{HEAD}\n|---|---|---|---|\n")
    found = {}
    for row in behind.partition("\n\n")[0].splitlines():
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        name, line, handed_down, copies = (cell.strip() for cell in cells)
        assert re.fullmatch("`[^`]+`", line)
        found[name.replace("`", "")] = Tool(name, line.strip("`"), handed_down, copies)
    return found


def bundle(first: int, rows: int = 2) -> dict[str, pa.RecordBatch]:
    """Make what the lines of the table are run on, from ``id`` ``first`` on."""
    numbers = range(first, first + rows)
    columns = {
        "id": pa.array(numbers, pa.int64()),
        "text": pa.array([f"text {n}" for n in numbers]),
        "x": pa.array([n / 2 for n in numbers]),
    }
    return {"events": pa.record_batch(columns)}
