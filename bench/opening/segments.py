"""A warm segment: opened, and every batch of every stream, against a copy of its bytes."""

from __future__ import annotations

import cProfile
import shutil
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from bench.kit import Bench, clocked
from bench.opening.profiles import profile_table
from bench.segment.finalizes import SEGMENT_BYTES, bundles_for, filled
from bench.segment.pages import segment_files
from quiver.disk import LocalDisk
from quiver.segment import SegmentReader

__all__ = ["segments"]

_WANTED: Final = 0.9


def _of_arrow(disk: LocalDisk, path: str, places: list[tuple[int, int]]) -> int:
    """Open each stream as the Arrow file that it is, unchecked, and get its batches."""
    data = pa.py_buffer(disk.map(path))
    found = 0
    for offset, length in places:
        reader = pa.ipc.open_file(data.slice(offset, length))
        found += len([reader.get_batch(index) for index in range(reader.num_record_batches)])
    return found


def _of_reader(reader: SegmentReader) -> int:
    found = 0
    for stream in reader.streams:
        found += len([reader.chunk(stream.stream_id, index) for index in range(stream.chunk_count)])
    return found


def _of_tables(reader: SegmentReader) -> int:
    return sum(len(reader.table(s.stream_id).to_batches()) for s in reader.streams)


def segments(bench: Bench) -> None:
    """Read all streams of one warm segment."""
    for rows in (1000, 10_000, 100):
        store = bench.folder / "store"
        with filled(store, bundles_for(rows, int(SEGMENT_BYTES * bench.scale))) as opened:
            opened.finalize()
        (segment,) = segment_files(store)
        acts = _acts(LocalDisk(store), str(segment.relative_to(store)), segment)
        counts = {act() for name, act in acts.items() if name != "memcpy"}
        assert len(counts) == 1, counts
        timed: dict[str, Any] = {name: partial(clocked, act) for name, act in acts.items()}
        found = bench.interleave(**timed)
        copied = found.pop("memcpy")
        size, count = segment.stat().st_size, counts.pop()
        for name, took in found.items():
            bench.add(
                f"{rows:,} rows: memcpy by {name}",
                copied,
                took,
                wanted=("at least", _WANTED) if rows == 1000 and "Arrow" not in name else None,
                microseconds_a_batch=statistics.median(took) / count * 1e6,
                kilobytes_a_batch=size / count / 1e3,
            )
        profile = cProfile.Profile()
        profile.runcall(acts["SegmentReader opened anew, chunk by chunk"])
        bench.notes += profile_table(f"{rows:,} rows, opened anew, chunk by chunk", profile)
        shutil.rmtree(store)


def _acts(disk: LocalDisk, path: str, segment: Path) -> dict[str, Callable[[], Any]]:
    raw = memoryview(segment.read_bytes())
    target = memoryview(bytearray(len(raw)))
    held = SegmentReader.open(disk, path)
    places = [(stream.byte_offset, stream.byte_length) for stream in held.streams]
    return {
        "memcpy": partial(target.__setitem__, slice(None), raw),
        "Arrow alone, unchecked": partial(_of_arrow, disk, path, places),
        "SegmentReader opened anew, chunk by chunk": lambda: _of_reader(
            SegmentReader.open(disk, path)
        ),
        "SegmentReader opened anew, tables": lambda: _of_tables(SegmentReader.open(disk, path)),
        "SegmentReader read before, chunk by chunk": partial(_of_reader, held),
        "SegmentReader read before, tables": partial(_of_tables, held),
    }
