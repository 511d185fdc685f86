"""One stream of NATS, or one subject of it, from a sequence on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from quiver.errors import ClosedError, InputError, SourceError
from quiver.events import Events
from quiver.source.nats.link import Link
from quiver.source.nats.pulling import Message, Pulling, StreamFacts
from quiver.source.protocols import Split, SplitBatch
from quiver.source.states import decode_state, encode_state

__all__ = ["MESSAGES", "NatsReader", "NatsState"]

_KINDS: Final[dict[str, pa.DataType]] = {
    "payload": pa.binary(),
    "subject": pa.string(),
    "sequence": pa.int64(),
    "time": pa.timestamp("ns", "UTC"),
    "headers": pa.map_(pa.string(), pa.string()),
}
MESSAGES: Final = pa.schema(_KINDS)
"""What a message is as a row; its offset is its sequence."""

_VERSION: Final = 1
_AHEAD: Final = 256
"""How many messages of other subjects have to pass until the state follows them."""


class NatsState(NamedTuple):
    """The last message that is done, and when its stream was made: another one counts anew."""

    created: str
    sequence: int

    def encode(self) -> str:
        """Write it as text."""
        return encode_state("nats", _VERSION, self._asdict())

    @classmethod
    def decode(cls, text: str) -> NatsState:
        """Read what ``encode`` wrote; raises InputError or VersionError."""
        at = decode_state(text, connector="nats", version=_VERSION)
        created, sequence = at.get("created"), at.get("sequence")
        is_number = isinstance(sequence, int) and not isinstance(sequence, bool)
        if len(at) != len(cls._fields) or not isinstance(created, str) or not is_number:
            raise _no_state(text)
        found = cls(created, int(str(sequence)))
        if found.sequence < 0:
            raise _no_state(text)
        return found


def _no_state(text: str) -> InputError:
    return InputError(
        f"this is no state of a stream of NATS: {text[:200]!r}",
        hint="pass a state as it was handed out, or None for the start",
    )


class NatsReader:
    """Reads one split; the connection is its own.

    A message that the stream gave up before it was read is a gap. With ``gap="error"`` that is a
    SourceError, with ``"tell"`` a warning in the log, and it is passed over.
    """

    def __init__(
        self,
        split: Split,
        state: str | None,
        columns: Sequence[str] | None,
        *,
        link: Mapping[str, Any],
        batch_rows: int,
        gap: str,
    ) -> None:
        """Connect and look whether the stream has what follows the state."""
        self._split = split.id
        self._names = _known(columns)
        self._batch_rows = batch_rows
        self._is_strict = gap == "error"
        self._events = Events(source="nats", split=split.id)
        self._subject = split.properties.get("subject", "")
        begun = None if state is None else NatsState.decode(state)
        self._link = Link(**link, split=split.id)
        self._is_closed = False
        try:
            name = split.properties.get("stream", split.id)
            self._pulling = Pulling(self._link.connection, name, self._subject)
            facts = self._ask_facts()
            self._at = begun or NatsState(facts.created, 0)
            self._is_first = begun is None
            with self._events.telling():
                self._check(facts)
        except BaseException:
            self._link.close()
            raise

    def next(self, timeout: float) -> SplitBatch | None:
        """Give the messages that are there; wait for the first one."""
        if self._is_closed:
            raise ClosedError("the reader is closed", hint="make another one from its state")
        with self._events.telling():
            after = self._at.sequence
            before = self._ask_facts() if self._subject else None
            found = self._link.ask(
                lambda: self._pulling.pull(after, count=self._batch_rows, seconds=timeout)
            )
            if before is not None:
                self._check(before)
            if found:
                return self._batch(found)
            if before is not None and timeout > 0 and before.last - after >= _AHEAD:
                # Nothing of this subject was left, so all up to there is done.
                self._at = self._at._replace(sequence=before.last)
                return _rows([], self._names, self._at)
            return None

    def is_drained(self) -> bool:
        """Never: a message may come at any time."""
        return False

    def close(self) -> None:
        """Disconnect, and wake who waits."""
        self._is_closed = True
        self._link.close()

    def _ask_facts(self) -> StreamFacts:
        try:
            return self._link.ask(self._pulling.facts)
        except SourceError as error:
            raise SourceError(
                error.message, split=self._split, retryable=error.retryable, hint=error.hint
            ) from error

    def _check(self, facts: StreamFacts) -> None:
        """Look whether it is the stream of the state, and whether it has what follows."""
        at = self._at
        if facts.created != at.created:
            raise SourceError(
                f"split {self._split}: the stream was made anew, at {facts.created}",
                split=self._split,
                hint=f"the state is of the one made at {at.created}; begin without a state",
            )
        if at.sequence > facts.last:
            raise SourceError(
                f"split {self._split}: the state is at message {at.sequence}, "
                f"and the last one there is {facts.last}",
                split=self._split,
                hint="was the stream restored from an older copy?",
            )
        if not self._is_first and facts.first > at.sequence + 1:
            self._miss(at.sequence + 1, facts.first - 1)

    def _miss(self, first: int, last: int) -> None:
        """Meet a gap: raise, or tell it and go on behind it."""
        what = "may be" if self._subject else "are"
        if self._is_strict:
            raise SourceError(
                f"split {self._split}: messages {first} to {last} {what} gone from the stream",
                split=self._split,
                hint='its limits are too narrow, or they were deleted; gap="tell" goes on behind',
            )
        self._events.warning("source.gap", first=first, last=last)
        self._at = self._at._replace(sequence=last)

    def _batch(self, found: Sequence[Message]) -> SplitBatch:
        for place, message in enumerate(found):
            is_next = self._is_first or self._subject or message.sequence == self._at.sequence + 1
            if not is_next:
                if place:  # What came before the gap is good.
                    found = found[:place]
                    self._pulling.forget()
                    break
                self._miss(self._at.sequence + 1, message.sequence - 1)
            self._at = self._at._replace(sequence=message.sequence)
            self._is_first = False
        return _rows(found, self._names, self._at)


def _known(columns: Sequence[str] | None) -> list[str]:
    names = MESSAGES.names if columns is None else list(columns)
    for name in names:
        if name not in MESSAGES.names or names.count(name) > 1:
            raise InputError(
                f"messages of NATS have no column {name!r}, or it is wanted twice",
                hint=", ".join(MESSAGES.names),
            )
    return names


def _rows(found: Sequence[Message], names: Sequence[str], at: NatsState) -> SplitBatch:
    sequences = pa.array([message.sequence for message in found], pa.int64())
    columns: dict[str, Any] = {
        "payload": lambda: [message.payload for message in found],
        "subject": lambda: [message.subject for message in found],
        "sequence": lambda: sequences,
        "time": lambda: [message.time_ns for message in found],
        "headers": lambda: [list(message.headers.items()) for message in found],
    }
    schema = pa.schema([MESSAGES.field(name) for name in names])
    if not names:
        rows: Any = pa.RecordBatch.from_arrays([sequences], names=["sequence"])
        return SplitBatch(rows.select([]), sequences, at.encode())
    arrays = [pa.array(columns[name](), MESSAGES.field(name).type) for name in names]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return SplitBatch(batch, sequences, at.encode())
