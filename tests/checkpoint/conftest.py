from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import quiver
from quiver.checkpoint import Acker, Note
from quiver.clock import SystemClock

REAL = Path(__file__).with_name("real")
SEGMENTS = 18
"""The query read two segments in each of its first three batches, and one in each that followed."""


class Ground:
    """A store, and what a query that read its slot into Parquet left in its checkpoint and sink."""

    def __init__(self, path: Path) -> None:
        self.store_path, self.checkpoint, self.sink = path / "store", path / "ck", path / "out"
        self.store = quiver.open(self.store_path, slots=["logs"], core=0, worker=False)
        self.store_id = self.store.info().store_id
        for number in range(SEGMENTS):
            self.store.append({"logs": pa.record_batch({"n": [number]})})
            self.store.finalize()

    def lay_out(self, *, upto: int = 13) -> None:
        """Put the real checkpoint there as it was after a batch was committed."""
        for source, target in ((REAL / "checkpoint", self.checkpoint), (REAL / "sink", self.sink)):
            for path in sorted(source.rglob("*")):
                place = target / path.relative_to(source)
                name = path.name.removesuffix(".compact")
                if path.is_dir():
                    place.mkdir(parents=True, exist_ok=True)
                elif not name.isdigit() or int(name) <= upto:
                    text = path.read_text().replace("{store_id}", self.store_id)
                    place.write_text(text.replace("{sink}", str(self.sink)))
        for line in (self.sink / "_spark_metadata").glob("*"):
            for part in map(json.loads, line.read_text().splitlines()[1:]):
                (self.sink / part["path"].rpartition("/")[2]).write_bytes(bytes(part["size"]))

    def note(self, **changes: str) -> Note:
        fields = {"subscriber": "spark", "slot": "logs", "sink": str(self.sink)} | changes
        return Note(str(self.store_path), self.store_id, **fields)

    def acker(self, **changes: str) -> Acker:
        note = self.note(**changes)
        return Acker(note, str(self.checkpoint), start="earliest", clock=SystemClock())

    def left(self) -> int:
        self.store.maintain()
        return self.store.info().segments


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    ground = Ground(tmp_path)
    yield ground
    ground.store.close()
