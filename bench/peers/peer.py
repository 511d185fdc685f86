"""What a bench asks of each store: one small protocol, and one value for a bundle."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, Literal

import pyarrow as pa

from bench.peers.servers import Server
from bench.wal.shapes import SLOTS

__all__ = ["BATCH", "Bundle", "Encoder", "Mode", "Peer", "decode"]

Bundle = Mapping[str, pa.RecordBatch | pa.Table]
Mode = Literal["group", "each"]
"""A commit every 25 ms, or one for each append."""

BATCH: Final = 32
"""How many requests a client of a server has on their way, if it need not wait for each."""

_OPTIONS = pa.ipc.IpcWriteOptions(use_threads=False)


class Encoder:
    """Writes bundles as values: the complete IPC streams of all slots, one behind the other.

    Into one piece of memory that is used again, which is the fastest way that we know.
    """

    def __init__(self) -> None:
        self._arena = bytearray(1 << 20)

    def encode(self, bundle: Bundle) -> memoryview:
        """Give a view of the value, until the next one is made."""
        while True:
            sink = pa.FixedSizeBufferWriter(pa.py_buffer(self._arena))
            try:
                for slot in SLOTS:
                    batch = bundle[slot]
                    with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as stream:
                        stream.write_batch(batch)
                return memoryview(self._arena)[: sink.tell()]
            except OSError:  # Too small.
                self._arena = bytearray(2 * len(self._arena))


def decode(value: object) -> dict[str, pa.RecordBatch]:
    """Give the bundle back, as views of the value."""
    source = pa.BufferReader(value)
    bundle = {}
    for slot in SLOTS:
        with pa.ipc.open_stream(source) as stream:
            bundle[slot] = stream.read_next_batch()
            for more in stream:  # Up to the end of the stream.
                raise ValueError(f"{more.num_rows} rows too many")
    return bundle


class Peer(abc.ABC):
    """A store in a folder, in use by one process."""

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()
    """What has to be there to import the module that it is in."""
    program: ClassVar[str] = ""
    """The server that has to be there."""
    survives: ClassVar[Literal["a power cut", "a kill"]] = "a power cut"
    """What a bundle that was acked survives, by what the peer promises."""
    settings: ClassVar[str]
    """How it is set up, for the page."""
    exact: ClassVar[bool] = True
    """Whether what comes back is bundle by bundle, and of the types that were given."""

    def __init__(self, folder: Path, mode: Mode) -> None:
        self.folder = folder
        self.mode: Mode = mode
        self.acked = 0
        """How many bundles were acked, of those appended to this object."""
        self._appended = 0
        self._encoder = Encoder()

    @classmethod
    @abc.abstractmethod
    def version(cls) -> str:
        """Name what was measured."""

    @classmethod
    def serve(cls, folder: Path) -> Server | None:
        """Start the server that this needs, and return once it answers."""
        del folder

    @abc.abstractmethod
    def open(self) -> None:
        """Open what is in the folder, or make it."""

    def ready(self, bundles: Sequence[Bundle], byte_count: int) -> None:
        """See what will be appended, and how much of it, before anything is measured."""
        del bundles, byte_count

    @abc.abstractmethod
    def append(self, bundle: Bundle) -> None:
        """Take a bundle; in mode ``each`` it is acked when this returns."""

    def commit(self) -> None:
        """Ack all that was appended; called every 25 ms in mode ``group``."""
        self.acked = self._appended

    def drain(self) -> None:
        """Return once all that was appended is acked."""
        self.commit()

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of it."""

    @abc.abstractmethod
    def read_all(self) -> Iterator[Bundle]:
        """Give all rows of each slot in the order of appends, one bundle or many at a time.

        What is given may be views that live until the next one is asked for.
        """

    def first(self) -> Bundle:
        """Give the first bundle."""
        return next(self.read_all())
