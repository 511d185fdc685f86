"""The bundles that everybody gets, made once, and whether they are what came back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.peers.peer import Bundle, Encoder, decode
from bench.wal.shapes import SLOTS, lot

__all__ = ["in_any_order", "in_order", "load", "prepare"]

Given = Sequence[dict[str, pa.RecordBatch]]


def prepare(place: Path, rows: int) -> None:
    """Write some different bundles, which are appended in turn."""
    place.mkdir()
    encoder = Encoder()
    for number, bundle in enumerate(lot(rows)):
        (place / f"{number:04}").write_bytes(encoder.encode(bundle))


def load(place: Path) -> list[dict[str, pa.RecordBatch]]:
    """Give these bundles, in memory."""
    found = []
    for name in sorted(place.iterdir()):
        with pa.OSFile(str(name)) as file:
            found.append(decode(file.read_buffer()))
    return found


def in_order(given: Given, back: Iterable[Bundle]) -> int:
    """Say how many appends came back: every value of each, of its type, one behind the other.

    Raises AssertionError if a value is another one, or if slots have different numbers of bundles.
    """
    number, offset = dict.fromkeys(SLOTS, 0), dict.fromkeys(SLOTS, 0)
    for bundle in back:
        for slot, some in bundle.items():
            for batch in some.to_batches() if isinstance(some, pa.Table) else [some]:
                at = 0
                while at < batch.num_rows:
                    whole = given[number[slot] % len(given)][slot]
                    count = min(batch.num_rows - at, whole.num_rows - offset[slot])
                    if not _same(batch.slice(at, count), whole.slice(offset[slot], count)):
                        raise AssertionError(f"{slot} of append {number[slot]} came back changed")
                    at += count
                    offset[slot] += count
                    if offset[slot] == whole.num_rows:
                        number[slot], offset[slot] = number[slot] + 1, 0
    return _agreed(number, offset)


def in_any_order(given: Given, back: Iterable[Bundle]) -> int:
    """Say the same of rows that may come in another order, and as types that hold their values."""
    found: dict[str, list[pa.Table]] = {slot: [] for slot in SLOTS}
    for bundle in back:
        for slot, some in bundle.items():
            found[slot].append(_plain(some))
    number, offset = dict.fromkeys(SLOTS, 0), dict.fromkeys(SLOTS, 0)
    for slot, tables in found.items():
        rest = sum(table.num_rows for table in tables)
        while rest >= (rows := given[number[slot] % len(given)][slot].num_rows):
            number[slot], rest = number[slot] + 1, rest - rows
        offset[slot] = rest
    count = _agreed(number, offset)
    for slot, tables in found.items():
        wanted = [_plain(given[n % len(given)][slot]) for n in range(count)]
        if count and not _sorted(tables).equals(_sorted(wanted)):
            raise AssertionError(f"{slot} came back changed")
    return count


def _agreed(number: dict[str, int], offset: dict[str, int]) -> int:
    if any(offset.values()) or len(set(number.values())) != 1:
        raise AssertionError(f"slots came back in part: {number} bundles, {offset} rows behind")
    return number[SLOTS[0]]


def _same(one: pa.RecordBatch, two: pa.RecordBatch) -> bool:
    """Say if values and types are the same, whatever words a dictionary has besides."""
    if not one.schema.equals(two.schema):
        return False
    return one.equals(two) or _words(one).equals(_words(two))


def _words(batch: pa.RecordBatch) -> pa.Table:
    columns: list[Any] = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in batch.columns
    ]
    return pa.table(columns, names=batch.schema.names)


def _plain(some: pa.RecordBatch | pa.Table) -> pa.Table:
    """Give the same as types that every peer has, down to microseconds."""
    columns: list[Any] = []
    for column in some.columns:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        wide = kind
        if pa.types.is_integer(kind):
            wide = pa.int64()
        elif pa.types.is_timestamp(kind):
            wide = pa.timestamp("us")
        elif pa.types.is_fixed_size_binary(kind) or pa.types.is_binary(kind):
            wide = pa.large_binary()
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or "view" in str(kind):
            wide = pa.large_string()
        values = column if kind == column.type else column.cast(kind)
        columns.append(values if wide == kind else values.cast(wide, safe=False))
    return pa.table(columns, names=some.schema.names)


def _sorted(tables: list[pa.Table]) -> pa.Table:
    whole = pa.concat_tables(tables)
    return whole.sort_by([(name, "ascending") for name in whole.schema.names]).combine_chunks()
