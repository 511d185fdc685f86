"""The open segment: bundles in memory, as bytes, until they are a file; or recovered, in the log.

Full when one of three is true, and ``due`` says which:

===========  =============================================================================
``size``     the payloads have ``segment.target_size`` bytes
``age``      ``segment.max_open_duration`` has passed since the first bundle came
``streams``  ``segment.max_streams`` streams, or as many payloads as a file may have streams
===========  =============================================================================

The last one keeps any data writable: at worst each payload needs a stream of its own.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import numpy as np

from quiver.config import SegmentConfig
from quiver.errors import InputError
from quiver.payload import EncodedBundle, StoredBundle
from quiver.segment.format import BUNDLES_MAX, STREAMS_MAX
from quiver.slots import SLOTS_MAX
from quiver.stored_run import StoredRun

__all__ = ["Due", "OpenSegment", "check_bundle"]

Due: TypeAlias = Literal["size", "age", "streams"]

_FINGERPRINT_BYTES: Final = 32
_PAYLOADS_MAX: Final = STREAMS_MAX - SLOTS_MAX


class OpenSegment:
    """Bundles in the order of their appends. Not safe for several threads at once."""

    def __init__(self, config: SegmentConfig) -> None:
        """Start empty; it has no age before its first bundle."""
        self._config = config
        self._streams: set[tuple[int, bytes]] = set()
        self._payload_count = 0
        self.bundles: list[EncodedBundle | StoredBundle] = []
        self.stored_count = 0
        """How many of them were recovered and are in the log, not in memory."""
        self.payload_bytes = 0
        self.opened_ns: int | None = None
        self.wanted_ns: int | None = None
        """Since when somebody waits until it can be sealed, and no bundle came; mostly None."""

    def add(
        self, bundle: EncodedBundle, now_ns: int, *, stored: StoredBundle | None = None
    ) -> None:
        """Take a bundle at the monotonic time ``now_ns``; if it is ``stored``, only count it.

        Raises InputError if its slots are impossible.
        """
        check_bundle(bundle)
        self.bundles.append(bundle if stored is None else stored)
        self.stored_count += stored is not None
        self._payload_count += len(bundle.payloads)
        self.wanted_ns = None
        for payload in bundle.payloads:
            self.payload_bytes += len(payload.data)
            self._streams.add((payload.slot_id, payload.fingerprint))
        if self.opened_ns is None:
            self.opened_ns = now_ns

    def take_back(self, count: int) -> None:
        """Let the last ``count`` go again, which are in memory; their streams still count."""
        for bundle in self.bundles[len(self.bundles) - count :]:
            if isinstance(bundle, EncodedBundle):
                self.payload_bytes -= bundle.payload_bytes
                self._payload_count -= len(bundle.payloads)
        del self.bundles[len(self.bundles) - count :]
        if not self.bundles:
            self._streams.clear()
            self.opened_ns = None

    def add_run(self, run: StoredRun, now_ns: int) -> int:
        """Count stored bundles up to the first that makes it full, and say how many those are.

        All of them if it is full already: whoever wanted to write it could not.
        """
        streams = run.streams()
        taken = run.bundle_count if self.is_full else self._until_full(run, streams)
        part = run if taken == run.bundle_count else run.part(0, taken)
        self.bundles += part.bundles()
        self.stored_count += taken
        self._payload_count += int(part.payload_counts.sum())
        self.payload_bytes += int(part.payload_bytes.sum())
        self._streams.update(key for place, key in streams if place < taken)
        if self.opened_ns is None:
            self.opened_ns = now_ns
        return taken

    def _until_full(self, run: StoredRun, found: list[tuple[int, tuple[int, bytes]]]) -> int:
        """Say how many bundles of a run may join until it is full, the last one included."""
        config = self._config
        payload_bytes = np.cumsum(run.payload_bytes) + self.payload_bytes
        payload_counts = np.cumsum(run.payload_counts) + self._payload_count
        last = min(
            int(np.searchsorted(payload_bytes, config.target_size)),
            int(np.searchsorted(payload_counts, _PAYLOADS_MAX + 1)),
            BUNDLES_MAX - len(self.bundles) - 1,
        )
        streams = set(self._streams)
        for place, key in found:
            streams.add(key)
            if len(streams) >= config.max_streams:
                last = min(last, place)
                break
        return min(last + 1, run.bundle_count)

    def encoded(self) -> list[EncodedBundle]:
        """Give all bundles, to be written; InputError if there is none, or one is in the log only.

        They stay, so that a failed write can be tried again.
        """
        found = [bundle for bundle in self.bundles if isinstance(bundle, EncodedBundle)]
        if not found or self.stored_count:
            raise InputError(
                f"no segment can be written of {len(found)} bundles and {self.stored_count} that "
                "are in the log only",
                hint="append a bundle first, or fetch those",
            )
        return found

    def due(self, now_ns: int) -> Due | None:
        """Say why the segment should be written now; None while it may stay open."""
        if self.opened_ns is None:
            return None
        config = self._config
        if self.payload_bytes >= config.target_size or len(self.bundles) >= BUNDLES_MAX:
            return "size"
        if now_ns - self.opened_ns >= config.max_open_duration:
            return "age"
        if len(self._streams) >= config.max_streams or self._payload_count > _PAYLOADS_MAX:
            return "streams"
        return None

    @property
    def is_full(self) -> bool:
        """Whether it is due for another reason than its age."""
        config = self._config
        return (
            self.payload_bytes >= config.target_size
            or len(self._streams) >= config.max_streams
            or len(self.bundles) >= BUNDLES_MAX
            or self._payload_count > _PAYLOADS_MAX
        )

    @property
    def is_at_limit(self) -> bool:
        """Whether one more bundle might make it more than a file can hold."""
        return len(self.bundles) >= BUNDLES_MAX or self._payload_count > _PAYLOADS_MAX

    @property
    def bundle_count(self) -> int:
        """How many bundles it holds."""
        return len(self.bundles)

    @property
    def payload_count(self) -> int:
        """How many payloads its bundles have together."""
        return self._payload_count

    @property
    def stream_count(self) -> int:
        """How many different pairs of slot and fingerprint it holds."""
        return len(self._streams)


def check_bundle(bundle: EncodedBundle) -> None:
    """Raise InputError unless each payload is of another slot, below 64, with a fingerprint."""
    last = -1
    for payload in bundle.payloads:
        if not last < payload.slot_id < SLOTS_MAX:
            break
        if len(payload.fingerprint) != _FINGERPRINT_BYTES:
            break
        last = payload.slot_id
    else:
        return  # As good as always: in order of slots.
    slot_ids = {payload.slot_id for payload in bundle.payloads}
    if len(slot_ids) != len(bundle.payloads):
        raise InputError(f"bundle {bundle.wal_seq} fills a slot twice")
    if slot_ids and not 0 <= min(slot_ids) <= max(slot_ids) < SLOTS_MAX:
        raise InputError(f"bundle {bundle.wal_seq} fills a slot outside 0..{SLOTS_MAX - 1}")
    for payload in bundle.payloads:
        if len(payload.fingerprint) != _FINGERPRINT_BYTES:
            raise InputError(
                f"bundle {bundle.wal_seq}: a fingerprint has {len(payload.fingerprint)} bytes, "
                f"not {_FINGERPRINT_BYTES}"
            )
