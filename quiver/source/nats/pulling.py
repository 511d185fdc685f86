"""Messages of a stream from a sequence on, by a consumer on the server that is ours for a while.

The consumer is ephemeral and acks nothing. It counts what it sends, so a message that was lost on
the way is noticed; then, or when the server has forgotten it, another one begins behind the last
message that came.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from quiver.errors import SourceError

__all__ = ["Message", "Pulling", "StreamFacts"]

_IDLE_SECONDS: Final = 300.0
ANSWER_SECONDS = 5.0
"""How long a server may be silent until its consumer counts as lost."""
_NS: Final = 1_000_000_000
_TRIES: Final = 3
_NO_MESSAGES: Final = "404"
_EXPIRED: Final = "408"
_SHORT, _LONG = 9, 11


class Message(NamedTuple):
    """One message as it is in the stream."""

    sequence: int
    time_ns: int
    subject: str
    headers: Mapping[str, str]
    payload: bytes


class StreamFacts(NamedTuple):
    """What a stream has: its first sequence is that behind the last if it is empty."""

    created: str
    first: int
    last: int


class _LostError(Exception):
    """The consumer is gone, or a message of it."""


class Pulling:
    """Pulls from one stream; all of it runs in the event loop of a link."""

    def __init__(self, connection: Any, stream: str, subject: str) -> None:  # noqa: ANN401
        self._connection = connection
        self._stream = stream
        self._subject = subject
        self._manager = connection.jsm()
        self._inbox: Any = None
        self._next_subject = ""
        self._taken = 0

    async def facts(self) -> StreamFacts:
        """Ask what the stream has; raises SourceError if there is none of that name."""
        from nats.js.errors import NotFoundError

        try:
            info = await self._manager.stream_info(self._stream)
        except NotFoundError as error:
            raise SourceError(
                f"there is no stream {self._stream}", hint="nats stream ls shows which there are"
            ) from error
        return StreamFacts(info.created.isoformat(), info.state.first_seq, info.state.last_seq)

    async def pull(self, after: int, *, count: int, seconds: float) -> list[Message]:
        """Give up to ``count`` messages behind sequence ``after``; none if none come in time.

        It waits for the first of them alone.
        """
        for _ in range(_TRIES):
            try:
                if not self._next_subject:
                    await self._begin(after)
                found = await self._ask({"batch": count, "no_wait": True}, 0)
                if not found and seconds > 0:
                    waiting = {"batch": 1, "expires": int(seconds * _NS)}
                    found = await self._ask(waiting, seconds)
            except _LostError:
                self._next_subject = ""
            else:
                return found
        raise SourceError(
            f"stream {self._stream}: a consumer was lost {_TRIES} times in a row",
            retryable=True,
            hint="look at the log of the server",
        )

    def forget(self) -> None:
        """Begin anew with the next pull, behind whatever that is told then."""
        self._next_subject = ""

    async def _begin(self, after: int) -> None:
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

        config = ConsumerConfig(
            ack_policy=AckPolicy.NONE,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=after + 1,
            filter_subject=self._subject or None,
            inactive_threshold=_IDLE_SECONDS,
            mem_storage=True,
            num_replicas=1,
        )
        made = await self._manager.add_consumer(self._stream, config)
        if self._inbox is not None:
            await self._inbox.unsubscribe()
        self._inbox = await self._connection.subscribe(self._connection.new_inbox())
        self._next_subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{made.name}"
        self._taken = 0

    async def _ask(self, request: Mapping[str, object], seconds: float) -> list[Message]:
        """Send one request and take all that the server sends because of it."""
        await self._connection.publish(
            self._next_subject, json.dumps(request).encode(), reply=self._inbox.subject
        )
        found: list[Message] = []
        for _ in range(int(str(request["batch"]))):
            try:
                message = await self._inbox.next_msg(timeout=seconds + ANSWER_SECONDS)
            except TimeoutError as error:
                raise _LostError from error
            status = (message.headers or {}).get("Status") if not message.data else None
            if status in (_NO_MESSAGES, _EXPIRED):
                break
            if status is not None:
                if found:
                    break
                raise _LostError
            found.append(self._taken_in(message))
        return found

    def _taken_in(self, message: Any) -> Message:  # noqa: ANN401
        """Read the places of a message from the subject to which it would be acked."""
        words = message.reply.split(".")
        first = 4 if len(words) == _SHORT else 6
        if words[:2] != ["$JS", "ACK"] or (len(words) != _SHORT and len(words) < _LONG):
            raise _LostError
        sequence, number, time_ns = (int(word) for word in words[first + 1 : first + 4])
        self._taken += 1
        if number != self._taken:
            raise _LostError
        return Message(
            sequence, time_ns, message.subject, dict(message.headers or {}), bytes(message.data)
        )
