"""A warm segment: opened, and every batch of every stream, against a copy of its bytes.

The target is of a reading that checks nothing: that is a scan with ``verify="off"``.
"""

from __future__ import annotations

import itertools
import shutil
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from crc32c import crc32c

import quiver
from bench.kit import Bench, clocked
from bench.segment.finalizes import SEGMENT_BYTES, bundles_for
from bench.segment.pages import segment_files
from bench.wal import shapes
from quiver.disk import LocalDisk
from quiver.engine.readers import OpenedSegment
from quiver.ipc_values import validate_table
from quiver.segment import SegmentReader

__all__ = ["segments"]

_WANTED: Final = {"unite": 0.9, "keep": 0.25}
"""By what became of dictionaries: where they are kept, each payload is a stream of its own."""
_SHAPES: Final = (
    (1000, "unite"),
    (1000, "keep"),
    (2500, "unite"),
    (10_000, "unite"),
    (100, "unite"),
)
_JUDGED: Final = (
    "batch by batch of a scan that checks nothing, opened anew",
    "bundle by bundle as a subscriber gets them, read before",
)
_HUGE: Final = 1 << 40
_PARTS: Final = ("open", "checksums", "Arrow reads", "validation", "list of batches")


def _mapped(disk: LocalDisk, path: str, places: list[tuple[int, int]]) -> list[pa.Buffer]:
    data = pa.py_buffer(disk.map(path))
    return [data.slice(offset, length) for offset, length in places]


def _of_arrow(streams: Callable[[], list[pa.Buffer]]) -> int:
    """Open each stream as the Arrow file that it is, unchecked, and get its batches."""
    found = 0
    for data in streams():
        reader = pa.ipc.open_file(data)
        found += len([reader.get_batch(index) for index in range(reader.num_record_batches)])
    return found


def _checked(streams: Callable[[], list[pa.Buffer]]) -> int:
    """Do the same with all that has to be known of bytes that come from a disk."""
    found = 0
    for data in streams():
        crc32c(memoryview(data))
        table = pa.ipc.open_file(data).read_all()
        table.validate(full=True)
        found += len(table.to_batches())
    return found


def _of_reader(reader: SegmentReader) -> int:
    found = 0
    for stream in reader.streams:
        found += len([reader.chunk(stream.stream_id, index) for index in range(stream.chunk_count)])
    return found


def _of_subscriber(opened: OpenedSegment) -> int:
    return sum(len(opened.bundle(index)) for index in range(opened.reader.bundle_count))


def _of_scans(scans: list[Any]) -> int:
    return sum(sum(1 for _ in scan.to_reader()) for scan in scans)


def segments(bench: Bench) -> None:
    """Read all streams of one warm segment."""
    shares = {}
    for rows, how in _SHAPES:
        store = bench.folder / "store"
        _write(store, bundles_for(rows, int(SEGMENT_BYTES * bench.scale)), how)
        (segment,) = segment_files(store)
        disk, path = LocalDisk(store), str(segment.relative_to(store))
        acts = _acts(disk, path, segment)
        counts = {act() for name, act in acts.items() if name != "memcpy"}
        assert len(counts) == 1, counts
        timed: dict[str, Any] = {name: partial(clocked, act) for name, act in acts.items()}
        found = bench.interleave(**timed)
        copied = found.pop("memcpy")
        size, count = segment.stat().st_size, counts.pop()
        shape = f"{rows:,} rows" + (", dictionaries as they came" if how == "keep" else "")
        for name, took in found.items():
            judged = rows in (1000, 2500) and name in _JUDGED
            bench.add(
                f"{shape}: memcpy by {name}",
                copied,
                took,
                wanted=("at least", _WANTED[how]) if judged else None,
                microseconds_a_batch=statistics.median(took) / count * 1e6,
                kilobytes_a_batch=size / count / 1e3,
            )
        shares[shape] = _shares(bench, disk, path, copied=statistics.median(copied))
        shutil.rmtree(store)
    bench.notes += _share_table(shares)


def _write(folder: Path, bundles: list[dict[str, pa.RecordBatch]], how: str) -> None:
    segment = {"target_size": _HUGE, "max_open_duration": "1h", "dictionaries": how}
    config = {"wal": {"max_size": _HUGE, "durability": "segment"}, "segment": segment}
    with quiver.open(folder, slots=shapes.SLOTS, config=config, worker=False) as store:
        for bundle in bundles:
            store.append(bundle)
        store.finalize()


def _acts(disk: LocalDisk, path: str, segment: Path) -> dict[str, Callable[[], Any]]:
    raw = memoryview(segment.read_bytes())
    target = memoryview(bytearray(len(raw)))
    held = SegmentReader.open(disk, path)
    streams = partial(_mapped, disk, path, [(s.byte_offset, s.byte_length) for s in held.streams])
    opened = OpenedSegment(SegmentReader.open(disk, path))
    scans = [quiver.scan(disk.root, slot=slot) for slot in shapes.SLOTS]
    return {
        "memcpy": partial(target.__setitem__, slice(None), raw),
        "Arrow alone": partial(_of_arrow, streams),
        "Arrow alone, checksums and values checked": partial(_checked, streams),
        "bundle by bundle as a subscriber gets them, opened anew": lambda: _of_subscriber(
            OpenedSegment(SegmentReader.open(disk, path))
        ),
        "bundle by bundle as a subscriber gets them, read before": partial(_of_subscriber, opened),
        "batch by batch of a scan that was read before": partial(_of_scans, scans),
        "batch by batch of a scan that checks nothing, opened anew": partial(
            _scanned, disk.root, "off"
        ),
        "batch by batch of a scan as it is by default, opened anew": partial(
            _scanned, disk.root, "lazy"
        ),
        "tables of a scan that checks nothing, opened anew": partial(_tabled, disk.root, "off"),
        "chunk by chunk of a SegmentReader, opened anew": lambda: _of_reader(
            SegmentReader.open(disk, path)
        ),
        "chunk by chunk of a SegmentReader, read before": partial(_of_reader, held),
    }


def _scanned(store: str, verify: Any) -> int:
    """Plan and read each slot, batch by batch."""
    return _of_scans([quiver.scan(store, slot=slot, verify=verify) for slot in shapes.SLOTS])


def _tabled(store: str, verify: Any) -> int:
    """Plan and read each slot at once."""
    scans = [quiver.scan(store, slot=slot, verify=verify) for slot in shapes.SLOTS]
    return sum(scan.to_table().column(0).num_chunks for scan in scans)


def _shares(bench: Bench, disk: LocalDisk, path: str, *, copied: float) -> dict[str, float]:
    """Say what each part of a first reading takes, one after the other, in copies of the bytes."""
    rounds = []
    for _ in range(bench.rounds):
        times = [time.perf_counter()]
        reader = SegmentReader.open(disk, path)
        times.append(time.perf_counter())
        streams = _mapped(disk, path, [(s.byte_offset, s.byte_length) for s in reader.streams])
        for data in streams:
            crc32c(memoryview(data))
        times.append(time.perf_counter())
        tables = [pa.ipc.open_file(data).read_all() for data in streams]
        times.append(time.perf_counter())
        for table in tables:
            validate_table(table)
        times.append(time.perf_counter())
        listed = [table.to_batches() for table in tables]
        times.append(time.perf_counter())
        parts = [later - earlier for earlier, later in itertools.pairwise(times)]
        rounds.append(parts)
        del tables, listed
    return {
        name: statistics.median(parts[place] for parts in rounds) / copied
        for place, name in enumerate(_PARTS)
    }


def _share_table(shares: dict[str, dict[str, float]]) -> list[str]:
    lines = ["", "## Where the time of a first reading goes", ""]
    lines += [
        "In copies of the segment's bytes: what is above 1 in all cannot be had at the speed of",
        "memcpy. Arrow's reading alone is one call for each batch, of whatever size. What opens",
        "a segment anew and checks it does all of this, so only what checks nothing is judged.",
        "",
    ]
    lines.append("| part | " + " | ".join(shares) + " |")
    lines.append("|---|" + "---:|" * len(shares))
    for name in _PARTS:
        figures = " | ".join(f"{share[name]:.2f}" for share in shares.values())
        lines.append(f"| {name} | {figures} |")
    return lines
