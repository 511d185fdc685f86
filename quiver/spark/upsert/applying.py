"""What a task does with the commands of a bucket: look up, tell differences, write a run.

A task that is done twice, or at two places at once, writes a run under another name: what counts is
what the driver hears of, and the rest is garbage that nobody names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from quiver.ship.objects import Bucket
from quiver.spark.upsert.wire import PROGRESS, READ, by_bucket, result, unpack
from quiver.spark.worker import settle
from quiver.upsert.persist import FileRef, Snapshot, State, write_run
from quiver.upsert.rows import Commands, differences, reduce

__all__ = ["Applied", "Applying", "applied"]


class Applied(NamedTuple):
    """What became of the commands of one bucket."""

    run: FileRef | None
    """None if all is as it was."""
    commands: int

    def encode(self) -> bytes:
        """Write it for the way to the driver."""
        return json.dumps([self.run, self.commands]).encode()

    @classmethod
    def decode(cls, data: bytes) -> Applied:
        """Read it again."""
        run, commands = json.loads(data)
        return cls(None if run is None else FileRef(*run), commands)


@dataclass(frozen=True)
class Applying:
    """The second step of a batch, for ``mapInArrow``: goes to the workers."""

    store: Bucket
    snapshot: Snapshot
    """With the definition that rows are written under."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take rows of ``wire.WIRE`` sorted by bucket, give those of ``wire.RESULT``."""
        settle()
        for bucket, pieces in by_bucket(batches):
            if bucket in (PROGRESS, READ):
                yield from (result(bucket, piece) for piece in pieces)
            else:
                commands = reduce(unpack(pieces))
                yield result(
                    bucket, applied(self.store, self.snapshot, commands, bucket=bucket).encode()
                )


def applied(store: Bucket, snapshot: Snapshot, commands: Commands, *, bucket: int) -> Applied:
    """Do what there is to do for one bucket, whose commands have each key once."""
    state = State(store, snapshot, bucket)
    looked = state.lookup(commands.hashes, commands.keys)
    diffs = differences(commands, looked, state.upper)
    return Applied(write_run(store, snapshot, diffs, bucket=bucket), len(commands))
