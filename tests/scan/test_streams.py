"""A slot of several streams comes in order of its bundles; what lies in one together, at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import quiver
from quiver.disk import LocalDisk
from quiver.scan.read import read_piece

ROWS = 30


def words(number: int) -> pa.RecordBatch:
    """Words of its own: eight bits tell those of about eight such batches apart."""
    texts = pa.array([f"{number}.{row}" for row in range(ROWS)])
    places = pa.array(range(ROWS), pa.uint8())
    return pa.record_batch(
        {"w": pa.DictionaryArray.from_arrays(places, texts), "n": pa.array([number] * ROWS)}
    )


def either(number: int) -> pa.RecordBatch:
    """Every other one in a stream of its own."""
    kind = pa.int64() if number % 2 else pa.int32()
    return pa.record_batch({"w": [f"{number}"] * ROWS, "n": pa.array([number] * ROWS, kind)})


def thirds(number: int) -> pa.RecordBatch:
    """Three of one kind, three of another; the middle one of the first has no rows."""
    rows = 0 if number % 6 == 1 else ROWS
    kind = pa.int64() if number // 3 % 2 else pa.int32()
    return pa.record_batch({"w": [f"{number}"] * rows, "n": pa.array([number] * rows, kind)})


KINDS = [words, either, thirds]
COUNT = 20


def written(path: Path, kind: Callable[[int], pa.RecordBatch]) -> Path:
    with quiver.open(path, slots=["rows"], worker=False) as store:
        for number in range(COUNT):
            store.append({"rows": kind(number)})
        store.finalize()
    return path


def numbers(found: Any) -> list[int]:
    return list(dict.fromkeys(found.column("n").to_pylist()))


@pytest.mark.parametrize("verify", ["lazy", "off", "full"])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_come_in_order_of_their_bundles(
    tmp_path: Path, kind: Callable[[int], pa.RecordBatch], verify: Any
) -> None:
    scan = quiver.scan(written(tmp_path, kind), slot="rows", verify=verify)
    expected = [(n, kind(n).column("w").to_pylist()) for n in range(COUNT)]
    batches = list(scan.to_reader())
    assert [b.column("w").to_pylist() for b in batches] == [texts for _, texts in expected]
    for _ in range(2):  # The second time it is known to be sound.
        table = scan.to_table()
        assert numbers(table) == [n for n, texts in expected if texts]
        assert table.column("w").to_pylist() == [text for _, texts in expected for text in texts]
    few = quiver.scan(tmp_path, slot="rows", columns=["n"], verify=verify).to_table()
    assert few.column("n").to_pylist() == table.column("n").to_pylist()
    assert few.column_names == ["n"]


@pytest.mark.parametrize(("kind", "runs"), [(words, 3), (either, COUNT), (thirds, 7)])
def test_what_lies_together_is_given_at_once(
    tmp_path: Path, kind: Callable[[int], pa.RecordBatch], runs: int
) -> None:
    scan = quiver.scan(written(tmp_path, kind), slot="rows")
    disk, sound = LocalDisk(tmp_path), set()
    (piece,) = scan.pieces
    for apart in (True, False):
        found = list(read_piece(disk, piece, columns=None, sound=sound, apart=apart))
        # A stream with a chunk without rows is read chunk by chunk, for a table does not show it.
        shown = [one for one in found if isinstance(one, pa.Table)]
        assert len(shown) == (0 if apart or kind is not words else runs)
        if kind is thirds:
            assert runs < len(found) < COUNT
        else:
            assert len(found) == runs
        rows = sum(
            sum(b.num_rows for b in (one.to_batches() if one in shown else one)) for one in found
        )
        assert rows == sum(kind(n).num_rows for n in range(COUNT))
    disk.close()
