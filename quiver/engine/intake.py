"""Take segments in that were built elsewhere, all of them or none, as the next ones of a core.

Small ones become one, so that a hundred tasks with a few rows each do not leave a hundred files;
others keep their streams as they are and get new tables, which costs no more than a copy. The
ingestion time is that of the intake: nobody could see the bundles before.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from quiver.bundle import fingerprint
from quiver.config import LimitsConfig
from quiver.engine.core import Core
from quiver.engine.dropping import drop_open
from quiver.engine.fold import try_fold
from quiver.engine.intake_journal import (
    TAKEN,
    Done,
    Intake,
    decide,
    is_decided,
    settle_intake,
    taken_name,
)
from quiver.engine.sealed import finalize
from quiver.engine.space import make_room
from quiver.engine.timekeeping import begin_intake, intake_ns
from quiver.errors import InputError, QuiverError
from quiver.ipc import encode_stream
from quiver.payload import EncodedBundle, Payload
from quiver.segment import (
    OpenSegment,
    SegmentInfo,
    SegmentLabel,
    SegmentReader,
    read_info,
    write_relabelled,
    write_segment,
)

__all__ = ["take_in"]

_SMALL_PART = 2
"""Whoever is below the target of a segment by this factor is joined with its neighbours."""


def take_in(core: Core, staged: Sequence[str], *, sink: str = "", batch_id: int = 0) -> Done:
    """Take segment files in, in this order, and note for the sink that this batch is in.

    For a core that was just opened and is shut next, with its lock held. When this returns all
    bundles are in segments that survive a power cut, and the files are gone. If it raises, either
    nothing was taken in, or the next opening of the core ends it; the journal of the core tells.
    Raises CapacityError if there is no room, DamageError for a file that is not sound, and
    InputError for one whose slots were migrated since.
    """
    core.check()
    finalize(core)  # What is in the log has lower numbers, and a segment must hold them first.
    found = [read_info(core.disk, path) for path in staged]
    core.check_numbers(sum(info.bundle_count for info in found))
    incoming = _incoming_bytes(core, sum(info.file_bytes for info in found))
    make_room(core, incoming, fold=try_fold, finalize=finalize, drop_open=drop_open)
    begin_intake(core)
    taking = _Taking(core, core.next_segment_seq, core.next_wal_seq, intake_ns(core))
    try:
        with core.whole():
            taking.write(found)
            seqs = tuple(info.segment_seq for info in taking.infos)
            intake = Intake(sink, batch_id, seqs, taking.row_count, tuple(staged))
            decide(core.disk, core.number, intake)
            core.report.damage += settle_intake(core.disk, core.number)
    except QuiverError as error:
        if not _undone(core):
            core.fault = core.fault or error  # Only the next opening can tell how far it came.
        raise
    _register(core, taking)
    return Done(sink, batch_id, core.number, seqs, taking.row_count)


def _incoming_bytes(core: Core, byte_count: int) -> int:
    """Say for how large an append there is as much room wanted as for copies of so many bytes.

    An append takes what is beyond the reserve twice; what is staged counts already, as long as it
    is there.
    """
    target = 0 if core.reserve is None else core.reserve.target_bytes
    return min(byte_count, (byte_count + target) // 2)


def _undone(core: Core) -> bool:
    """Remove the copies if nothing was decided, for they take room; whether it is so."""
    with suppress(QuiverError):
        if not is_decided(core.disk, core.number):
            settle_intake(core.disk, core.number)
            return True
    return False


def _register(core: Core, taking: _Taking) -> None:
    """Make the new segments part of the open core."""
    for info in taking.infos:
        core.catalog.add(replace(info, path=info.path.removesuffix(TAKEN)))
        core.registry.add_segment(info.segment_seq, info.bundle_count)
        core.events.info(
            "segment.finalized",
            segment_seq=info.segment_seq,
            bundle_count=info.bundle_count,
            file_bytes=info.file_bytes,
        )
    core.next_segment_seq = taking.segment_seq
    core.next_wal_seq = taking.wal_seq
    core.covered_wal_seq = taking.wal_seq - 1
    core.covered_end = core.log.end
    core.announce()


@dataclass(slots=True)
class _Taking:
    """Copies in the making; the numbers are those of the next one."""

    core: Core
    segment_seq: int
    wal_seq: int
    ingestion_ns: int
    infos: list[SegmentInfo] = field(default_factory=list)
    row_count: int = 0

    def write(self, found: Sequence[SegmentInfo]) -> None:
        """Write a copy of each file, and of small neighbours one for all."""
        small: list[SegmentInfo] = []
        for info in found:
            if info.file_bytes * _SMALL_PART < self.core.config.segment.target_size:
                small.append(info)
                continue
            self._join(small)
            small = []
            self._relabel(info)
        self._join(small)

    def _join(self, small: Sequence[SegmentInfo]) -> None:
        if len(small) == 1:
            self._relabel(small[0])
            return
        gathered = OpenSegment(self.core.config.segment)
        for info in small:
            with SegmentReader.open(self.core.disk, info.path, limits=self._limits) as reader:
                self._check_slots(reader)
                reader.verify()
                for index in range(reader.bundle_count):
                    gathered.add(self._bundle(reader, index, gathered.bundle_count), 0)
                    if gathered.is_full:
                        self._write(gathered)
                        gathered = OpenSegment(self.core.config.segment)
        if gathered.bundle_count:
            self._write(gathered)

    def _check_slots(self, reader: SegmentReader) -> None:
        """Refuse a file whose slots were changed since: an id may be that of another slot."""
        for slot_id in sorted({stream.slot_id for stream in reader.streams}):
            now, then = self.core.manifest.slots[slot_id], reader.slots and reader.slots[slot_id]
            if then and (then.name, then.payload_type_id) != (now.name, now.payload_type_id):
                raise InputError(
                    f"this was staged for slot {then.name!r}, which was migrated since",
                    hint="repeat the job; nothing of it was taken in",
                )

    def _bundle(self, reader: SegmentReader, index: int, place: int) -> EncodedBundle:
        """Encode a bundle as an append does; its fingerprint is that of what was appended."""
        slots = self.core.manifest.slots
        payloads = []
        for slot_id, batch in reader.bundle(index).items():
            data = memoryview(encode_stream(batch))
            kind = slots[slot_id].payload_type_id
            payloads.append(Payload(slot_id, kind, fingerprint(batch.schema), batch.num_rows, data))
        return EncodedBundle(self.wal_seq + place, self.ingestion_ns, tuple(payloads))

    def _write(self, gathered: OpenSegment) -> None:
        bundles = gathered.encoded()
        self._note(
            write_segment(
                self.core.disk,
                self.core.path("segments"),
                bundles,
                label=self._label(),
                config=self.core.config.segment,
                trusted=True,
                name=taken_name(self.segment_seq),
            ),
            sum(payload.row_count for bundle in bundles for payload in bundle.payloads),
        )

    def _relabel(self, info: SegmentInfo) -> None:
        core = self.core
        path = core.path("segments", taken_name(self.segment_seq))
        with SegmentReader.open(core.disk, info.path, limits=self._limits, lazy=True) as reader:
            self._check_slots(reader)
            row_count = sum(stream.row_count for stream in reader.streams)
        written = write_relabelled(
            core.disk,
            info.path,
            path,
            label=self._label(),
            wal_seq_first=self.wal_seq,
            ingestion_ns=self.ingestion_ns,
            limits=self._limits,
        )
        self._note(written, row_count)

    def _note(self, info: SegmentInfo, row_count: int) -> None:
        self.infos.append(info)
        self.row_count += row_count
        self.segment_seq += 1
        self.wal_seq += info.bundle_count
        if self.core.times.rule != "clock":
            self.core.times.took(self.ingestion_ns)
            self.ingestion_ns = intake_ns(self.core)

    def _label(self) -> SegmentLabel:
        core, end = self.core, self.core.log.end
        return SegmentLabel(
            segment_seq=self.segment_seq,
            store_id=core.manifest.store_id,
            core=core.number,
            slots=core.manifest.slots,
            wal_generation=end.generation,
            wal_offset=end.offset,
        )

    @property
    def _limits(self) -> LimitsConfig:
        return self.core.config.limits.for_reading()
