"""A segment in the making whose payloads are kept as they came: what ``builder`` is to united ones.

Bundles go in some at a time, and what is found of them then - what is put around each payload, and
all checksums - is neither to be found nor waited for when the segment is due.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from quiver.config import SegmentConfig
from quiver.ipc import decode_own_streams
from quiver.payload import EncodedBundle
from quiver.segment.builder import BuiltStreams, SegmentBuilder, refuse_unsound
from quiver.segment.gather import Key, gather
from quiver.segment.kept import KeptPayloads
from quiver.segment.rest import Rest, no_rest
from quiver.segment.small import unite_small
from quiver.segment.stream import Chunks, FinishedStreams
from quiver.slots import SlotTable

__all__ = ["KEPT_BYTES_MIN", "Keeper"]

KEPT_BYTES_MIN: Final = 4096
"""Smaller payloads are united: what is put around each would be half of it."""


class Keeper:
    """Gathers payloads of bundles. Not safe for several threads at once.

    Payloads are ``trusted`` if this process encoded or checked them; others are validated first.
    """

    def __init__(self, config: SegmentConfig, *, trusted: bool, rest: Rest = no_rest) -> None:
        """Start without a bundle."""
        self.bundles: list[EncodedBundle] = []
        self.sound = True
        """Whether it holds all of ``bundles`` and no more: not after an ``add`` that failed."""
        self._config = config
        self._trusted = trusted
        self._rest = rest
        self._groups: dict[Key, KeptPayloads] = {}

    def add(self, bundles: Sequence[EncodedBundle], slots: SlotTable) -> None:
        """Take bundles in, as ``SegmentBuilder.add`` does, and raise what that raises."""
        refuse_unsound(self)
        self.sound = False
        gathered = gather(bundles, len(self.bundles), trusted=self._trusted, rest=self._rest)
        for key, members in gathered.items():
            group = self._groups.get(key)
            if group is None:
                schema = pa.ipc.read_schema(pa.py_buffer(members.payloads[0]))
                group = KeptPayloads(schema, slots[key[0]].event_time, self._rest)
                self._groups[key] = group
            group.add(members)
        self.bundles += bundles
        self.sound = True

    def sum_up(self) -> None:
        """Do all that can be done for what is in, so that nobody must who writes the segment."""
        for group in self._groups.values():
            if not _is_small(group):
                group.prepare()

    def finish(self) -> list[BuiltStreams]:
        """Give the streams of all bundles, with each payload as it came unless it is small.

        May be called again.
        """
        built = []
        others = SegmentBuilder(self._config, trusted=True)
        for key, group in self._groups.items():
            self._rest()
            kept = self._united(group) if _is_small(group) else group.finish()
            if kept is None:
                others.take(key, group.members, group.event_column)
            else:
                built.append(BuiltStreams(key[0], key[1], group.schema, kept))
        return [*built, *others.finish()]

    def _united(self, group: KeptPayloads) -> FinishedStreams | None:
        """Unite small payloads in little time; None if that cannot be."""
        bundles, payloads, _ = group.members
        chunks = Chunks(bundles, decode_own_streams(payloads), payloads)
        return unite_small(group.schema, chunks, group.event_column, config=self._config)


def _is_small(group: KeptPayloads) -> bool:
    return group.byte_count < KEPT_BYTES_MIN * len(group.members.payloads)
