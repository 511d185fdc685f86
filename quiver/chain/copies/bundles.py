"""Whether entries that are whole hold bundles that can be read.

The head of a chain looks before it takes entries from a loader; nodes behind it rely on that. What
came all the same, from before that was so, costs a segment the payloads that cannot be read, and
not the block its segment.
"""

from __future__ import annotations

from collections.abc import Sequence

from quiver.chain.peers import decode_layout
from quiver.errors import DamagedEntry, DamageError
from quiver.ipc import decode_stream
from quiver.payload import EncodedBundle, Payload
from quiver.wal.format import Frame, decode_bundle

__all__ = ["BundleCheck"]


class BundleCheck:
    """Looks at the bundles of one block. Safe for many threads."""

    def __init__(self, layout: str) -> None:
        """Take its slot table as text; raises InputError."""
        self._slots = {slot.slot_id for slot in decode_layout(layout)}

    def check(self, frames: Sequence[Frame]) -> None:
        """Raise DamagedEntry unless all of these entries hold bundles of these slots.

        Nothing of them may be compressed: a segment holds what they decode to, and neither a node's
        capacity nor its memory knows of that.
        """
        for frame in frames:
            for payload in decode_bundle(frame).payloads:
                if fault := self._fault(payload, is_plain=True):
                    raise DamagedEntry(
                        f"entry {frame.wal_seq} is whole, and slot {payload.slot_id} of it holds "
                        f"no batch: {fault}",
                        offset=frame.offset,
                        hint="whoever made it writes no bundles",
                    )

    def sound(self, bundle: EncodedBundle) -> tuple[EncodedBundle, tuple[int, ...]]:
        """Give a bundle with the payloads that can be read, and the slots of the others."""
        lost = tuple(each.slot_id for each in bundle.payloads if self._fault(each))
        if not lost:
            return bundle, lost
        kept = tuple(each for each in bundle.payloads if each.slot_id not in lost)
        return bundle._replace(payloads=kept), lost

    def _fault(self, payload: Payload, *, is_plain: bool = False) -> str:
        if payload.slot_id not in self._slots:
            return "the partition has no such slot"
        try:
            decode_stream(payload.data, rows=payload.row_count, is_plain=is_plain)
        except DamageError as error:
            return str(error)
        return ""
