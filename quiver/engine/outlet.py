"""Where the outcomes of a store's own subscribers go: to ack.log, with copies of what is lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quiver.acks import DROPPED_DAMAGED, Dropped, Record
from quiver.disk import copy_file
from quiver.engine import dead_letters
from quiver.engine.outcomes import append
from quiver.engine.readers import OpenedSegment
from quiver.engine.space import write_off_segment
from quiver.errors import DamageError
from quiver.subscriber import Claim

if TYPE_CHECKING:
    from quiver.engine.core import Core

__all__ = ["LogOutlet"]


class LogOutlet:
    """The way from a core's subscribers to its ack.log."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def append(self, records: Sequence[Record]) -> None:
        """Append to ack.log; durable with the next tick."""
        append(self._core, records)

    def write_off(self, claim: Claim, error: DamageError, *, opened: OpenedSegment | None) -> None:
        """Record as dropped what cannot be read, after it was copied to quarantine."""
        core, seq = self._core, claim.segment_seq
        is_known = opened is not None and claim.bundle_index in opened.reader.lost
        if seq not in core.damaged_segments and not is_known:
            # The original goes once all bundles are resolved.
            path = core.catalog.get(seq).path
            copy_file(core.disk, core.path("quarantine"), path, error=error)
            core.damaged_segments.add(seq)
            core.metrics.add("quiver.damage", label="segment")
            core.report.damage.append(error)
            place = core.disk.locate(path)
            core.events.warning("segment.damaged", segment_seq=seq, path=place, error=error)
        if opened is None:
            write_off_segment(core, seq, DROPPED_DAMAGED)
            return
        now = core.clock.wall_ns()
        record = Dropped(claim.subscriber_id, seq, claim.bundle_index, 1, now, DROPPED_DAMAGED)
        self.append([record])
        name = core.registry.name_of(claim.subscriber_id)
        core.registry.resolve(name, seq, claim.bundle_index)
        core.metrics.add("quiver.subscriber.dropped_bundles", label=name)

    def give_up(self, claim: Claim, outcome: int, *, opened: OpenedSegment, reason: str) -> None:
        """Set bundles aside as a dead letter, then write that they are given up."""
        record = dead_letters.write(self._core, claim, outcome, opened=opened, reason=reason)
        self.append([record])
