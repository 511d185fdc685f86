"""The bundles that everybody gets, made once, and what has to come back of so many of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from bench.peers.peer import Bundle, Encoder, decode
from bench.wal.shapes import SLOTS, lot

__all__ = ["Sums", "expected", "load", "prepare", "sums"]


class Sums(NamedTuple):
    """Rows of each slot, and a number of each that changes with what is in them."""

    rows: dict[str, int]
    contents: dict[str, int]


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


def sums(bundles: Iterable[Bundle]) -> Sums:
    """Go through bundles; works for a peer's types as well."""
    rows, contents = dict.fromkeys(SLOTS, 0), dict.fromkeys(SLOTS, 0)
    for bundle in bundles:
        for slot, batch in bundle.items():
            rows[slot] += batch.num_rows
            column = batch.column("flags" if slot == SLOTS[0] else "str")
            if slot != SLOTS[0]:
                column = pc.binary_length(column.cast(pa.string()))
            contents[slot] += pc.sum(column).as_py() or 0
    return Sums(rows, contents)


def expected(bundles: list[dict[str, pa.RecordBatch]], count: int) -> Sums:
    """Say what the first so many appends have to come back as."""
    each = [sums([bundle]) for bundle in bundles]
    times = [count // len(each) + (n < count % len(each)) for n in range(len(each))]
    total = Sums({}, {})
    for part, whole in zip(Sums._fields, total, strict=True):
        for slot in SLOTS:
            whole[slot] = sum(
                getattr(one, part)[slot] * n for one, n in zip(each, times, strict=True)
            )
    return total
