"""The tools of the README's table, each by the README's own line; Spark's is in tests/spark."""

from __future__ import annotations

import io
import shlex
import struct
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import nanoarrow
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet
import pytest
from click.testing import CliRunner
from readme_tools import PAGE, bundle, tools

import quiver
from quiver.cli.program import program
from quiver.scan import Scan

TOOLS = tools()
PYTHON = [name for name, tool in TOOLS.items() if not tool.line.startswith(("quiver ", "spark."))]
SHELL = [name for name, tool in TOOLS.items() if tool.line.startswith("quiver ")]
READ_FILE = {
    ".parquet": pyarrow.parquet.read_table,
    ".csv": pyarrow.csv.read_csv,
    ".ndjson": pyarrow.json.read_json,
}
Call = tuple[Any, Any]


@pytest.fixture
def rows(tmp_path, monkeypatch) -> Scan:
    monkeypatch.chdir(tmp_path)
    with quiver.open("store", slots=["events"], worker=False) as store:
        for first in (0, 2, 4):
            store.append(bundle(first))
            store.finalize()
    return quiver.scan("store", slot="events")


@pytest.fixture
def asked(monkeypatch) -> list[Call]:
    """What scans were asked for while a line ran."""
    calls: list[Call] = []
    honest = Scan.select

    def select(self: Scan, columns: Any = None, where: Any = None) -> Scan:
        calls.append((columns, where))
        return honest(self, columns, where)

    monkeypatch.setattr(Scan, "select", select)
    return calls


def first_stream(path: Path) -> tuple[memoryview, int, int]:
    """Find the first stream of a segment by the tables of version 1 alone."""
    data = path.read_bytes()
    footer_size, magic, _ = struct.unpack("<I8sI", data[-16:])
    assert magic == b"QUIVER\0S"
    footer = data[-16 - footer_size :][:34]
    version, _, _, offset, length, _, _ = struct.unpack("<HIIQIQI", footer)
    assert version == 1
    row = pa.ipc.open_file(data[offset : offset + length]).read_all().slice(0, 1).to_pylist()[0]
    return memoryview(data), row["byte_offset"], row["byte_length"]


def run(name: str, rows: Scan) -> Any:
    """Run the line of a tool as it stands in the README."""
    segment, offset, length = first_stream(Path("store", rows.segments[0].path))
    names = {
        "rows": rows,
        "pa": pa,
        "pc": pc,
        "pl": pl,
        "duckdb": duckdb,
        "datafusion": datafusion,
        "nanoarrow": nanoarrow,
        "segment": segment,
        "offset": offset,
        "length": length,
    }
    return eval(TOOLS[name].line, names)


def plain(found: Any) -> list[dict[str, Any]]:
    """Give the rows of what any of the libraries made."""
    if isinstance(found, pl.DataFrame):
        return found.to_dicts()
    if isinstance(found, pd.DataFrame):
        return found.to_dict("records")
    if isinstance(found, pa.RecordBatchReader):
        found = found.read_all()
    return found.to_pylist()


def expected(line: str, rows: Scan) -> list[dict[str, Any]]:
    """Work out with pyarrow, on the whole table, what a line must give."""
    table = rows.to_table()
    if "segment[" in line:
        table = table.slice(0, 2)
    if "> 1" in line:
        table = table.filter(pc.field("id") > 1).select(["text"])
    elif "id,text" in line:
        table = table.select(["id", "text"])
    assert table.num_rows >= 2
    return table.to_pylist()


def check_handed_down(claim: str, calls: list[Call]) -> None:
    """Hold a row of the table to what the scan was asked for."""
    if claim.startswith("both"):
        read = [columns for columns, _ in calls if columns]
        assert read
        assert all(set(columns) <= {"id", "text"} for columns in read)
        assert all(columns is not None for columns, _ in calls)
        assert any("(id > 1)" in str(where) for _, where in calls)
    else:
        assert calls == []


@pytest.mark.parametrize("name", PYTHON)
def test_the_line_gives_what_pyarrow_gives_on_the_whole_table(name, rows, asked) -> None:
    tool = TOOLS[name]
    for _ in range(2):
        found = plain(run(name, rows))
        if "a partition" in tool.handed_down:  # These are read at the same time, in no order.
            found.sort(key=str)
        assert found == expected(tool.line, rows)
    check_handed_down(tool.handed_down, asked)


@pytest.mark.parametrize("name", SHELL)
def test_the_command_gives_what_pyarrow_gives_on_the_whole_table(name, rows, asked) -> None:
    tool = TOOLS[name]
    command, _, target = tool.line.partition(" > events")
    if tool.line.startswith("quiver sql"):
        command, target = tool.line, ""
    arguments = shlex.split(command)[1:]
    done = CliRunner().invoke(program, arguments, catch_exceptions=False)
    assert (done.exit_code, done.stderr) == (0, "")
    read = READ_FILE[target or ".csv"]
    assert plain(read(io.BytesIO(done.stdout_bytes))) == expected(tool.line, rows)
    check_handed_down(tool.handed_down, asked)


@pytest.mark.parametrize(
    "name", [name for name in PYTHON if TOOLS[name].copies == "no" and name != "nanoarrow"]
)
def test_a_line_that_copies_nothing_takes_no_memory_for_the_rows(
    name, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with quiver.open("store", slots=["events"], worker=False) as store:
        store.append(bundle(0, 200_000))
        store.finalize()
    rows = quiver.scan("store", slot="events")
    _ = rows.schema
    before = pa.total_allocated_bytes()
    found = run(name, rows)
    batches = list(found) if isinstance(found, pa.RecordBatchReader) else found.to_batches()
    assert sum(batch.num_rows for batch in batches) == 200_000
    assert pa.total_allocated_bytes() - before < sum(b.nbytes for b in batches) / 10


def test_nanoarrow_holds_the_bytes_of_the_map_itself(rows) -> None:
    batch = next(iter(rows.to_reader()))
    places = {buffer.address for array in batch.columns for buffer in array.buffers() if buffer}
    found = nanoarrow.c_array(batch)
    assert {
        pointer
        for index in range(found.n_children)
        for pointer in found.child(index).buffers
        if pointer
    } <= places


def test_the_table_names_every_tool_once_and_the_page_says_what_rows_is() -> None:
    assert len(TOOLS) == 16
    assert 'With `rows = quiver.scan("store", slot="events")`' in PAGE.read_text()
    assert {name for name in TOOLS if name not in PYTHON + SHELL} == {"Spark"}
