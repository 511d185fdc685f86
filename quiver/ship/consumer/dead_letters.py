"""What could not be delivered: one JSON object for each, and beside it the bytes as they were.

::

    dead/00000000000000000007-1c291ca3.json      what the entry said, and what was wrong
    dead/00000000000000000007-1c291ca3.object    the damaged object; absent if it was missing

The eight digits are the CRC32C of the location, for a queue that began afresh gives its sequences
again. Both are there before the entry is passed over, and nobody deletes them but you.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from crc32c import crc32c

from quiver.disk import Bytes
from quiver.errors import DamagedEntry
from quiver.ship.consumer.values import Descriptor
from quiver.ship.objects import Bucket, Conflict

__all__ = ["FOLDER", "DeadLetter", "DeadLetters"]

FOLDER: Final = "dead/"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One entry that was passed over."""

    key: str
    sequence: int
    location: str
    kind: str
    """Name of the error's class."""
    error: str
    time_ms: int
    evidence: str | None
    """Key of the bytes; None if there were none."""


class DeadLetters:
    """The dead letters of one queue."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def add(
        self, descriptor: Descriptor, error: Exception, *, time_ms: int, data: Bytes | None
    ) -> str:
        """Keep one for good, and give its key; one that is there already is left as it is."""
        name = f"{FOLDER}{descriptor.sequence:020d}-{crc32c(descriptor.location.encode()):08x}"
        evidence = None if data is None else f"{name}.object"
        if evidence is not None and data is not None:
            self._put(evidence, data)
        text = json.dumps(
            {
                "version": _VERSION,
                "sequence": descriptor.sequence,
                "location": descriptor.location,
                "calls": [
                    {
                        "start": call.start,
                        "ingestion_time_ms": call.ingestion_time_ms,
                        "metadata_base64": base64.b64encode(call.metadata).decode(),
                    }
                    for call in descriptor.calls
                ],
                "byte_count": descriptor.byte_count,
                "crc32c": descriptor.crc32c,
                "kind": type(error).__name__,
                "error": str(error),
                "time_ms": time_ms,
                "evidence": evidence,
            },
            indent=1,
        )
        key = f"{name}.json"
        self._put(key, text.encode())
        return key

    def _put(self, key: str, data: Bytes) -> None:
        try:
            self._bucket.put_if(key, data, None)
        except Conflict:
            self._bucket.get(key)  # It is there: from before, or from a try without an answer.

    def list(self) -> Iterator[DeadLetter]:
        """Go through all of them, in the order of their sequences."""
        keys = [each.key for each in self._bucket.list(FOLDER) if each.key.endswith(".json")]
        for key in sorted(keys):
            yield self.read(key)

    def read(self, key: str) -> DeadLetter:
        """Read one; raises MissingError, DamagedEntry."""
        try:
            found: dict[str, Any] = json.loads(bytes(self._bucket.get(key).data))
            return DeadLetter(
                key=key,
                sequence=int(found["sequence"]),
                location=str(found["location"]),
                kind=str(found["kind"]),
                error=str(found["error"]),
                time_ms=int(found["time_ms"]),
                evidence=found["evidence"],
            )
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedEntry("a dead letter cannot be read", path=key) from error
