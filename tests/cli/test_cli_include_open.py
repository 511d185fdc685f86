"""What is only in the log yet is shown by ``cat`` and ``sql`` if it is asked for."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pyarrow as pa
import pytest

import quiver

ROWS = ("sql", "cat")


@pytest.fixture
def busy(tmp_path: Path):
    """A store that is being written: one segment, and two bundles in the log."""
    with quiver.open(tmp_path / "store", slots=["rows", "late"], worker=False) as store:
        store.append({"rows": pa.table({"n": [1, 2]})})
        store.finalize()
        store.append({"rows": pa.table({"n": [3]})})
        store.append({"rows": pa.table({"n": [4]}), "late": pa.table({"x": [0.5]})})
        yield tmp_path / "store"


def numbers(text: str) -> list[int]:
    return [int(row["n"]) for row in csv.DictReader(io.StringIO(text))]


@pytest.mark.parametrize("verb", ROWS)
def test_open_bundles_come_behind_the_segments_if_asked_for(run, busy, verb) -> None:
    words = ("--slot", "rows", "--format", "csv") if verb == "cat" else ("from rows order by n",)
    assert numbers(run(verb, busy, *words).out) == [1, 2]
    assert numbers(run(verb, busy, *words, "--include-open").out) == [1, 2, 3, 4]


def test_a_filter_is_tried_on_open_bundles_too(run, busy) -> None:
    text = "select n from rows where n > 1 and n < 4 order by n"
    found = run("sql", busy, text, "--include-open")
    assert numbers(found.out) == [2, 3]
    counted = run("sql", busy, "select count(*) as n from rows", "--include-open")
    assert numbers(counted.out) == [4]


def test_a_slot_that_is_only_in_the_log_is_a_table_then(run, busy) -> None:
    assert run("sql", busy, "from late").code == 3
    assert run("sql", busy, "select x from late", "--include-open").out.split() == ['"x"', "0.5"]
