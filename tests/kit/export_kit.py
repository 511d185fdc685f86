"""Bundles from no store, and exported files read again; for the tests of ``quiver.export``."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from quiver.disk import Disk
from quiver.export import Exporter, ExportFolder, FileRange, Tally
from quiver.subscriber import BundleHandle, Claim

STORE = "a store"
NAME = "lake"


@dataclass(frozen=True)
class Bundle:
    """One bundle of a store that does not exist."""

    place: tuple[int, int]
    slots: Mapping[str, pa.RecordBatch]
    core: int = 0
    wal_seq: int | None = None


def numbered(*sizes: int, rows: int = 2, first_segment: int = 0) -> list[Bundle]:
    """Make segments of so many bundles; each row has a number of its own."""
    found: list[Bundle] = []
    for segment, size in enumerate(sizes, first_segment):
        for index in range(size):
            number = len(found)
            batch = pa.record_batch({"n": [number * rows + row for row in range(rows)]})
            found.append(Bundle((segment, index), {"logs": batch}, wal_seq=number))
    return found


@dataclass
class FakeSource:
    """Gives bundles in the order of a list; what is given back comes again in its place."""

    bundles: list[Bundle]
    acked: list[Bundle] = field(default_factory=list)
    on_ack: Callable[[Bundle], object] = lambda _: None
    on_wait: Callable[[float | None], object] = lambda _: None
    given: list[Bundle] = field(default_factory=list)
    closed: bool = False

    def poll(self) -> BundleHandle | None:
        raise AssertionError

    def next(self, timeout: float | str | None = None) -> BundleHandle | None:
        found = self._claim()
        if found is None and not self.closed:
            self.on_wait(timeout)
            found = self._claim()
        return found

    def _claim(self) -> BundleHandle | None:
        for bundle in self.bundles:
            if not (self.closed or bundle in self.acked or bundle in self.given):
                self.given.append(bundle)
                return self._handle(bundle)
        return None

    def close(self) -> None:
        self.closed = True

    def _handle(self, bundle: Bundle) -> BundleHandle:
        return BundleHandle(
            Claim(0, *bundle.place, 1),
            _Delivery(self, bundle),
            subscriber=NAME,
            slots=tuple(bundle.slots),
            core=bundle.core,
            wal_seq=bundle.wal_seq,
        )


@dataclass
class _Delivery:
    source: FakeSource
    bundle: Bundle

    def read(self, _: Claim, slot: str) -> pa.RecordBatch:
        return self.bundle.slots[slot]

    def ack(self, _: Claim) -> None:
        self.source.on_ack(self.bundle)
        self.source.acked.append(self.bundle)
        self.source.given.remove(self.bundle)

    def nack(self, claim: Claim, *, retry_after_ns: int | None, reason: str) -> None:
        raise AssertionError

    def defer(self, _: Claim) -> None:
        self.source.given.remove(self.bundle)

    def defer_later(self, _: Claim) -> None:
        raise AssertionError


def export(disk: Disk, source: Any, *slots: str, **options: Any) -> Tally:
    """Export everything that a source has."""
    with ExportFolder.open(disk, store_id=STORE, subscriber=NAME) as folder:
        return Exporter(source, folder, slots=slots or ("logs",), **options).run()


def exported(disk: Disk, slot: str = "logs") -> dict[str, pa.Table]:
    """Read the exported files of a slot, by their names."""
    found = {}
    for entry in disk.list_dir(""):
        range_ = FileRange.parse(entry.name)
        if range_ is not None and range_.slot == slot:
            found[entry.name] = read(entry.name, bytes(disk.map(entry.name)))
    return found


def read(name: str, data: bytes) -> pa.Table:
    """Read a file as who gets it would; values of text formats are texts or those of JSON."""
    kind = name.rpartition(".")[2]
    if kind == "parquet":
        return pq.read_table(io.BytesIO(data))
    if kind == "arrow":
        return pa.ipc.open_file(data).read_all()
    if kind == "csv":
        return pa.Table.from_pylist(list(csv.DictReader(io.StringIO(data.decode(), newline=""))))
    return pa.Table.from_pylist([json.loads(line) for line in data.decode().splitlines()])


def numbers(tables: Iterable[pa.Table]) -> list[int]:
    """Give the numbers of ``numbered`` rows in the order of the files."""
    return [int(n) for table in tables for n in table["n"].to_pylist()]


def ranges(disk: Disk, slot: str = "logs") -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Give first and last bundle of each exported file."""
    parsed = [FileRange.parse(name) for name in exported(disk, slot)]
    return [(found.first, found.last) for found in parsed if found is not None]
