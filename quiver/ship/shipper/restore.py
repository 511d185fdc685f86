"""``Restorer``: shipped segments of a queue become segments of a store again, each once.

::

    under sinks/_restore.lock                                   a crash before this step leaves
    1  a batch is fetched and checked                           nothing
    2  each of its segments is staged beside the cores          staged files, found as garbage
    3  for each core that shipped: a commit of what is staged   the same; it is staged again
    4  with ``consume``: dequeued                               entries that bring nothing new

A core that shipped is a sink of the store (``quiver.sink``), and the number of its last segment is
the number of the batch: so the commit that lets segments in writes down which, and who comes again
passes over what is in, from whatever queue, object or entry it comes.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Final

from quiver.clock import Clock, SystemClock
from quiver.config import Config
from quiver.disk import SEALED_MODE, Disk, lock_within, write_new
from quiver.engine import open as open_store
from quiver.engine.intake_journal import SINKS, read_done
from quiver.engine.numbers import STAGING
from quiver.errors import (
    DamagedEntry,
    DamageError,
    InputError,
    MissingError,
    QuiverError,
    VersionError,
)
from quiver.manifest import MANIFEST_NAME, StoreManifest
from quiver.segment import SegmentReader, open_bytes
from quiver.ship.batch import Entropy
from quiver.ship.consumer import Batch, Fetcher
from quiver.ship.consumer.identity import identity_of
from quiver.ship.queue import Queue
from quiver.ship.shipper.arriving import Arrival, arrivals
from quiver.ship.shipper.format import ShippedSegment, decode_payload, is_payload
from quiver.ship.shipper.restoring import (
    Arriving,
    Passed,
    Restored,
    RestoreOptions,
    RestoreTally,
    RestoreTold,
)
from quiver.sink import Job, Staged, abort, commit, settle_cores

__all__ = ["Restorer"]

_LOCK: Final = f"{SINKS}/_restore.lock"
"""No sink of a user begins like that."""
_LOCK_SECONDS: Final = 5.0
_JOB_BYTES: Final = 8


@dataclass(slots=True)
class _Group:
    """Segments of one core of one store that are staged and not in."""

    job: Job
    last: int
    files: list[str] = field(default_factory=list)
    bundle_count: int = 0
    row_count: int = 0
    byte_count: int = 0


class Restorer:
    """Restores one queue into one store. ``run`` is for one thread, ``stop`` for any."""

    def __init__(
        self,
        disk: Disk,
        queue: Queue,
        *,
        options: RestoreOptions | None = None,
        config: Config | None = None,
        clock: Clock | None = None,
        entropy: Entropy = secrets.token_bytes,
        watch: Callable[[RestoreTold], object] | None = None,
    ) -> None:
        """Restore into the store on ``disk``, which is made, if there is none, of the first one."""
        self.tally = RestoreTally()
        self._disk, self._queue = disk, queue
        self._options = options or RestoreOptions()
        self._config = config or Config()
        self._clock = clock or SystemClock()
        self._name = entropy(_JOB_BYTES).hex()
        self._watch = watch or (lambda _: None)
        self._stopping = False
        self._fetcher = Fetcher(queue.bucket, clock=self._clock)
        self._manifest: StoreManifest | None = None
        self._groups: dict[tuple[bytes, int], _Group] = {}
        self._done: dict[tuple[bytes, int], int] = {}
        self._file_count = 0
        self._epoch: int | None = None
        self._through: int | None = None

    def stop(self) -> None:
        """Take nothing more: ``run`` returns once all that was staged is in."""
        self._stopping = True

    def run(self) -> RestoreTally:
        """Restore all that waits in the queue now.

        When this returns it is in segments that survive a power cut; if it raises, each segment is
        in as a whole or not at all, and another run brings the others. Raises VersionError for
        another slot table, DamageError and MissingError where that is to block, InputError for the
        store's own segments, LockedError if another process restores into the store, FencedError,
        RemoteError, CapacityError.
        """
        with ExitStack() as stack:
            if self._disk.stat(MANIFEST_NAME) is not None:
                self._enter(stack)
            if self._options.consume:
                self._check_before_fencing()
                self._epoch = self._queue.start().epoch
            view = self._queue.read(epoch=self._epoch)
            stack.callback(self._take_back)
            found = arrivals(
                view,
                self._fetcher,
                fetches=self._options.fetches,
                memory_bytes=self._options.memory_bytes,
            )
            done_bytes, batch_bytes = 0, view.manifest.batch_bytes()
            with closing(found):
                for arrival in found:
                    if self._stopping:
                        self.tally.is_cut_short = True
                        break
                    self._watch(Arriving(done_bytes, max(batch_bytes, done_bytes)))
                    done_bytes += arrival.descriptor.byte_count or 0
                    try:
                        self._arrive(arrival, stack)
                    except (DamageError, InputError, MissingError, VersionError):
                        self._commit()  # All that came before is sound.
                        raise
            self._commit()
        return self.tally

    def _enter(self, stack: ExitStack) -> StoreManifest:
        """Keep other restores out of the store."""
        self._disk.make_dir(SINKS)
        stack.callback(lock_within(self._disk, _LOCK, _LOCK_SECONDS).release)
        settle_cores(self._disk)  # A run that was killed may have decided what no record has yet.
        self._manifest = StoreManifest.read(self._disk)
        return self._manifest

    def _check_before_fencing(self) -> None:
        """Refuse a queue that is not ours to consume, while nobody is fenced yet."""
        own = None if self._manifest is None else bytes.fromhex(self._manifest.store_id)
        for entry in self._queue.read().entries():
            if not entry.items:
                raise _foreign(entry.location)
            for place, item in enumerate(entry.items):
                if not is_payload(item.payload):
                    raise _foreign(f"{entry.location}#{place}")
                found = identity_of(item.payload)
                if found is not None and found.store_id == own:
                    raise self._is_own()

    def _arrive(self, arrival: Arrival, stack: ExitStack) -> None:
        """Stage the segments of one entry."""
        if arrival.batch is None:
            if not self._is_dequeued(arrival):
                self._pass(arrival, arrival.error)
        else:
            if self._epoch is not None and not arrival.batch.calls:
                raise _foreign(arrival.batch.location)
            for place in range(len(arrival.batch.calls)):
                try:
                    self._call(arrival.batch, place, stack)
                except DamageError as error:
                    self._pass(arrival, error)
        self._through = arrival.descriptor.sequence
        if sum(group.byte_count for group in self._groups.values()) >= self._options.commit_bytes:
            self._commit()

    def _is_dequeued(self, arrival: Arrival) -> bool:
        """Whether a consumer was done with an entry before its batch could be read."""
        if not isinstance(arrival.error, MissingError) or self._epoch is not None:
            return False
        sequence = arrival.descriptor.sequence
        first = next(self._queue.read().entries(sequence - 1, limit=1), None)
        if first is not None and first.sequence == sequence:
            return False
        self.tally.dequeued_batches += 1
        self._watch(Passed(sequence, arrival.descriptor.location, "it was dequeued meanwhile"))
        return True

    def _pass(self, arrival: Arrival, error: QuiverError | None) -> None:
        """Leave out what is missing or damaged, if that is allowed."""
        if error is None:
            return
        if self._options.damaged == "block":
            error.hint = error.hint or "to leave it out and go on: --damaged skip"
            raise error
        if self._epoch is not None:  # It is about to leave the queue.
            self._fetcher.set_aside(arrival.descriptor, error)
        self.tally.damaged_batches += 1
        descriptor = arrival.descriptor
        self._watch(Passed(descriptor.sequence, descriptor.location, str(error)))

    def _call(self, batch: Batch, place: int, stack: ExitStack) -> None:
        """Stage the segment of one call; others leave what they mean to others."""
        payload = batch.calls[place].metadata
        where = f"{batch.location}#{place}"
        if not is_payload(payload):
            if self._epoch is not None:
                raise _foreign(where)
            self.tally.foreign_calls += 1
            return
        segment = decode_payload(payload)
        records = batch.of_call(place)
        if len(records) != 1:
            raise DamagedEntry(
                "a shipped segment is one record", path=where, expected=1, found=len(records)
            )
        with open_bytes(records[0], place=where, lazy=True) as reader:
            _check_same(segment, reader, where)
            manifest = self._manifest or self._make(reader, stack)
            self._check_fits(segment, reader, manifest)
            if self._is_in(segment):
                self.tally.repeated_segments += 1
            else:
                _check_sound(reader, where)
                self._stage(segment, reader)

    def _make(self, reader: SegmentReader, stack: ExitStack) -> StoreManifest:
        """Make the store, with the slots that the first segment has."""
        open_store(
            self._disk.locate(""),
            slots=reader.slots,
            config=self._config,
            core=0,
            clock=self._clock,
            disk=self._disk,
            worker=False,
        ).close()
        return self._enter(stack)

    def _check_fits(
        self, segment: ShippedSegment, reader: SegmentReader, manifest: StoreManifest
    ) -> None:
        if segment.store_id == manifest.store_id:
            raise self._is_own()
        if reader.slots is not None:
            manifest.check_slots(reader.slots)

    def _is_own(self) -> InputError:
        return InputError(
            f"the queue has segments of this very store, {self._disk.locate('')}",
            hint="restore into another folder: what is here would be there twice",
        )

    def _is_in(self, segment: ShippedSegment) -> bool:
        """Whether the store has had a segment, or has it staged."""
        source = segment.source
        group = self._groups.get(source)
        if group is not None and segment.segment_seq <= group.last:
            return True
        if source not in self._done:
            done = read_done(self._disk, _sink(segment))
            self._done[source] = -1 if done is None else done.batch_id
        return segment.segment_seq <= self._done[source]

    def _stage(self, segment: ShippedSegment, reader: SegmentReader) -> None:
        self._disk.make_dir(STAGING)
        self._disk.sync_dir("")
        job = Job(self._name, _sink(segment), segment.segment_seq)
        group = self._groups.setdefault(segment.source, _Group(job, segment.segment_seq))
        name = f"{STAGING}/{job.prefix}{self._file_count}.0.qseg"
        self._file_count += 1
        group.files.append(name)  # Before it is there: a failure is taken back too.
        data = reader.mapped or memoryview(b"")
        group.byte_count += write_new(self._disk, name, [data], mode=SEALED_MODE)
        group.job, group.last = job, segment.segment_seq
        group.bundle_count += reader.bundle_count
        group.row_count += sum(stream.row_count for stream in reader.streams)

    def _commit(self) -> None:
        """Let in what is staged, core by core, and then dequeue what brought it."""
        while self._groups:
            source = next(iter(self._groups))
            group = self._groups[source]
            part = Staged(
                group.job,
                tuple(group.files),
                group.bundle_count,
                group.row_count,
                group.byte_count,
            )
            done = commit(self._disk, group.job, [part], config=self._config, clock=self._clock)
            del self._groups[source]
            self._done[source] = group.last
            told = Restored(
                source[0].hex(),
                source[1],
                group.last,
                done.core,
                len(group.files),
                group.bundle_count,
                group.row_count,
                group.byte_count,
            )
            self.tally.add(told)
            self._watch(told)
        if self._epoch is not None and self._through is not None:
            self.tally.dequeued_entries += self._queue.dequeue(self._through, epoch=self._epoch)

    def _take_back(self) -> None:
        """Forget what is staged and not in: another run stages it again."""
        groups, self._groups = self._groups, {}
        self._done.clear()  # A commit that failed may be in all the same.
        self._through = None
        for group in groups.values():
            part = Staged(group.job, tuple(group.files), 0, 0, 0)
            abort(self._disk, None, [part])


def _sink(segment: ShippedSegment) -> str:
    return f"shipped-{segment.store_id}-{segment.core}"


def _foreign(where: str) -> InputError:
    return InputError(
        f"{where} holds no segment of a store, and would leave the queue unread",
        hint="restore without --consume; something else reads this queue",
    )


def _check_sound(reader: SegmentReader, where: str) -> None:
    """Find damage while it is still known which entry it came with; a commit finds it for all."""
    try:
        reader.verify()
    except DamageError as error:
        raise error.at(where) from None


def _check_same(segment: ShippedSegment, reader: SegmentReader, where: str) -> None:
    """Hold a record against its payload."""
    extra, about = reader.footer.extension, reader.about
    found = (
        about.store_id,
        about.core,
        None if extra is None else extra.segment_seq,
        reader.bundle_count,
    )
    expected = (segment.store_id, segment.core, segment.segment_seq, segment.bundle_count)
    if found != expected:
        raise DamagedEntry(
            "a record is not the segment that its payload names",
            path=where,
            expected=expected,
            found=found,
        )
