"""Arrow streams written one behind the other into memory that is there, by the shortest way."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from quiver.ipc import as_buffer, out_of_memory

__all__ = ["StreamRoom"]

_OPTIONS: Final = pa.ipc.IpcWriteOptions(use_threads=False)
_TRIAL_BYTES: Final = 1024


class _Sink(pa.FixedSizeBufferWriter):
    """A sink that says itself that it is no path: to find that out takes pyarrow longer."""

    def __fspath__(self) -> str:
        """Raise what pyarrow then catches."""
        raise TypeError


class _Opened:
    """A writer of one stream, opened as pyarrow documents it."""

    def _open(self, sink: _Sink, schema: pa.Schema, options: pa.ipc.IpcWriteOptions) -> None:
        writer = pa.RecordBatchStreamWriter(sink, schema, options=options)
        self.write_batch, self.close = writer.write_batch, writer.close


def _shortest() -> Any:  # noqa: ANN401
    """Give what pyarrow's own class is around, without its questions, if it still opens so."""
    bare: Any = pa.RecordBatchStreamWriter.__base__
    try:
        bare()._open(_Sink(pa.allocate_buffer(_TRIAL_BYTES)), pa.schema([]), _OPTIONS)  # noqa: SLF001
    except (AttributeError, TypeError):
        return _Opened
    return bare


_Writer: Any = _shortest()


class StreamRoom:
    """Memory in which such streams are written, one behind the other. For one thread at a time."""

    __slots__ = ("_memory", "_sink", "_used", "_view")

    def __init__(self, memory: memoryview | pa.Buffer) -> None:
        """Start at the beginning of it; pyarrow ends the process over memory that is read-only."""
        if memoryview(memory).readonly:
            raise ValueError("streams are to be written into memory that cannot be written")
        self._view = memory
        self._memory = as_buffer(memory)
        self._sink = _Sink(self._memory)
        self._used = 0

    @property
    def byte_count(self) -> int:
        """How much memory it is, full or not."""
        return len(self._memory)

    def rest(self) -> StreamRoom:
        """Give what nobody has a view of as a room of its own: this one is of no use any more."""
        return StreamRoom(memoryview(self._view)[self._used :])

    def skip(self, byte_count: int) -> bool:
        """Leave bytes to the caller, zeros as yet; False if there is no room."""
        try:
            self._sink.write(bytes(byte_count))
        except OSError:
            return False
        self._used += byte_count
        return True

    def encode_stream(self, batch: pa.RecordBatch) -> pa.Buffer | None:
        """Write one batch, and give a view of its stream; None if there is no room.

        No memoryview: a segment holds thousands, and Python's collector would walk through them.
        After that, and after an error, only its ``rest`` is of use: its sink is in the midst of it.
        """
        sink = self._sink
        try:
            # One for each stream: one that is kept would keep the caller's dictionaries.
            writer = _Writer()
            writer._open(sink, batch.schema, _OPTIONS)  # noqa: SLF001
            writer.write_batch(batch)
            writer.close()
        except MemoryError as error:
            raise out_of_memory() from error
        except OSError:
            return None
        start, self._used = self._used, sink.tell()
        return self._memory.slice(start, self._used - start)
