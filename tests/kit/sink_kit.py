"""A store on a disk in RAM, rows that are staged into it, and what there is of them afterwards."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

import quiver
from quiver.config_file import config_of
from quiver.disk import Disk
from quiver.engine.numbers import core_folder, core_numbers
from quiver.segment import SegmentReader, parse_segment_name
from quiver.sink import Committed, Job, Stage, Staged, commit
from quiver.testing import ManualClock

SLOTS = ["events", "notes"]
CLOCK = ManualClock()


def opened(disk: Disk, core: int | None = 0, **config: object) -> quiver.Store:
    return quiver.open(
        "memory", slots=SLOTS, core=core, disk=disk, clock=CLOCK, worker=False, config=config
    )


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(numbers, pa.int64())})


def stage(
    disk: Disk, job: Job, task: str, rows: Sequence[int], *, per_bundle: int = 2, **config: object
) -> Staged:
    """Stage rows in bundles of a few each."""
    stage = Stage(disk, job, task, config=config_of(config), clock=CLOCK)
    for first in range(0, len(rows), per_bundle):
        stage.add({"events": batch(*rows[first : first + per_bundle])})
    return stage.finish()


def let_in(disk: Disk, job: Job, *parts: Staged, **config: object) -> Committed:
    return commit(disk, job, parts, config=config_of(config), clock=CLOCK)


def segments(disk: Disk) -> dict[tuple[int, int], list[int]]:
    """Read what readers see, without the store: rows by core and segment, checked in full."""
    found = {}
    for core in core_numbers(disk):
        folder = f"{core_folder(core)}/segments"
        seen: list[int] = []
        for entry in [] if disk.stat(folder) is None else disk.list_dir(folder):
            if (seq := parse_segment_name(entry.name)) is None:
                continue
            with SegmentReader.open(disk, f"{folder}/{entry.name}") as reader:
                reader.verify()
                entries = [reader.bundle_entry(i) for i in range(reader.bundle_count)]
                seen += [entry.wal_seq for entry in entries]
                found[core, seq] = [
                    row
                    for i in range(reader.bundle_count)
                    for row in reader.bundle(i)[0].column("n").to_pylist()
                ]
        assert seen == sorted(set(seen)), "a wal_seq was given twice, or goes back"
    return found


def rows(disk: Disk) -> list[int]:
    return [row for values in segments(disk).values() for row in values]
