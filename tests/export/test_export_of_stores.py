"""Real stores to real files: killed at any point, with damage, and by two exporters at once.

Plain runs kill at the second file; ``QUIVER_EXPORT=all`` at each.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from export_kit import exported, ranges, read

import quiver
from quiver.disk import LocalDisk
from quiver.export import Exporter, ExportFolder, FileRange, Tally
from quiver.export.text import json_rows
from quiver.testing import ManualClock

SLOTS = ["logs", "traces"]
COUNTS = [1, 2, 3] if os.environ.get("QUIVER_EXPORT") == "all" else [2]


def bundle(number: int) -> dict[str, pa.RecordBatch]:
    """Every third has no traces; words and times are of more than one kind."""
    logs = pa.record_batch(
        {
            "n": pa.array([number, None], pa.int64()),
            "word": pa.array([f"word {number % 4}", None]).dictionary_encode(),
            "at": pa.array([number * 1_000_000_007, None], pa.timestamp("ns", "UTC")),
        }
    )
    traces = pa.record_batch({"n": [number], "path": [["a", str(number)]]})
    return {"logs": logs} if number % 3 == 0 else {"logs": logs, "traces": traces}


def fill(path: Path, *segments: range) -> None:
    with quiver.open(path, slots=SLOTS, worker=False) as store:
        for segment in segments:
            for number in segment:
                store.append(bundle(number))
            store.finalize()


@contextmanager
def folder_of(path: Path, store: quiver.Store, name: str) -> Iterator[ExportFolder]:
    disk = LocalDisk(path, create=True)
    try:
        with ExportFolder.open(disk, store_id=store.info().store_id, subscriber=name) as folder:
            yield folder
    finally:
        disk.close()


def run(store: quiver.Store, path: Path, name: str = "lake", **options) -> Tally:
    with folder_of(path, store, name) as folder:
        return Exporter(store.subscribe(name), folder, slots=SLOTS, **options).run()


def rows(path: Path, slot: str) -> list[str]:
    """Give all exported rows of a slot as text, in the order of the files."""
    tables = exported(LocalDisk(path), slot).values()
    return [row for table in tables for batch in table.to_batches() for row in json_rows(batch)]


def texts(slot: str, numbers) -> list[str]:
    return [row for n in numbers if slot in bundle(n) for row in json_rows(bundle(n)[slot])]


def check(path: Path, numbers) -> None:
    for slot in SLOTS:
        assert rows(path, slot) == texts(slot, numbers)


@pytest.mark.parametrize("to", ["parquet", "arrow"])
def test_what_is_exported_is_what_a_scan_sees(tmp_path, to) -> None:
    fill(tmp_path / "store", range(7), range(7, 12))
    scanned = {s: quiver.scan(tmp_path / "store", slot=s).to_table() for s in SLOTS}
    with quiver.open(tmp_path / "store", worker=False) as store:
        run(store, tmp_path / "out", to=to)
        assert store.maintain() == 2
    check(tmp_path / "out", range(12))
    for slot in SLOTS:
        (table,) = exported(LocalDisk(tmp_path / "out"), slot).values()
        assert table.schema.equals(scanned[slot].schema)
        assert table.to_pylist() == scanned[slot].to_pylist()


def test_segments_that_follow_each_other_share_a_file(tmp_path) -> None:
    fill(tmp_path / "store", range(3), range(3, 5), range(5, 6))
    with quiver.open(tmp_path / "store", worker=False) as store:
        run(store, tmp_path / "out")
    assert ranges(LocalDisk(tmp_path / "out")) == [((0, 0), (2, 0))]


def test_an_empty_store_makes_no_file(tmp_path) -> None:
    with quiver.open(tmp_path / "store", slots=SLOTS, worker=False) as store:
        assert run(store, tmp_path / "out").bundle_count == 0
    assert exported(LocalDisk(tmp_path / "out")) == {}


def test_bundles_that_others_hold_or_that_wait_are_in_no_range(tmp_path) -> None:
    fill(tmp_path / "store", range(6))
    clock = ManualClock()
    with quiver.open(tmp_path / "store", worker=False, clock=clock) as store:
        other = store.subscribe("lake")
        held, late = other.poll(), other.poll()
        late.nack(retry_after="1h")
        assert run(store, tmp_path / "out").bundle_count == 4
        assert ranges(LocalDisk(tmp_path / "out")) == [((0, 2), (0, 5))]
        held.defer()
        clock.step("2h")
        assert run(store, tmp_path / "out").bundle_count == 2
        assert store.maintain() == 1
    check(tmp_path / "out", range(6))


@pytest.mark.filterwarnings("ignore:.*lost without an outcome:ResourceWarning")
def test_a_damaged_segment_in_between_costs_itself_and_no_more(tmp_path) -> None:
    fill(tmp_path / "store", range(3), range(3, 6), range(6, 9))
    segment = tmp_path / "store/core_0/segments/0000000000000001.qseg"
    segment.chmod(0o600)
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    with quiver.open(tmp_path / "store", worker=False) as store:
        run(store, tmp_path / "out")
        assert store.maintain() == 3
    found = [FileRange.parse(name) for name in exported(LocalDisk(tmp_path / "out"))]
    assert all(r.first[0] == r.last[0] or r.first[0] > 0 for r in found)
    whole = {n for r in rows(tmp_path / "out", "logs") for n in range(9) if f'"n":{n},' in r}
    assert {0, 1, 2, 6, 7, 8} <= whole
    assert len(whole) < 9


KILLED = """
import os, signal, sys
from quiver.disk import LocalDisk
from quiver.subscriber import BundleHandle
import quiver
from quiver.export import Exporter, ExportFolder

path, out, where, count = sys.argv[1:]

def die_at(kind, name, *, before):
    honest, left = getattr(kind, name), [int(count)]
    def killed(self, *args, **kwargs):
        if kind is LocalDisk and self.root != out:
            return honest(self, *args, **kwargs)
        left[0] -= 1
        if left[0] or not before:
            found = honest(self, *args, **kwargs)
            if left[0]:
                return found
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(kind, name, killed)

kind, name, moment = {
    "before rename": (LocalDisk, "rename", True),
    "after rename": (LocalDisk, "rename", False),
    "after sync": (LocalDisk, "sync_dir", False),
    "before ack": (BundleHandle, "ack", True),
    "after ack": (BundleHandle, "ack", False),
}[where]
with quiver.open(path, worker=False) as store:
    disk = LocalDisk(out)
    folder = ExportFolder.open(disk, store_id=store.info().store_id, subscriber="lake")
    with folder as files:
        source = store.subscribe("lake")
        exporter = Exporter(source, files, slots=["logs", "traces"], rows=6)
        die_at(kind, name, before=moment)
        exporter.run()
"""


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    "where", ["before rename", "after rename", "after sync", "before ack", "after ack"]
)
def test_killed_at_any_point_each_row_is_in_one_file(tmp_path, where, count) -> None:
    path, out = tmp_path / "store", tmp_path / "out"
    fill(path, range(5), range(5, 8))
    out.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), str(out), where, str(count)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    with quiver.open(path, worker=False) as store:
        # Limits other than before: what is there decides, not what a run would do now.
        run(store, out, rows=10)
        assert store.maintain() == 2
    check(out, range(8))
    assert not list(out.glob("*.tmp"))
    assert not list(out.glob(".*.tmp"))


def test_two_exporters_of_one_store_each_have_every_row_once_though_one_was_down(tmp_path) -> None:
    """One writes Parquet as data comes; the other fails at first, then is gone for a while."""
    lake, lines = tmp_path / "lake", tmp_path / "otlp"
    clock = ManualClock()
    path = tmp_path / "store"
    with quiver.open(path, slots=SLOTS, worker=False, clock=clock) as store:
        store.subscribe("parquet_exporter")
        failing = store.subscribe("otlp_exporter")
        for round_ in range(4):
            for number in range(round_ * 5, round_ * 5 + 5):
                store.append(bundle(number))
            store.finalize()
            run(store, lake, "parquet_exporter")
            if round_ < 2:  # Its backend refuses everything.
                while (handle := failing.poll()) is not None:
                    handle.nack(retry_after="1m", reason="503")
            assert store.maintain() == 0, "a segment is gone that one exporter has not had"
        check(lake, range(20))
        assert not lines.exists()
    with quiver.open(path, worker=False, clock=clock) as store:
        clock.step("1h")
        tally = run(store, lines, "otlp_exporter", to="ndjson")
        assert (tally.bundle_count, tally.repeated_count) == (20, 0)
        assert run(store, lake, "parquet_exporter").bundle_count == 0
        assert store.maintain() == 4
        assert store.info().segments == 0
    check(lake, range(20))
    for slot in SLOTS:
        files = sorted(lines.glob(f"{slot}-*"))
        found = [row for file in files for row in file.read_text().splitlines()]
        assert found == texts(slot, range(20))
        assert read(files[0].name, files[0].read_bytes()).num_rows
