"""From raw messages to Arrow, by a description of the columns.

A connector of messages gives batches with a binary column ``payload``, one message a row. A parser
makes of them a batch of the columns that were asked for. A message that it cannot take is an error
or a dead letter, and never nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Protocol, TypeAlias

import pyarrow as pa

from quiver.casts.picking import rows_at
from quiver.errors import ConfigError, InputError, SourceError
from quiver.source.messages import Refused, parse_bytes, parse_csv, parse_json

__all__ = [
    "DEAD_LETTERS",
    "FORMATS",
    "PAYLOAD",
    "DeadLetter",
    "MessageParser",
    "Parsed",
    "Parser",
    "dead_letter_rows",
]

PAYLOAD: Final = "payload"
_NUMBERED: Final = "sequence"
"""A column that tells a message from all others of its split, if there is one."""

Decode: TypeAlias = "Callable[[list[bytes], pa.Schema], tuple[pa.RecordBatch, list[Refused]]]"

FORMATS: Final[dict[str, Decode]] = {"json": parse_json, "csv": parse_csv, "bytes": parse_bytes}
"""What a message may be: one JSON object, one line of CSV, or the value of a single column."""

_POLICIES: Final = ("error", "dead_letter")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that could not be taken: where it was, why, and all of it."""

    split: str
    offset: object
    reason: str
    payload: bytes


_SHAPE: Final[dict[str, pa.DataType]] = {
    "split": pa.string(),
    "offset": pa.string(),
    "reason": pa.string(),
    "payload": pa.binary(),
}
DEAD_LETTERS: Final = pa.schema(_SHAPE)
"""What dead letters are as rows; the offset is JSON, for each connector has its own."""


def dead_letter_rows(letters: Sequence[DeadLetter]) -> pa.RecordBatch:
    """Make rows of dead letters, to be kept where the others are."""
    rows = [
        {**asdict(letter), "offset": json.dumps(letter.offset, default=str)} for letter in letters
    ]
    return pa.RecordBatch.from_pylist(rows, schema=DEAD_LETTERS)


@dataclass(frozen=True, slots=True)
class Parsed:
    """``rows`` are the places in the raw batch of the rows of ``batch``."""

    batch: pa.RecordBatch
    rows: list[int]
    refused: list[Refused]


class Parser(Protocol):
    """Makes rows of messages; several threads use it at once."""

    def parse(self, raw: pa.RecordBatch) -> Parsed:
        """Give the rows, from which messages they are, and what was refused with its reason."""
        ...


class MessageParser:
    """Takes messages of one format apart into ``schema``.

    ``carry`` names columns of the raw batch, such as ``subject``, that come behind those of the
    schema. Fields of a JSON object that the schema does not name are left out; one that is missing
    is null, which a field that is not nullable refuses. ``on_error`` is ``"error"`` or
    ``"dead_letter"``.
    """

    def __init__(
        self,
        kind: str,
        schema: pa.Schema,
        *,
        carry: Sequence[str] = (),
        on_error: str = "error",
    ) -> None:
        """Check the description; raises ConfigError."""
        if kind not in FORMATS:
            raise ConfigError(f"{kind!r} is no format of messages", hint=", ".join(FORMATS))
        if on_error not in _POLICIES:
            raise ConfigError(f"on_error cannot be {on_error!r}", hint=" or ".join(_POLICIES))
        if kind == "bytes" and len(schema) != 1:
            raise ConfigError(
                f"a message of bytes makes one column, not {len(schema)}",
                hint="pa.schema([('payload', pa.binary())])",
            )
        names = [*schema.names, *carry]
        if len(set(names)) < len(names):
            raise ConfigError(f"a column comes twice: {', '.join(names)}")
        self._kind = kind
        self._schema = schema
        self._carry = list(carry)
        self._is_strict = on_error == "error"

    def parse(self, raw: pa.RecordBatch) -> Parsed:
        """Give the rows of a batch; with ``on_error="error"`` SourceError names the first bad one.

        The error is not retryable: the same message would come again.
        """
        missing = [name for name in [PAYLOAD, *self._carry] if name not in raw.schema.names]
        if missing:
            raise InputError(
                f"the messages have no column {missing[0]!r}",
                hint=f"they have {', '.join(raw.schema.names)}",
            )
        messages = [message or b"" for message in raw.column(PAYLOAD).to_pylist()]
        batch, refused = FORMATS[self._kind](messages, self._schema)
        if refused and self._is_strict:
            first = refused[0]
            which = f"{first.place + 1} of {len(messages)}"
            if _NUMBERED in raw.schema.names:
                which = f"{raw.column(_NUMBERED)[first.place]}"
            raise SourceError(
                f"message {which} cannot be taken: {first.reason}",
                hint='on_error="dead_letter" sets such messages aside',
            )
        away = {found.place for found in refused}
        rows = [index for index in range(len(messages)) if index not in away]
        if self._carry:
            kept = raw.select(self._carry)
            if refused:
                kept = rows_at(kept, rows)
            fields = [*self._schema, *kept.schema]
            batch = pa.RecordBatch.from_arrays(
                [*batch.columns, *kept.columns], schema=pa.schema(fields)
            )
        return Parsed(batch, rows, refused)
