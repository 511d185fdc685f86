"""What a streaming query writes into its checkpoint of how far it is in a collection.

::

    {"collection":"<id>","connector":"quiver-view","epoch":12,"first":4,"state":true,"version":1}

``epoch`` is the next one to be read: all before it was. ``first`` is the one that the query began
with, and ``state`` whether it was given the whole state as of then: of its first batch Spark keeps
the end alone, and a batch that is done again must begin where it began. Keys are sorted, for Spark
compares offsets as texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from quiver.errors import InputError, VersionError

__all__ = ["Offset", "decode_offset", "encode_offset"]

_CONNECTOR: Final = "quiver-view"
_VERSION: Final = 1
_FIELDS: Final = {"collection", "connector", "epoch", "first", "state", "version"}
_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Offset:
    """One place in a collection."""

    epoch: int
    first: int
    state: bool

    @property
    def wants_state(self) -> bool:
        """Whether what follows is the state as of ``epoch``, and not the changes of that."""
        return self.state and self.epoch == self.first

    def to(self, epoch: int) -> Offset:
        """Give the place that a batch ends with which begins here."""
        return replace(self, epoch=epoch)

    def before(self, end: Offset) -> Offset:
        """Give the place where a batch began: this one, or that of the first batch of a query.

        When that is done again Spark asks anew where it begins, and by then more is there.
        """
        return replace(end, epoch=end.first) if self.epoch == self.first else self


def encode_offset(offset: Offset, *, collection: str) -> dict[str, Any]:
    """Write an offset, whose keys are in order."""
    return {
        "collection": collection,
        "connector": _CONNECTOR,
        "epoch": offset.epoch,
        "first": offset.first,
        "state": offset.state,
        "version": _VERSION,
    }


def decode_offset(value: Mapping[str, Any], *, collection: str, place: str) -> Offset:
    """Read an offset back; InputError if it is none, or of another collection than at ``place``."""
    version = value.get("version")
    if value.get("connector") == _CONNECTOR and isinstance(version, int) and version > _VERSION:
        raise VersionError(
            f"the checkpoint has offsets of version {version}, known is {_VERSION}",
            hint="it was written by a newer Quiver: use that",
        )
    is_one = (
        set(value) == _FIELDS
        and value["connector"] == _CONNECTOR
        and version == _VERSION
        and isinstance(value["state"], bool)
        and _is_number(value["epoch"])
        and _is_number(value["first"])
        and value["first"] <= value["epoch"]
    )
    if not is_one:
        shown = json.dumps(value, default=str)[:_SHOWN]
        raise InputError(f"this is no offset of a collection: {shown}")
    if value["collection"] != collection:
        raise InputError(
            f"the checkpoint is of the collection {value['collection']!r:.80}, and at {place} is "
            f"{collection}",
            hint="each query has a checkpoint of its own; begin anew with an empty folder",
        )
    return Offset(value["epoch"], value["first"], value["state"])


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
