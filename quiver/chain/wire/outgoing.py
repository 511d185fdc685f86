"""The sending side of a block's stream: entries go out, acks come in, silence ends it.

Entries go by one call of Flight and acks come by another, each used by one thread alone. One call
for both would end the process now and then: when its reading half ends, Flight finishes the writing
half as well, whoever is writing at that moment, and gRPC aborts at that.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from pyarrow import flight

from quiver.chain.peers import Ack, Entries, Route, SilentError, as_fault, without_frames
from quiver.chain.wire.bodies import BEHIND_BYTES_MAX, SCHEMA, joined, send_frame, taken
from quiver.chain.wire.echo import Echo
from quiver.chain.wire.faults import from_text
from quiver.chain.wire.flights import FLIGHT_ERRORS, as_quiver
from quiver.chain.wire.format import encode_message
from quiver.chain.wire.leaving import calling, cancel_soon
from quiver.chain.wire.messages import Acks, Append, Frame, FrameKind
from quiver.chain.wire.settings import WireOptions
from quiver.chain.wire.watch import Watchdog
from quiver.errors import (
    ClosedError,
    DamagedEntry,
    InputError,
    QuiverError,
    RemoteError,
)

__all__ = ["Outgoing"]

_ALONE_BYTES_MAX: Final = 256 << 10
"""While no more than this is under way little goes at once, and waits for no more to come."""


class Outgoing:
    """A stream to a node. Safe for many threads."""

    def __init__(
        self,
        route: Route,
        node: str,
        *,
        options: WireOptions,
        acked: Callable[[Ack], None],
        broken: Callable[[QuiverError], None],
    ) -> None:
        self._route = route
        self._node = node
        self._options = options
        self._tell_acked = acked
        self._tell_broken = broken
        # Entered in C: whoever sends may be a thread that is interrupted, and leaves it then.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._queue: deque[Entries] = deque()
        self._end = self._acked = -1
        self._sure = self._sure_told = -1
        self._is_closed = self._is_left = False
        self._fault: QuiverError | None = None
        self._is_writing = self._has_written = False
        self._failed: Exception | None = None
        self._window = options.window_bytes
        self._in_flight = calling(self._leave)  # For one thread at a time, as the writer is.
        self._reader: Any = None

    def begin(
        self,
        stream: str,
        client: flight.FlightClient,
        *,
        watchdog: Watchdog,
        calls: flight.FlightCallOptions,
    ) -> None:
        """Begin to send and to listen on the stream that the node has opened."""
        self._client = client  # It has to live as long as its calls.
        self._echo = Echo(watchdog.now_ns)
        way = flight.FlightDescriptor.for_command(encode_message(Append(stream)))
        ticket = flight.Ticket(encode_message(Acks(stream)))
        try:
            # Nothing is read from the second one; it is what can cancel the call.
            with calling():
                self._writer, self._canceller = client.do_exchange(way, calls)
                self._writer.begin(SCHEMA)
        except FLIGHT_ERRORS as error:
            raise as_quiver(error, self._node) from error
        self._watched = watchdog.watch(self._options.silence, self._silent)
        # It waits for the first answer, however long that takes: the watchdog is there by then.
        listen = partial(self._read_all, lambda: client.do_get(ticket, calls))
        for work in (self._write_all, listen):
            threading.Thread(target=work, name="quiver-stream", daemon=True).start()

    def send(self, entries: Entries) -> None:
        """Hand entries on; waits while too much is under way. An interrupt breaks the stream."""
        size = len(entries.body)
        is_alone = is_whole = False
        failed: Exception | None = None
        try:
            with self._lock:
                under_way = self._end + size - self._acked
                is_over = self._fault is not None or self._is_closed
                if entries.offset != self._end or is_over or under_way > self._window:
                    self._wait_for_room(entries.offset, size)
                    under_way = self._end + size - self._acked
                self._end += size
                is_little = size <= BEHIND_BYTES_MAX and (
                    entries.has_heard or under_way <= _ALONE_BYTES_MAX
                )
                if is_little and not self._queue and not self._is_writing:
                    is_alone = self._is_writing = True
                else:
                    self._queue.append(entries)
                    self._changed.notify_all()
            if is_alone:  # To wake another thread takes longer than to write that little.
                with self._in_flight:
                    self._write([entries])
            is_whole = True
        except (QuiverError, *FLIGHT_ERRORS) as error:
            if not is_alone:
                raise
            failed = error  # The writing thread tells it, for it waits for the reason.
        finally:
            if is_alone:
                if not is_whole and failed is None:
                    failed = RemoteError("a write was interrupted", path=self._node)
                self._written(failed)

    def assure(self, length: int) -> None:
        """Say how much is synced up to here: at once, or behind what is being written."""
        with self._lock:
            self._check_open()
            self._sure = max(self._sure, length)
            if self._queue or self._is_writing:
                return  # Whoever writes sees it.
            self._is_writing = True
        failed: Exception | None = None
        try:
            with self._in_flight:
                self._write([])
        except (QuiverError, *FLIGHT_ERRORS) as error:
            failed = error
        except BaseException:
            failed = RemoteError("a write was interrupted", path=self._node)
            raise
        finally:
            self._written(failed)

    def _wait_for_room(self, offset: int, size: int) -> None:
        """Wait until so much may go, as what comes next; raises why it may not."""
        if self._end < 0:
            self._end = self._acked = offset
        if offset != self._end:
            raise InputError(f"entries for byte {offset} were given, not {self._end}")
        self._changed.wait_for(lambda: self._fault or self._is_closed or self._has_room(size))
        self._check_open()

    def _check_open(self) -> None:
        if self._fault is not None:
            raise self._fault
        if self._is_closed:
            raise ClosedError(f"the stream to {self._node} is closed")

    def _written(self, failed: Exception | None) -> None:
        """Let others write again, or say why nobody can."""
        with self._lock:
            self._is_writing, self._has_written = False, True
            self._failed = self._failed or failed
            is_sure = self._sure_told >= self._sure
            if self._failed or self._queue or self._is_closed or self._fault or not is_sure:
                self._changed.notify_all()

    def close(self) -> None:
        """End the stream; nothing is told any more."""
        with self._lock:
            self._is_closed = True
            self._changed.notify_all()

    def _has_room(self, size: int) -> bool:
        under_way = self._end - self._acked
        return not under_way or under_way + size <= self._window

    # the writing thread --------------------------------------------------------------------------

    def _write_all(self) -> None:
        with calling(self._leave):  # Idle or not: an open writer waits for its node when it goes.
            try:
                while (entries := self._next()) is not None:
                    self._write(entries)
                    self._is_writing = False
            except QuiverError as error:
                self._break(error)
            except FLIGHT_ERRORS as error:
                self._wait_for_reason()
                self._break(as_quiver(error, self._node))
            finally:
                self._end_writer()

    def _wait_for_reason(self) -> None:
        """Let the other call tell why: a node that ends this one says so there."""
        with self._lock:
            self._changed.wait_for(lambda: self._fault, self._options.silence)

    def _end_writer(self) -> None:
        try:
            self._writer.close()
        except FLIGHT_ERRORS:
            return  # It was broken, and that was told.

    def _next(self) -> list[Entries] | None:
        """Gather what may go as one frame; nothing of it is a heartbeat; None: it is over."""
        with self._lock:
            self._wait_for_work()
            if self._failed is not None:
                raise self._failed
            if self._fault or (self._is_closed and not self._queue):
                return None
            self._is_writing = True
            found: list[Entries] = []
            size = 0
            while self._queue and (
                not found
                or (
                    self._queue[0].epoch == found[0].epoch
                    and not (self._queue[0].has_heard or found[0].has_heard)
                    and size + len(self._queue[0].body) <= self._options.frame_bytes
                )
            ):
                found.append(self._queue.popleft())
                size += len(found[-1].body)
            return found

    def _wait_for_work(self) -> None:
        """Wait until the writer is free and there is something to be done, if only a heartbeat."""

        def is_due() -> bool:
            has_work = bool(self._queue or self._is_closed or self._fault or self._failed)
            is_sure = self._sure_told >= self._sure
            return (has_work or not is_sure) and not self._is_writing

        while not self._changed.wait_for(is_due, self._options.heartbeat):
            if not self._is_writing and not self._has_written:
                return
            self._has_written = False

    def _write(self, entries: list[Entries]) -> None:
        number = self._route.block.number
        if not entries:
            kind, offset = FrameKind.HEARTBEAT, 0
            if self._sure > self._sure_told:
                kind, offset = FrameKind.SURE, self._sure
                self._sure_told = offset
            send_frame(self._writer, Frame(kind, number, self._route.epoch, offset))
            return
        first, last = entries[0], entries[-1]
        end = last.offset + len(last.body)
        # If all before has come, its acks may still be late.
        begin = first.offset if first.has_heard else self._acked
        self._echo.sends(end, end - begin, is_next=first.has_heard)
        if first is last and first.message is not None:
            self._writer.write_metadata(first.message)  # It was of this block when it came.
            return
        kind = FrameKind.NEXT if first is last and first.has_heard else FrameKind.ENTRIES
        frame = Frame(kind, number, first.epoch, first.offset, last.last_seq)
        if first is last:
            send_frame(self._writer, frame, first.body, own=first.own)
        else:
            send_frame(self._writer, frame, joined([each.body for each in entries]))

    # the reading thread --------------------------------------------------------------------------

    def _read_all(self, listen: Callable[[], Any]) -> None:
        try:
            with calling(self._leave):
                self._read(listen)
        except Exception as error:  # noqa: BLE001 Else nobody would hear an ack any more.
            self._break(as_fault(error, "the reading of acks", node=self._node))

    def _read(self, listen: Callable[[], Any]) -> None:
        try:
            reader = listen()
            with self._lock:
                self._reader = reader
                is_over = self._fault is not None or self._is_left
            if is_over:  # Nobody could cancel it while it was opened.
                reader.cancel()
            while True:
                self._take(*taken(reader.read_chunk()))
        except StopIteration:
            text = f"{self._node} ended the stream"
            self._break(RemoteError(text, path=self._node, retryable=True))
        except QuiverError as error:
            self._break(error)
        except FLIGHT_ERRORS as error:
            self._break(as_quiver(error, self._node))
        finally:
            self._watched.stop()

    def _take(self, frame: Frame, body: memoryview) -> None:
        if frame.number != self._route.block.number:
            raise DamagedEntry("a frame is of another block", found=frame.number)
        if self._is_closed:
            return  # It has only as long as silence may last to come to its end.
        self._watched.heard(self._heard(frame))
        if frame.kind is FrameKind.ERROR:
            told = from_text(bytes(body).decode("ascii", "replace"))
            raise told or RemoteError(f"{self._node} says what nobody understands", path=self._node)
        if frame.kind is FrameKind.ACK:
            with self._lock:
                self._acked = max(self._acked, frame.offset)
                self._changed.notify_all()
            with self._watched:
                self._tell_acked(Ack(frame.offset, frame.last_seq))

    def _heard(self, frame: Frame) -> int | None:
        """Give as of when a frame counts; None: now, as it comes."""
        if frame.kind is FrameKind.ACK:
            self._echo.heard(frame.offset)
        elif frame.kind is FrameKind.HEARTBEAT and frame.offset:
            return self._echo.heard(frame.offset - 1)
        return None

    def _silent(self) -> None:
        text = f"{self._node} was silent for {self._options.silence:g} seconds"
        self._break(SilentError(text, path=self._node, retryable=True))

    def _break(self, error: QuiverError) -> None:
        without_frames(error)
        with self._lock:
            if self._fault is not None:
                return
            self._fault = error
            is_told = not self._is_closed
            self._changed.notify_all()
        try:
            self._cancel()
        finally:
            if is_told:
                self._tell_broken(error)

    def _cancel(self) -> None:
        if self._reader is not None:
            cancel_soon(self._reader)
        cancel_soon(self._canceller)

    def _leave(self) -> None:
        """End it with the process: nobody is told, or he would open another one."""
        with self._lock:
            self._is_closed = self._is_left = True
            self._queue.clear()
            self._changed.notify_all()
        self._cancel()
