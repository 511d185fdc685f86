"""Set aside what a subscriber gives up: a segment that anybody can read, and beside it the reason.

::

    core_0/dead_letters/<subscriber id>/<segment_seq>.<first>+<count>.qseg
    core_0/dead_letters/<subscriber id>/<segment_seq>.<first>+<count>.qseg.json

Both are durable before ack.log says that the bundles are given up; a crash in between writes them
once more. Nothing ever deletes them but their owner.
"""

from __future__ import annotations

import json
import posixpath
from datetime import UTC, datetime
from typing import Any, Final

from quiver.acks import DEAD_ATTEMPTS, DEAD_REJECTED, DeadLetter
from quiver.bundle import fingerprint
from quiver.disk import FILE_MODE, write_new
from quiver.engine.core import Core
from quiver.engine.readers import OpenedSegment
from quiver.engine.space import refuse_aside
from quiver.ipc import encode_stream
from quiver.payload import EncodedBundle, Payload
from quiver.segment import SegmentLabel, write_segment
from quiver.subscriber import Claim
from quiver.units import SECOND

__all__ = ["FOLDER", "write"]

FOLDER: Final = "dead_letters"
_OUTCOMES: Final = {DEAD_REJECTED: "rejected", DEAD_ATTEMPTS: "too many attempts"}
_REASON_MAX: Final = 1000
_REASON_BYTES: Final = 4 << 10
_TABLES_BYTES: Final = 12 << 10
"""About what a small one takes beside its payloads, the reason included."""


def write(
    core: Core, claim: Claim, outcome: int, *, opened: OpenedSegment, reason: str
) -> DeadLetter:
    """Write the bundles of a claim and why they are given up; give the record of it.

    When this returns both files survive a power cut. Raises CapacityError, before anything is
    written, if the cap has no room for them.
    """
    bundles = [
        _encoded(core, opened, index)
        for index in range(claim.bundle_index, claim.bundle_index + claim.count)
    ]
    refuse_aside(core, sum(bundle.payload_bytes for bundle in bundles) + _TABLES_BYTES)
    folder = core.path(FOLDER, str(claim.subscriber_id))
    _make_folder(core, folder)
    name = f"{claim.segment_seq:016x}.{claim.bundle_index}+{claim.count}.qseg"
    label = SegmentLabel(
        segment_seq=claim.segment_seq,
        store_id=core.manifest.store_id,
        core=core.number,
        slots=core.manifest.slots,
        wal_generation=0,
        wal_offset=0,
    )
    config = core.config.segment
    info = write_segment(core.disk, folder, bundles, label=label, config=config, name=name)
    now = core.clock.wall_ns()
    about = _about(core, claim, outcome, reason=reason)
    about["at"] = datetime.fromtimestamp(now / SECOND, UTC).isoformat()
    about["wal_seqs"] = [bundle.wal_seq for bundle in bundles]
    text = json.dumps(about, indent=2) + "\n"
    write_new(core.disk, posixpath.join(folder, f"{name}.json"), [text.encode()], mode=FILE_MODE)
    core.aside_bytes += info.allocated_bytes + _REASON_BYTES  # The next tick measures them.
    return DeadLetter(claim.subscriber_id, *claim.run, now, claim.attempt, outcome)


def _about(core: Core, claim: Claim, outcome: int, *, reason: str) -> dict[str, Any]:
    return {
        "subscriber": core.registry.name_of(claim.subscriber_id),
        "core": core.number,
        "segment_seq": claim.segment_seq,
        "bundle_first": claim.bundle_index,
        "bundle_count": claim.count,
        "attempts": claim.attempt,
        "outcome": _OUTCOMES[outcome],
        "reason": reason[:_REASON_MAX],
    }


def _encoded(core: Core, opened: OpenedSegment, index: int) -> EncodedBundle:
    """Encode a stored bundle as it was; the limits for appends are no matter here."""
    slots = core.manifest.slots
    payloads = [
        Payload(
            slot_id=slot_id,
            payload_type_id=slots[slot_id].payload_type_id,
            fingerprint=fingerprint(batch.schema),
            row_count=batch.num_rows,
            data=memoryview(encode_stream(batch)),
        )
        for slot_id, batch in opened.bundle(index).items()
    ]
    entry = opened.reader.bundle_entry(index)
    return EncodedBundle(entry.wal_seq or 0, entry.ingestion_ns or 0, tuple(payloads))


def _make_folder(core: Core, folder: str) -> None:
    above = posixpath.dirname(folder)
    for each in (above, folder):
        core.disk.make_dir(each)
        core.disk.sync_dir(posixpath.dirname(each))
