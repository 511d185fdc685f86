"""A machine whose power may go while a query streams: a store, a checkpoint, a sink, one disk.

``Query`` does what Spark does with the source and with files, in its order, and syncs as much as
Spark does: nothing.
"""

from __future__ import annotations

import json
import posixpath
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import quiver
from quiver.disk import FolderDisk, Stat
from quiver.engine import open as open_store
from quiver.errors import MissingError
from quiver.manifest import StoreManifest
from quiver.source.stores import Limits
from quiver.spark.stream_driver import StreamDriver
from quiver.spark.stream_query import StreamQuery
from quiver.spark.stream_read import read_share
from quiver.testing import ManualClock, MemoryDisk

SCHEMA = pa.schema([("n", pa.int64())])
STORE, CHECKPOINT, SINK = "store", "checkpoint", "sink"
LOGS = (f"{CHECKPOINT}/offsets", f"{CHECKPOINT}/commits", f"{SINK}/_spark_metadata")
_MODULES = (
    "quiver.checkpoint.acking",
    "quiver.checkpoint.folder",
    "quiver.checkpoint.sink",
    "quiver.consumer",
    "quiver.spark.stream_driver",
    "quiver.spark.tasks",
)


class _Door(FolderDisk):
    """A folder with times: another one whenever other names are in it."""

    def stat(self, path: str) -> Stat | None:
        found = super().stat(path)
        if found is None or found.is_file:
            return found
        names = "\n".join(stat.name for stat in self.list_dir(path))
        return replace(found, modified_ns=1 + zlib.crc32(names.encode()))

    def close(self) -> None:
        """Let go of nothing."""


def plug_in(disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have whoever opens a local folder find it on this disk."""

    def opened(path: str, **_: Any) -> _Door:
        folder = posixpath.relpath(path, "/").removeprefix(".")
        if folder and disk.stat(folder) is None:
            raise MissingError(f"there is no folder {path}", path=path)
        return _Door(disk, folder)

    for module in _MODULES:
        monkeypatch.setattr(f"{module}.LocalDisk", opened)


def new_store(disk: MemoryDisk) -> quiver.Store:
    """Open the store, as a process does that writes."""
    if disk.stat(STORE) is None:
        disk.make_dir(STORE)
        disk.sync_dir("")
    where = FolderDisk(disk, STORE)
    clock = ManualClock()
    return open_store(STORE, slots=["s"], disk=where, clock=clock, worker=False, core=0)


class Query:
    """One start of the query, to a power cut or to its end."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        for folder in (CHECKPOINT, SINK, *LOGS):
            if disk.stat(folder) is None:
                disk.make_dir(folder)
        self.driver = StreamDriver(self._asked(), clock=ManualClock())

    def _asked(self) -> StreamQuery:
        store_id = StoreManifest.read(FolderDisk(self.disk, STORE)).store_id
        return StreamQuery(
            f"/{STORE}",
            store_id,
            "s",
            0,
            stored=SCHEMA,
            target=SCHEMA,
            start="earliest",
            limits=Limits(segments_max=1),
            bytes_max=1 << 20,
            count_min=2,
            is_fixed=False,
            ignores_change=False,
            fails_on_loss=True,
            subscriber="lake",
            checkpoint=f"/{CHECKPOINT}",
            sink=f"/{SINK}",
        )

    def run(self) -> None:
        """Do one batch after the other until there is nothing new."""
        while self.step():
            pass

    def step(self) -> bool:
        """Do the batch that was begun, or the next one; False if there is none."""
        planned, committed = (_numbers(self.disk, log) for log in LOGS[:2])
        batch = planned[-1] if planned else -1
        if batch >= 0 and batch not in committed:
            self._run(batch)
            return True
        start = self._offset(batch)
        end = self.driver.latest(start, is_limited=True)
        if end == start:
            return False
        text = json.dumps(end, sort_keys=True)
        _leave(self.disk, f"{LOGS[0]}/{batch + 1}", f"v1\n{{}}\n{text}")
        if batch >= 0:
            self.driver.commit(start)
        self._run(batch + 1)
        return True

    def _offset(self, batch: int) -> dict[str, Any]:
        if batch < 0:
            return self.driver.initial()
        offset: dict[str, Any] = json.loads(_text(self.disk, f"{LOGS[0]}/{batch}").split("\n")[2])
        return offset

    def _run(self, batch: int) -> None:
        shares = self.driver.partitions(self._offset(batch - 1), self._offset(batch))
        if batch not in _numbers(self.disk, LOGS[2]):
            lines = ["v1"]
            for number, spans in enumerate(shares):
                name = f"part-{number}-of-{batch}-{len(self.disk.history.ops)}"
                rows = [n for b in read_share(self._asked(), spans) for n in b["n"].to_pylist()]
                text = json.dumps(rows)
                _leave(self.disk, f"{SINK}/{name}", text)
                lines.append(json.dumps({"path": f"file:///{SINK}/{name}", "size": len(text)}))
            _leave(self.disk, f"{LOGS[2]}/{batch}", "\n".join(lines))
        _leave(self.disk, f"{LOGS[1]}/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')


def torn(disk: MemoryDisk) -> bool:
    """Whether an entry of Spark's is not whole, so that Spark would not start."""
    return any(not _is_whole(disk, f"{log}/{n}", log) for log in LOGS for n in _numbers(disk, log))


def take_back(disk: MemoryDisk) -> None:
    """Do what STREAMING.md says under 'After a power cut'."""
    last = -1
    while all(_is_whole(disk, f"{log}/{last + 1}", log) for log in LOGS) and _is_sound(
        disk, last + 1
    ):
        last += 1
    for log in LOGS:
        for number in _numbers(disk, log):
            if number > last:
                disk.unlink(f"{log}/{number}")


def rows_of(disk: MemoryDisk) -> list[int]:
    """Give what a reader of the sink sees."""
    return [
        row
        for batch in _numbers(disk, LOGS[2])
        for name, _ in _files(disk, batch)
        for row in json.loads(_text(disk, f"{SINK}/{name}"))
    ]


def _files(disk: MemoryDisk, batch: int) -> Iterator[tuple[str, int]]:
    for line in _text(disk, f"{LOGS[2]}/{batch}").split("\n")[1:]:
        entry = json.loads(line)
        yield entry["path"].rpartition("/")[2], entry["size"]


def _is_sound(disk: MemoryDisk, batch: int) -> bool:
    return all(len(_text(disk, f"{SINK}/{name}")) == size for name, size in _files(disk, batch))


def _is_whole(disk: MemoryDisk, path: str, log: str) -> bool:
    lines = _text(disk, path).split("\n")
    if lines[0] != "v1" or len(lines) < (3 if log == LOGS[0] else 2):
        return False
    try:
        return all(isinstance(json.loads(line), dict) for line in lines[1:])
    except ValueError:
        return False


def _numbers(disk: MemoryDisk, folder: str) -> list[int]:
    if disk.stat(folder) is None:
        return []
    return sorted(int(stat.name) for stat in disk.list_dir(folder) if stat.name.isdigit())


def _text(disk: MemoryDisk, path: str) -> str:
    if disk.stat(path) is None:
        return ""
    with closing(disk.open(path)) as file:
        return file.read(0, 1 << 20).decode(errors="replace")


def _leave(disk: MemoryDisk, path: str, text: str) -> None:
    """Write a file as Spark does: under another name first, without a sync."""
    folder, name = posixpath.split(path)
    temporary = f"{folder}/.{name}.tmp"
    if disk.stat(temporary) is not None:
        disk.unlink(temporary)
    with closing(disk.create(temporary)) as file:
        file.write(0, text.encode())
    disk.rename(temporary, path)
