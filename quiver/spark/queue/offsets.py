"""What a streaming query writes into its checkpoint of how far it is in a queue.

::

    {"connector":"quiver-queue","first":4,"queue":"s3://bucket/path",
     "seen":{"<store id>/core_0":7},"sequence":12,"slot":"logs","version":1}

``sequence`` is the number of the next entry, ``first`` that of the entry that the query began with:
of its first batch Spark keeps the end alone. ``seen`` has the highest segment of each core that was
before it: a segment that comes a second time, under another name perhaps, is at or below that and
is passed over. It is a part of the offset, so a batch that is done again passes over the same ones
whatever the queue has forgotten. Where records are read as they are, ``seen`` has digests of the
last locations, each with its entry. ``since``, if it is there, is the time before which bundles are
left out. Keys are sorted: Spark compares offsets as texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from quiver.errors import InputError, VersionError

__all__ = ["Marks", "Offset", "decode_offset", "encode_offset", "is_offset_of"]

Marks: TypeAlias = Mapping[str, int]
"""By core, ``<id of the store>/core_<number>``, the highest segment; by location, its entry."""

_CONNECTOR: Final = "quiver-queue"
_VERSION: Final = 1
_FIELDS: Final = {"connector", "first", "queue", "seen", "sequence", "slot", "version"}
_MARK: Final = re.compile(r"[0-9a-f]{32}(/core_(0|[1-9][0-9]{0,4}))?")
_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Offset:
    """One place in a queue."""

    sequence: int
    first: int
    seen: Marks = field(default_factory=dict)
    since_ns: int | None = None

    def to(self, sequence: int, seen: Marks) -> Offset:
        """Give the place that a batch ends with which begins here."""
        return Offset(sequence, self.first, seen, self.since_ns)

    def before(self, end: Offset) -> Offset:
        """Give the place where a batch began: this one, or that of the first batch of a query.

        When that is done again, Spark asks anew where it begins, and by then more may be there.
        """
        if self.sequence == self.first != end.first:
            return Offset(end.first, end.first, {}, end.since_ns)
        return self


def encode_offset(offset: Offset, *, queue: str, slot: str) -> dict[str, Any]:
    """Write an offset, whose keys are in order."""
    found: dict[str, Any] = {
        "connector": _CONNECTOR,
        "first": offset.first,
        "queue": queue,
        "seen": dict(sorted(offset.seen.items())),
        "sequence": offset.sequence,
    }
    if offset.since_ns is not None:
        found["since"] = offset.since_ns
    return {**found, "slot": slot, "version": _VERSION}


def decode_offset(value: Mapping[str, Any], *, queue: str, slot: str) -> Offset:
    """Read an offset back; InputError if it is none, or of another queue or slot."""
    version = value.get("version")
    if value.get("connector") == _CONNECTOR and isinstance(version, int) and version > _VERSION:
        raise VersionError(
            f"the checkpoint has offsets of version {version}, known is {_VERSION}",
            hint="it was written by a newer Quiver: use that",
        )
    seen, since = value.get("seen"), value.get("since")
    is_one = (
        set(value) | {"since"} == _FIELDS | {"since"}
        and value["connector"] == _CONNECTOR
        and version == _VERSION
        and _is_number(value["first"])
        and _is_number(value["sequence"])
        and isinstance(seen, Mapping)
        and all(_MARK.fullmatch(name) and _is_number(seq) for name, seq in seen.items())
        and (since is None or isinstance(since, int))
    )
    if not is_one:
        shown = json.dumps(value, default=str)[:_SHOWN]
        raise InputError(f"this is no offset of a queue: {shown}")
    if (value["queue"], value["slot"]) != (queue, slot):
        raise InputError(
            f"the checkpoint is of slot {value['slot']!r} of the queue {value['queue']}, and the "
            f"query reads {slot!r} of {queue}",
            hint="each query has a checkpoint of its own; begin anew with an empty folder",
        )
    return Offset(value["sequence"], value["first"], dict(seen or {}), since)


def is_offset_of(value: object, *, queue: str, slot: str) -> bool:
    """Whether this is an offset of that slot of that queue, of any version."""
    return (
        isinstance(value, Mapping)
        and value.get("connector") == _CONNECTOR
        and (value.get("queue"), value.get("slot")) == (queue, slot)
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
