"""Reading a warm segment, against a plain mapped IPC file of the same data and against memcpy."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import crc32c
import pyarrow as pa

import quiver
from bench.kit import Bench, clocked
from bench.segment.finalizes import SEGMENT_BYTES, bundles_for, filled
from bench.segment.pages import drop, segment_files, touched
from bench.wal import shapes
from quiver.disk import LocalDisk
from quiver.segment import SegmentReader

__all__ = ["cold_read", "columns", "one_column", "scans", "wide_store"]

_COLUMNS: Final = 40


def _plain_files(store: Path, folder: Path) -> list[Path]:
    """Write each slot as one plain IPC file: a batch for each bundle, dictionaries united.

    Their indices are made wider, for those of one bundle may be too narrow for the words of all.
    """
    folder.mkdir()
    files = []
    for slot in shapes.SLOTS:
        table = _widened(quiver.scan(store, slot=slot).to_table()).unify_dictionaries()
        files.append(folder / f"{slot}.arrow")
        with pa.ipc.new_file(files[-1], table.schema) as writer:
            for batch in table.to_batches():
                writer.write_batch(batch)
    return files


def _widened(table: pa.Table) -> pa.Table:
    def wide(kind: pa.DataType) -> pa.DataType:
        return pa.dictionary(pa.int32(), kind.value_type) if pa.types.is_dictionary(kind) else kind

    return table.cast(pa.schema([field.with_type(wide(field.type)) for field in table.schema]))


def _read_plain(files: list[Path]) -> None:
    for file in files:
        pa.ipc.open_file(pa.memory_map(str(file))).read_all()


def _check_plain(files: list[Path]) -> None:
    """Read plain files and check what a first reading of ours checks: all bytes, all values."""
    for file in files:
        mapped = pa.memory_map(str(file))
        crc32c.crc32c(memoryview(mapped.read_buffer()))
        pa.ipc.open_file(mapped).read_all().validate(full=True)


def _acts(store: Path, files: list[Path]) -> dict[str, Callable[[], Any]]:
    """Everything that reads the segment, by what the page calls it."""
    (segment,) = segment_files(store)
    raw = memoryview(segment.read_bytes())
    target = memoryview(bytearray(len(raw)))
    disk = LocalDisk(store)
    path = str(segment.relative_to(store))
    acts: dict[str, Callable[[], Any]] = {
        "plain": partial(_read_plain, files),
        "checked": partial(_check_plain, files),
        "memcpy": partial(target.__setitem__, slice(None), raw),
    }
    for options in ({}, {"verify": "off"}):
        fresh = partial(_scans, store, options)
        kept = fresh()
        _tables(kept)
        how = "".join(f", verify {value}" for value in options.values())
        acts[f"to_table() of a new scan{how}"] = lambda fresh=fresh: _tables(fresh())
        acts[f"to_table() of a scan that was read before{how}"] = partial(_tables, kept)
        acts[f"to_reader() of that, batch by batch{how}"] = partial(_batches, kept)
    acts["SegmentReader, bundle by bundle, opened anew"] = lambda: _bundles(
        SegmentReader.open(disk, path)
    )
    held = SegmentReader.open(disk, path)
    acts["SegmentReader, bundle by bundle, again"] = partial(_bundles, held)
    return acts


def _tables(scans: list[Any]) -> None:
    for scan in scans:
        scan.to_table()


def _batches(scans: list[Any]) -> None:
    for scan in scans:
        for _ in scan.to_reader():
            pass


def _bundles(reader: SegmentReader) -> None:
    for index in range(reader.bundle_count):
        reader.bundle(index)


def _scans(store: Path, options: dict[str, str]) -> list[Any]:
    return [quiver.scan(store, slot=slot, **options) for slot in shapes.SLOTS]


def scans(bench: Bench) -> None:
    """Read all four slots of one warm segment."""
    for rows in (1000, 100, 10_000):
        store = bench.folder / "store"
        bundles = bundles_for(rows, int(SEGMENT_BYTES * bench.scale))
        with filled(store, bundles) as opened:
            opened.finalize()
        what = f"{rows:,} rows"
        acts = _acts(store, _plain_files(store, bench.folder / "plain"))
        timed = {name: partial(clocked, act) for name, act in acts.items()}
        found = bench.interleave(**timed)
        plain, checked, copied = found.pop("plain"), found.pop("checked"), found.pop("memcpy")
        for name, took in found.items():
            wanted = ("at least", 0.9) if rows == 1000 and "to_table" in name else None
            bench.add(f"{what}: a mapped IPC file by {name}", plain, took, wanted=wanted)
        for name, took in found.items():
            if "batch by batch" in name and "off" not in name:
                wanted = ("at least", 0.8) if rows == 1000 else None
                bench.add(f"{what}: memcpy by {name}", copied, took, wanted=wanted)
        first = found["to_table() of a new scan"]
        bench.add(f"{what}: a mapped IPC file, checked alike, by a new scan", checked, first)
        bench.add(f"{what}: a mapped IPC file by that, checked alike", plain, checked)
        bench.add(f"{what}: memcpy by a mapped IPC file", copied, plain)
        shutil.rmtree(store)
        shutil.rmtree(bench.folder / "plain")


def wide_store(folder: Path, *, rows: int, bundles: int) -> None:
    """Make a store of one segment whose only slot has 40 columns of 8 bytes, and drop it cold."""
    names = [f"c{place}" for place in range(_COLUMNS)]
    with quiver.open(
        folder,
        slots=["wide"],
        worker=False,
        config={
            "wal": {"durability": "segment"},
            "segment": {"target_size": 1 << 40, "max_open_duration": "1h"},
        },
    ) as store:
        for bundle in range(bundles):
            first = bundle * rows
            arrays = [
                pa.array(range(first + place, first + place + rows), pa.int64())
                for place in range(_COLUMNS)
            ]
            store.append({"wide": pa.record_batch(arrays, names)})
        store.finalize()
    drop(segment_files(folder))


def one_column(folder: Path) -> tuple[float, pa.Table]:
    """Read one column of a cold ``wide_store``; the share of its segments read, and the rows."""
    return cold_read(folder, lambda scan: scan.to_table(), columns=["c7"])


def cold_read(
    folder: Path, act: Callable[[Any], Any], *, columns: list[str] | None = None
) -> tuple[float, Any]:
    """Do something with a scan of a cold ``wide_store``; the share read, and what it gave.

    Raises OSError if the file system keeps the segments in memory.
    """
    files = segment_files(folder)
    drop(files)
    if touched(files):
        raise OSError(f"{folder} stays in memory")
    given = act(quiver.scan(folder, slot="wide", columns=columns))
    return touched(files), given


def columns(bench: Bench) -> None:
    """Read one column of 40 from a cold store."""
    for rows, bundles in ((1000, 50), (50_000, 1)):
        store = bench.folder / "store"
        wide_store(store, rows=rows, bundles=max(int(bundles * bench.scale), 1))
        shares = [one_column(store)[0] for _ in range(bench.rounds)]
        ahead = _read_ahead(store)
        bench.add(
            f"one column of 40 of a cold store, bundles of {rows:,} rows: share of its bytes read",
            shares,
            [1.0] * len(shares),
            wanted=("at most", 0.1),
            kilobytes_read_ahead=ahead,
        )
        shutil.rmtree(store)


def _read_ahead(folder: Path) -> float:
    """Say how much the disk under a folder reads around a fault, in kilobytes; 0 if unknown."""
    number = folder.stat().st_dev
    device = Path(f"/sys/dev/block/{number >> 8 & 0xFFF}:{number & 0xFF}")
    for place in (device, device.parent):
        try:
            return float((place / "queue/read_ahead_kb").read_text())
        except OSError:
            continue
    return 0.0
