"""One stream to a receiver of OTAP: batches go out on it, and answers come in any order."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from quiver.errors import InputError
from quiver.otel.batch import Batch
from quiver.otel.otap import StreamWriter
from quiver.otel.otap.format import BatchStatus, decode_status, encode_records

__all__ = ["Ended", "OtapStream"]

_BATCHES_MAX: Final = 1 << 16
"""After so many batches a stream is ended, so that no dictionary lives for ever."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a stream ended on which a batch was not answered: a code of gRPC, and what was said."""

    code: str
    details: str


_Answer: TypeAlias = BatchStatus | Ended | None


class OtapStream:
    """One stream; one thread sends and asks, another one of its own hears the answers."""

    def __init__(self, writer: StreamWriter, call: Callable[[Any], Any]) -> None:
        """Open it: ``call`` begins the call with an iterator of messages."""
        self._writer = writer
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._answers: dict[int, BatchStatus | None] = {}
        self._end: Ended | None = None
        self.sent = 0
        self._call = call(iter(self._outgoing.get, None))
        self._thread = threading.Thread(target=self._hear, name="quiver-otap-answers", daemon=True)
        self._thread.start()

    @property
    def is_spent(self) -> bool:
        """Whether nothing more should be sent on it."""
        return self._end is not None or self.sent >= _BATCHES_MAX

    def send(self, batch: Batch) -> int:
        """Send a batch, and give the number to ask for; after an error the stream is spent."""
        try:
            records = self._writer.write(batch)
            data = encode_records(records)
        except BaseException:
            self.end()
            raise
        with self._changed:
            self._answers[records.batch_id] = None
        self.sent += 1
        self._outgoing.put(data)
        return records.batch_id

    def answer(self, number: int, seconds: float) -> _Answer:
        """Wait for the answer to a batch, or for the end of the stream; None if neither came."""
        with self._changed:
            self._changed.wait_for(lambda: self._answers[number] or self._end, seconds)
            return self._answers.pop(number) or self._end

    def end(self) -> None:
        """End it, whatever is still to be answered; a second call does nothing."""
        self._outgoing.put(None)
        self._call.cancel()
        self._thread.join()

    def _hear(self) -> None:
        """Note answers until the stream ends; numbers that nobody waits for are passed over."""
        import grpc

        end = Ended("UNAVAILABLE", "the stream ended")
        try:
            for data in self._call:
                status = decode_status(data)
                with self._changed:
                    if status.batch_id in self._answers:
                        self._answers[status.batch_id] = status
                        self._changed.notify_all()
        except grpc.RpcError as error:
            found: Any = error
            end = Ended(found.code().name, found.details() or "")
        except InputError as error:
            end = Ended("UNAVAILABLE", f"an answer cannot be read: {error.message}")
            self._call.cancel()
        finally:
            with self._changed:
                self._end = end
                self._changed.notify_all()
            self._outgoing.put(None)
