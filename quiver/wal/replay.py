"""Read a log again after a stop of any kind: each bundle that no segment holds yet, in order.

The order of acts is: read everything, let the store put it where it belongs, and only then touch
the files (``finish``): cut what a crash left behind the last entry, and open the log for appends.
Damaged bytes are copied to quarantine first. All of it may be done again after another crash.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from quiver.config import WalConfig
from quiver.disk import TEMPORARY, Disk, File, copy_range
from quiver.errors import CapacityError, DamagedEntry, DamageError
from quiver.events import Events
from quiver.payload import SEQ_MAX, EncodedBundle, StoredBundle
from quiver.stored_run import StoredRun
from quiver.wal.begin import create_active
from quiver.wal.content import Content
from quiver.wal.files import generations, own_generation
from quiver.wal.format import (
    BUNDLE,
    BUNDLE_BYTES_MIN,
    CHECKPOINT,
    HEADER_BYTES,
    Frame,
    Place,
    decode_bundle,
    decode_header,
)
from quiver.wal.log import Log
from quiver.wal.names import ACTIVE_NAME, RotatedFile, rotated_name
from quiver.wal.reader import (
    BadRegion,
    Entry,
    Tail,
    begin_of,
    missing_bundles,
    sweep,
)
from quiver.wal.resume import Found, first_of_active, resume
from quiver.wal.reuse import is_reused
from quiver.wal.spares import is_spare
from quiver.wal.start import Start
from quiver.wal.striking import Struck, strike_out
from quiver.wal.truncate import SIDECAR_NAME, read_sidecar, set_sidecar_aside
from quiver.wal.writer import Writer

__all__ = ["Replay"]


class Replay:
    """One pass over the log. Iterate it to the end, then ``finish``.

    ``covered_seq`` is the highest sequence that segments hold (None: there are none); entries up
    to it are skipped. ``hint`` is the place that the newest segment covers. Places are believed
    only if the entry there shows that nothing before it can be missing from segments.

    With ``strict`` the first damage is raised, and nothing is changed because of it.
    ``skipped_note`` is told the note of each entry that is skipped, and its sequence.

    ``last_seq``, once the iteration is over, is the highest sequence that is used up: entries that
    are damaged beyond reading had one too. ``lost_seqs`` are the sequences, half-open, that nothing
    but damage at the end of the log may have had. ``hole_end`` is the number behind the last hole
    that was met so far: numbers that are neither in the log nor covered.
    """

    def __init__(
        self,
        disk: Disk,
        folder: str,
        *,
        digest: bytes,
        entry_bytes_max: int,
        covered_seq: int | None = None,
        hint: Place | None = None,
        quarantine: str,
        strict: bool = False,
        skipped_note: Callable[[int, bytes], object] | None = None,
    ) -> None:
        self.damage: list[DamageError] = []
        self.torn: DamageError | None = None
        self.skipped_bundles = 0
        self.done_bytes = 0
        self.lost_seqs = (0, 0)
        self.hole_end = 0
        self.last_seq = -1 if covered_seq is None else covered_seq
        self._disk = disk
        self._folder = folder
        self._digest = digest
        self._limit = entry_bytes_max
        self._covered = covered_seq
        self._quarantine = quarantine
        self._strict = strict
        self._skipped_note = skipped_note
        disk.make_dir(folder)
        # What a killed writer renamed is visible and perhaps not durable; appends will rely on it.
        disk.sync_dir(folder)
        self._remove_leftovers()
        sidecar, damage = read_sidecar(disk, folder)
        if damage is not None:
            self._report(damage)
        entries = disk.list_dir(folder)
        self._generations, self._active = generations(entries, sidecar, hint)
        if not self._generations and disk.stat(self._path(self._active)) is None:
            there_was_one = (sidecar, damage, hint, covered_seq) != (None, None, None, None)
            self._note_missing(there_was_one=there_was_one)
        self._settle()
        with self._opened(self._active) as file:
            self._own = None if file is None else own_generation(file)
        self._active = self._own or self._active
        files = (*self._generations, self._active)
        start = Start(files, self._opened, covered_seq, entry_bytes_max)
        self._start = start.find(sidecar, hint)
        self._tail: Tail | None = None
        self._retire_active = False
        self._ends: dict[int, int] = {}
        self._next_seq: int | None = self.last_seq + 1
        self._lost_seq = -1
        self._given: tuple[Place, Frame]
        self._struck: list[Struck] = []
        self._file: File
        self._generation = 0
        self._sidecar = sidecar
        self._sidecar_damage = damage

    def _settle(self) -> None:
        """Read from the disk alone: bytes whose sync failed would be believed durable here."""
        for generation in (*self._generations, self._active):
            if self._disk.stat(self._path(generation)) is not None:
                file = self._disk.open(self._path(generation))
                try:
                    file.settle()
                finally:
                    file.close()

    def _note_missing(self, *, there_was_one: bool) -> None:
        """Report a log that is gone, and leave its generation alone."""
        if there_was_one:
            path = self._disk.locate(self._path(self._active))
            hint = "bundles that were in no segment yet are gone with it"
            self._report(DamagedEntry("the log is missing", path=path, hint=hint))
            self._active += 1

    def _remove_leftovers(self) -> None:
        for name in [entry.name for entry in self._disk.list_dir(self._folder)]:
            if name in (ACTIVE_NAME + TEMPORARY, SIDECAR_NAME + TEMPORARY) or is_spare(name):
                self._disk.unlink(f"{self._folder}/{name}")

    def _path(self, generation: int) -> str:
        name = ACTIVE_NAME if generation == self._active else rotated_name(generation)
        return f"{self._folder}/{name}"

    @contextlib.contextmanager
    def _opened(self, generation: int) -> Iterator[File | None]:
        if self._disk.stat(self._path(generation)) is None:
            yield None
            return
        with contextlib.closing(self._disk.open(self._path(generation))) as file:
            yield file

    def __iter__(self) -> Iterator[tuple[EncodedBundle, Place]]:
        """Give each bundle above ``covered_seq`` with the place behind it.

        ``stored`` says where it is. What ``swept`` gives together is read again for that.
        """
        for found in self.swept():
            if not isinstance(found, StoredRun):
                yield found
                continue
            content = Content(self._file, self._limit, found.generation)
            for stored in found.bundles():
                try:
                    frame = content.frame(stored.offset)
                except DamageError as error:
                    raise error.at(self._disk.locate(self._file.path)) from error
                place = Place(stored.generation, stored.offset)
                self._given = place, frame
                end = stored.offset + frame.end - frame.offset
                yield decode_bundle(frame), place._replace(offset=end)

    def swept(self) -> Iterator[tuple[EncodedBundle, Place] | StoredRun]:
        """Give the same, and many bundles that stand in a row together, without their bytes."""
        covered = -1 if self._covered is None else self._covered
        for item in self._items():
            count = item.last_seq + 1 - item.first_seq
            skipped = min(max(covered + 1 - item.first_seq, 0), count)
            self.skipped_bundles += skipped
            if isinstance(item, StoredRun):
                if skipped < count:
                    yield item.part(skipped, count) if skipped else item
            elif not skipped:
                self._given = Place(self._generation, item.offset), item.frame
                yield decode_bundle(item.frame), Place(self._generation, item.end)
            elif item.frame.note is not None and self._skipped_note is not None:
                self._skipped_note(item.last_seq, bytes(item.frame.note))

    def _items(self) -> Iterator[Entry | StoredRun]:
        """Give the bundles of all files, covered or not, and keep count of sequences."""
        last_seq = -1
        for generation in (*self._generations, self._active):
            path = self._path(generation)
            if generation < self._start.generation or self._disk.stat(path) is None:
                continue
            file = self._file = self._disk.open(path)
            self._generation = generation
            try:
                self._check_header(file, generation)
                start = self._start.offset
                if generation != self._start.generation:
                    start = begin_of(file, generation, self._sidecar)
                before = self.done_bytes - start
                for item in self._walk(file, generation, start=start, last_seq=last_seq):
                    self.done_bytes = before + item.end
                    last_seq = item.last_seq
                    if item.first_seq == self._next_seq:
                        self.last_seq = last_seq
                        self._next_seq = last_seq + 1
                    else:
                        self._check_follows(file, item.offset, item.first_seq)
                        self._use_up(last_seq)
                    yield item
            finally:
                file.close()
        if self._lost_seq > self.last_seq:
            self.lost_seqs = (self.last_seq + 1, self._lost_seq + 1)
            self.last_seq = self._lost_seq

    @property
    def stored(self) -> StoredBundle:
        """Where the bundle is that was given last."""
        place, frame = self._given
        return StoredBundle(frame.wal_seq, *place, len(frame.body), frame.checksum)

    def where(self, place: Place) -> tuple[str, Place]:
        """Give the file of a place of the log, and the place."""
        return self._path(place.generation), place

    @property
    def total_bytes(self) -> int:
        """Bytes of the log that are to be read; ``done_bytes`` of them were, holes included."""
        total = 0
        for generation in (*self._generations, self._active):
            found = self._disk.stat(self._path(generation))
            if found is not None and generation >= self._start.generation:
                is_first = generation == self._start.generation
                total += found.size - (self._start.offset if is_first else HEADER_BYTES)
        return max(total, 0)

    def _check_follows(self, file: File, offset: int, wal_seq: int) -> None:
        """Report bundles that are nowhere although nothing is damaged where they should be."""
        if wal_seq > self.last_seq + 1 and (self._next_seq is not None or self._lost_seq >= 0):
            self.hole_end = wal_seq
        if self._next_seq is not None and wal_seq > self._next_seq:
            place = self._disk.locate(file.path)
            self._report(missing_bundles(place, offset, next_seq=self._next_seq, found=wal_seq))

    def strike(self) -> None:
        """Let ``finish`` take the bundle out of the log that was given last; its number is gone."""
        place, frame = self._given
        self._struck.append(Struck(place, place.offset + frame.end - frame.offset))

    def _use_up(self, wal_seq: int) -> None:
        self.last_seq = max(self.last_seq, wal_seq)
        self._next_seq = self.last_seq + 1
        self._lost_seq = -1

    def _report(self, error: DamageError) -> None:
        """Take note of damage, or refuse it if that is the policy."""
        if self._strict:
            raise error
        self.damage.append(error)

    def _check_header(self, file: File, generation: int) -> None:
        head = file.read(0, HEADER_BYTES)
        error = decode_header(head, self._digest)
        if error is not None:
            region = BadRegion(0, len(head), error)
            self._set_aside(file, generation, region)
        if generation == self._active:
            # Where a file was used before, and its beginning is gone, nobody knows for certain.
            lacks_own = is_reused(head) and self._own is None
            self._retire_active |= error is not None or lacks_own

    def _walk(
        self, file: File, generation: int, *, start: int, last_seq: int
    ) -> Iterator[Entry | StoredRun]:
        """Give the bundles of a file; whatever else is there is dealt with."""
        is_active = generation == self._active
        items = sweep(
            file,
            start,
            entry_bytes_max=self._limit,
            last_seq=last_seq,
            is_active=is_active,
            generation=generation,
        )
        for item in items:
            if isinstance(item, StoredRun):
                yield item
            elif isinstance(item, Entry):
                if self._is_bundle(file, item):
                    yield item
            elif isinstance(item, BadRegion):
                self._set_entries_aside(file, generation, item)
            elif not is_active:
                self._ends[generation] = item.offset
            else:
                self._tail = item
                if item.error is not None and not item.is_torn:
                    region = BadRegion(item.offset, item.end, item.error)
                    self._set_entries_aside(file, generation, region)
                    self._retire_active = True
                elif item.error is not None:
                    self.torn = item.error.at(self._disk.locate(file.path))

    def _is_bundle(self, file: File, item: Entry) -> bool:
        """Say whether an entry is a bundle; what another one tells is taken note of."""
        if item.damage is not None:
            self._report(item.damage.at(self._disk.locate(file.path)))
        if item.frame.entry_type == CHECKPOINT:
            self._check_follows(file, item.offset, item.frame.wal_seq + 1)
            self._use_up(item.frame.wal_seq)
        elif item.frame.entry_type != BUNDLE:
            self._next_seq = None  # Only a newer Quiver knows what it used up.
        return item.frame.entry_type == BUNDLE

    def _set_entries_aside(self, file: File, generation: int, region: BadRegion) -> None:
        """Set a region aside in which entries were; their sequences are never given out again."""
        self._set_aside(file, generation, region)
        most = max(1, (region.end - region.offset) // BUNDLE_BYTES_MIN)
        self._lost_seq = min(max(self.last_seq, self._lost_seq) + most, SEQ_MAX)
        self._next_seq = None

    def _set_aside(self, file: File, generation: int, region: BadRegion) -> None:
        """Copy a region to quarantine, if there is anything in it, and report it."""
        error = region.error.at(self._disk.locate(file.path))
        self._report(error)
        if region.end > region.offset:
            copy_range(
                self._disk,
                self._quarantine,
                f"wal-{generation}-{region.offset}.bin",
                file=file,
                offset=region.offset,
                end=region.end,
                error=error,
            )

    def finish(self, config: WalConfig, *, events: Events | None = None) -> Log:
        """Cut what was never finished, open the active file and give the log, ready to append."""
        self.damage += strike_out(
            self._disk, self._struck, self._path, quarantine=self._quarantine, truncated=self._start
        )
        if self._sidecar_damage is not None:
            # Without room for a copy it stays where it is; it harms nobody.
            with contextlib.suppress(CapacityError):
                set_sidecar_aside(
                    self._disk, self._folder, self._quarantine, error=self._sidecar_damage
                )
        rotated = []
        for generation in self._generations:
            found = self._disk.stat(self._path(generation))
            size = found.size if found else 0
            end = self._ends.get(generation, max(size, HEADER_BYTES))
            rotated.append(RotatedFile(generation, size, end))
        writer = self._open_active(rotated)
        return Log(
            self._disk,
            self._folder,
            digest=self._digest,
            config=config,
            writer=writer,
            rotated=rotated,
            truncated=self._start,
            last_seq=self.last_seq,
            first=first_of_active(self._disk, self._folder, self._limit),
            events=events or Events(),
        )

    def _open_active(self, rotated: list[RotatedFile]) -> Writer:
        if self._tail is None:
            return self._create_active(self._active)
        found = Found(self._active, self._own, self._tail, self._retire_active, self.last_seq)
        return resume(self._disk, self._folder, found, rotated=rotated, create=self._create_active)

    def _create_active(self, generation: int) -> Writer:
        return create_active(
            self._disk,
            self._folder,
            digest=self._digest,
            generation=generation,
            last_seq=self.last_seq,
            truncated=self._start,
        )
