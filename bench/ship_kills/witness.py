"""Sees each state of the queue that goes by, and knows all entries that ever were in it."""

from __future__ import annotations

from typing import Final, NamedTuple

from quiver.errors import QuiverError
from quiver.ship.queue.manifest import Manifest, decode_manifest
from quiver.ship.shipper import decode_payload, is_payload

__all__ = ["Witness"]

_SEGMENT_TWICE: Final = "segment {} of core {} was appended twice, as entries {} and {}"


class _Seen(NamedTuple):
    location: str
    segments: tuple[tuple[str, int, int], ...]


class Witness:
    """Looks at manifests. Not for several threads at a time."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.repeats = 0
        """Entries that came again because nobody could tell that they had been there: their
        first one was consumed and gone when their sender looked for it."""
        self.entries: dict[int, _Seen] = {}
        self._places: dict[str, int] = {}
        self._segments: dict[tuple[str, int, int], int] = {}

    @property
    def locations(self) -> set[str]:
        """All batches that ever were in the queue."""
        return set(self._places)

    def see(self, data: bytes) -> None:
        """Look at a manifest that was read or written."""
        try:
            self._see(decode_manifest(data))
        except QuiverError as error:
            self._say(f"a manifest cannot be read: {error}")

    def _see(self, manifest: Manifest) -> None:
        numbers = set()
        for raw in manifest.raw_entries():
            entry = manifest.entry(raw)
            if entry.is_acked:
                continue
            numbers.add(entry.sequence)
            known = self.entries.get(entry.sequence)
            if known is not None:
                if known.location != entry.location:
                    self._say(f"entry {entry.sequence} was another one before")
                continue
            payloads = [item.payload for item in entry.items if is_payload(item.payload)]
            segments = [decode_payload(payload) for payload in payloads]
            keys = tuple((each.store_id, each.core, each.segment_seq) for each in segments)
            self.entries[entry.sequence] = _Seen(entry.location, keys)
            self._check(entry.sequence, self.entries[entry.sequence], numbers)

    def _check(self, sequence: int, seen: _Seen, numbers: set[int]) -> None:
        """Hold a new entry against all before, and those that are in the queue with it."""
        first = self._places.setdefault(seen.location, sequence)
        if first in numbers and first != sequence:
            self._say(f"{seen.location} is in the queue twice, as entries {first} and {sequence}")
        elif first != sequence:
            self.repeats += 1
        for key in seen.segments:
            first = self._segments.setdefault(key, sequence)
            if first != sequence:
                self._say(_SEGMENT_TWICE.format(key[2], key[1], first, sequence))

    def _say(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)
