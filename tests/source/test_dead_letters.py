"""What a parser refuses goes the way of the rows: with its split, its offset and its epoch."""

from __future__ import annotations

import pyarrow as pa
from toy_source import ToySource, toy_state

from quiver.source import (
    AssignSplits,
    Barrier,
    MessageParser,
    Snapshots,
    SourceExecutor,
    SourceOptions,
    Split,
)
from quiver.testing import ManualClock, MemoryDisk


def test_a_parser_belongs_to_the_epoch_as_rows_do() -> None:
    parser = MessageParser("json", pa.schema([("n", pa.int64())]), on_error="dead_letter")
    source = ToySource({"a": range(4)})
    source_reader = source.reader

    def reader(split, state, columns):
        honest = source_reader(split, state, columns)
        give = honest.next

        def messages(timeout):
            found = give(timeout)
            if found is None:
                return None
            payloads = [b'{"n": %d}' % v if v % 2 else b"bad" for v in found.offsets.to_pylist()]
            raw = pa.RecordBatch.from_pydict({"payload": payloads})
            return type(found)(raw, found.offsets, found.state)

        honest.next = messages
        return honest

    source.reader = reader
    run = SourceExecutor(
        source,
        Snapshots(MemoryDisk(), connector="toy"),
        epoch=0,
        clock=ManualClock(),
        options=SourceOptions(parser=parser, threads=False),
    )
    run.send(Barrier(1, (AssignSplits((Split("a"),)),)))
    run.next(0)
    chunk = run.next(0)
    assert chunk.batch.to_pylist() == [{"n": 1}]
    assert chunk.offsets.to_pylist() == [1]
    (dead,) = chunk.dead_letters
    assert (dead.split, dead.offset, dead.payload) == ("a", 0, b"bad")
    assert run.states["a"].state == toy_state(2)
