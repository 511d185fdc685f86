"""The receiving side of a block's stream: frames go to the node, its acks go back.

Two calls of Flight belong to it, one for each way; each is used by the thread alone that Flight
gives it, and by nobody after it has returned: that would end the process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Final

from quiver.chain.peers import Ack, Entries, Peer, Route, Stream, without_frames
from quiver.chain.wire.bodies import buffers_of, sent
from quiver.chain.wire.faults import to_text
from quiver.chain.wire.flights import FLIGHT_ERRORS, as_told
from quiver.chain.wire.messages import Frame, FrameKind
from quiver.chain.wire.settings import WireOptions
from quiver.chain.wire.watch import Watchdog
from quiver.errors import ClosedError, DamagedEntry, InputError, QuiverError, RemoteError

__all__ = ["Incoming"]

_LINGER_SECONDS: Final = 0.025
"""For so long a tail keeps acks for the node before it: it has told the loader itself, and who
carries them takes a processor from what comes next. Where the loader was told (``NEXT``) they are
kept until a heartbeat is due."""
_PATIENCE: Final = 10
"""So many times longer than acks are waited for: heartbeats stand behind a large frame on its way,
and whoever sends finds out by himself that nobody is there."""
_MUCH_BYTES: Final = 1 << 20
"""Of so much they go at once: the node before may wait for room."""
_LOADERS_SECONDS: Final = 0.005
_LOADERS_BYTES: Final = 2 << 20
"""So long, and for so much, a loader is told nothing while more of what it sent is not safe yet."""


class _Over:
    """Where entries go once a stream has ended."""

    def send(self, _: Entries) -> None:
        """Refuse them."""
        raise ClosedError("the stream was closed")

    def assure(self, _: int) -> None:
        """Refuse that, too."""
        raise ClosedError("the stream was closed")

    def close(self) -> None:
        """Do nothing: it is."""


class Incoming:
    """A stream from a loader, or from the node before."""

    def __init__(self, route: Route, node: str, *, options: WireOptions) -> None:
        self.route = route
        self._node = node
        self._options = options
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._ack: Ack | None = None
        self._fault: QuiverError | None = None
        self._is_over = self._lingers = self._is_taking = False
        self._is_next = self._is_patient = False
        self._told = self._came = 0

    def open(self, peer: Peer, watchdog: Watchdog) -> None:
        """Open the stream of the node; raises why it does not."""
        self._stream: Stream = peer.stream(self.route, acked=self._acked, broken=self.end)
        self._watched = watchdog.watch(_PATIENCE * self._options.silence, self._silent)

    @property
    def heard_ns(self) -> int:
        """When something last came, by the watchdog's clock."""
        return self._watched.heard_ns

    @property
    def is_over(self) -> bool:
        """Whether nothing is taken in any more."""
        return self._is_over

    def feed(self, reader: Any) -> None:  # noqa: ANN401
        """Pass on what comes until the other side ends it, or something breaks."""
        try:
            while not self._is_over:
                frame, body = sent(reader.read_chunk())
                with self._watched:
                    self._pass_on(frame, body)
        except StopIteration:
            return  # It means nothing: a loader that was killed ends like that, too.
        except QuiverError as error:
            self.end(error)
        except FLIGHT_ERRORS:
            return  # The other side is gone; there is nobody to tell.
        finally:
            self._finish()

    def acks(self) -> Iterator[tuple[Frame, bytes]]:
        """Give frames with what the chain has, heartbeats between them, at last why it ends."""
        number, epoch = self.route.block.number, self.route.epoch
        yield self._heartbeat(), b""
        chain = self.route.chain
        is_tail = len(chain) > 1 and chain[-1] == self._node
        linger = _LINGER_SECONDS if is_tail else 0 if self.route.sender else _LOADERS_SECONDS
        while True:
            with self._lock:
                self._changed.wait_for(self._has_news, self._options.heartbeat)
                if self._ack is not None and linger:
                    self._lingers, self._is_patient = True, is_tail and self._is_next
                    seconds = self._options.heartbeat if self._is_patient else linger
                    self._changed.wait_for(self._is_urgent, seconds)
                    self._lingers = False
                ack, self._ack = self._ack, None
                self._told = ack.length if ack is not None else self._told
                fault, is_over = self._fault, self._is_over
            if ack is not None:
                yield Frame(FrameKind.ACK, number, epoch, *ack), b""
            if fault is not None:
                text = to_text(as_told(fault, self._node)).encode()
                yield Frame(FrameKind.ERROR, number, epoch), text
                return
            if is_over:
                return
            if ack is None:
                yield self._heartbeat(), b""

    def end(self, error: QuiverError) -> None:
        """Tell the other side why it ends; it hangs up then."""
        without_frames(error)  # It is asked for as long as its block is open.
        with self._lock:
            self._fault = self._fault or error
            self._changed.notify_all()

    def _heartbeat(self) -> Frame:
        """Say how far it heard; nothing of that while it works on what it heard last."""
        heard = 0 if self._is_taking else self._came + 1
        return Frame(FrameKind.HEARTBEAT, self.route.block.number, self.route.epoch, heard)

    def _acked(self, ack: Ack) -> None:
        with self._lock:
            if self._ack is None or ack.length > self._ack.length:
                self._ack = ack
            if not self._lingers or self._is_urgent():
                self._changed.notify_all()

    def _silent(self) -> None:
        """Give up: nobody speaks. Who reads stays where it is until TCP gives up as well."""
        text = f"{self._node} heard nothing for {_PATIENCE * self._options.silence:g} seconds"
        self.end(RemoteError(text, path=self._node, retryable=True))
        self._finish()

    def _finish(self) -> None:
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
            self._changed.notify_all()
        self._watched.stop()
        # When it was last heard is asked for long; what it led to is not kept for that.
        stream, self._stream = self._stream, _Over()
        stream.close()

    def _pass_on(self, frame: Frame, body: memoryview) -> None:
        if frame.number != self.route.block.number:
            raise DamagedEntry("a frame is of another block", found=frame.number)
        kind, _, epoch, offset, last_seq, *_ = frame
        if kind is FrameKind.ENTRIES or kind is FrameKind.NEXT:
            own, message = buffers_of(body)
            self._came, self._is_taking = offset + len(body), True
            self._is_next = is_next = kind is FrameKind.NEXT
            self._stream.send(Entries(epoch, offset, last_seq, body, own, message, is_next))
            self._is_taking = False
        elif kind is FrameKind.SURE and self.route.sender:
            self._stream.assure(offset)
        elif kind is not FrameKind.HEARTBEAT:
            raise InputError(f"{frame.kind.name.lower()} was sent down a chain")

    def _is_urgent(self) -> bool:
        if self._ack is None or self._fault is not None or self._is_over:
            return True
        untold = self._ack.length - self._told
        if self.route.sender:
            return untold >= _MUCH_BYTES or (self._is_patient and not self._is_next)
        return untold >= _LOADERS_BYTES or self._ack.length >= self._came

    def _has_news(self) -> bool:
        return self._ack is not None or self._fault is not None or self._is_over
