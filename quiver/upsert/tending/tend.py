"""A collection tended by its writer: runs folded and merged, epochs forgotten, files deleted.

Each act first writes its file, which nobody names, and then changes the manifest once. Wherever
that ends, the collection reads as before: what is left over is a file that nobody names.

An object is deleted only when the manifest does not name it any more, or never did; no name comes
twice. A writer that was fenced may therefore still delete what it had chosen, and harms nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

from quiver.clock import Clock, SystemClock
from quiver.errors import DamagedEntry
from quiver.ship.objects import Bucket
from quiver.units import MILLISECOND, parse_duration
from quiver.upsert.persist import Dropped, FileRef, Manifest, Snapshot, Writer
from quiver.upsert.persist.format import Kind
from quiver.upsert.tending.acts import perform
from quiver.upsert.tending.garbage import (
    FOLDERS,
    Moment,
    expired,
    named_by,
    orphans,
    restamped,
)
from quiver.upsert.tending.rules import (
    Act,
    Limits,
    chosen,
    due,
    forgotten,
    is_forgetting_due,
    since_for,
)

__all__ = [
    "GRACE",
    "MARKER",
    "SWEEP_INTERVAL",
    "Hands",
    "Swept",
    "Tended",
    "Tender",
    "sweep",
    "tend",
]

GRACE: Final = "10m"
"""How long a dropped file can be read by who read the manifest before, unless told otherwise."""
SWEEP_INTERVAL: Final = "1h"
"""Time between two looks for files that nobody ever named."""
MARKER: Final = "tending"
"""An object that is put to learn what time it is by the clock of the store."""

Hands: TypeAlias = Callable[[Snapshot, Sequence[Act]], Iterable[FileRef]]
"""Has acts done that were due in a snapshot, elsewhere perhaps; gives a file for each, in order."""

FAILED_MAX: Final = 1_000
"""So many files that could not be deleted are tried again each time; others are left to sweeps."""
_TOGETHER_BYTES: Final = 64 << 20
"""So many bytes are written before the manifest names what was written."""


@dataclass(frozen=True, slots=True)
class Tended:
    """What was done; without doing it, what would be."""

    folded: int
    """Buckets that have a new base."""
    merged: int
    """Runs that were made of several."""
    rows: int
    """Rows that were read for both, which bounds what was written."""
    left: int
    """Acts that are due and were left for the next time."""
    since: int
    """The first epoch that can be read."""
    dropped: int
    """Files that the manifest does not name any more."""
    deleted: int
    """Files that were dropped a grace ago, and are gone."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What a look for files that nobody names found."""

    looked: int
    deleted: int
    deleted_bytes: int
    failed: int
    """Files that could not be deleted; the next look tries again."""
    keys: tuple[str, ...]


class _Done(NamedTuple):
    act: Act
    ref: FileRef


def tend(
    writer: Writer,
    limits: Limits | None = None,
    *,
    grace: str = GRACE,
    clock: Clock | None = None,
    dry_run: bool = False,
    hands: Hands | None = None,
) -> Tended:
    """Do what is due, as far as the limits allow at a time; one after the other without ``hands``.

    Raises FencedError, DamageError, and what the store raises; nothing is lost by that.
    """
    grace_ns = parse_duration(grace)
    way = _Way(writer, limits or Limits(), grace_ns=grace_ns, clock=clock or SystemClock())
    return way.dry() if dry_run else way.go(hands or way.by_itself)


def sweep(
    writer: Writer, *, grace: str = GRACE, clock: Clock | None = None, dry_run: bool = False
) -> Swept:
    """Look for files that nobody names, and delete those that are older than the grace.

    Who writes runs in another thread must append them within the grace: later they are refused. A
    dry run changes nothing, so it has no time of the store but that of its newest file or the
    local one.
    """
    store, clock = writer.store, clock or SystemClock()
    grace_ns = parse_duration(grace)
    moment = None if dry_run else _moment(store, clock, grace_ns)
    listed = [each for folder in FOLDERS for each in store.list(folder)]
    if moment is None:
        local_ms = clock.wall_ns() // MILLISECOND
        store_ms = max([local_ms, *(each.changed_ms for each in listed)])
        moment = Moment(store_ms, local_ms, grace_ns // MILLISECOND)
    snapshot = writer.snapshot()
    found = orphans(listed, named_by(snapshot.manifest), moment)
    failed: set[str] = set()
    if found and not dry_run:
        # Whoever else could name them is fenced; this writer gives its word.
        never = writer.give_up(each.key for each in found)
        found = [each for each in found if each.key in never]
        failed = set(store.delete([each.key for each in found])) if found else set()
    gone = [each for each in found if each.key not in failed]
    return Swept(
        looked=len(listed),
        deleted=len(gone),
        deleted_bytes=sum(each.size for each in gone),
        failed=len(failed),
        keys=tuple(each.key for each in gone),
    )


class Tender:
    """Tends a collection behind each append, and looks for garbage now and then."""

    def __init__(
        self,
        writer: Writer,
        limits: Limits | None = None,
        *,
        grace: str = GRACE,
        sweep_interval: str = SWEEP_INTERVAL,
        clock: Clock | None = None,
    ) -> None:
        """Take a writer; ``tend`` does everything."""
        self._writer, self._limits, self._grace = writer, limits, grace
        self._clock = clock or SystemClock()
        self._interval_ns = parse_duration(sweep_interval)
        self._due_ns: int | None = None

    def tend(self, hands: Hands | None = None) -> Tended:
        """Do what is due; the first time, and then once in an interval, with a look for garbage."""
        found = self.fold(hands)
        self.sweep()
        return found

    def fold(self, hands: Hands | None = None) -> Tended:
        """Do what is due, without a look for garbage: while others write runs, for instance."""
        return tend(self._writer, self._limits, grace=self._grace, clock=self._clock, hands=hands)

    def sweep(self) -> None:
        """Look for garbage, if that is due; runs that are being written must not be older."""
        now = self._clock.monotonic_ns()
        if self._due_ns is None or now >= self._due_ns:
            sweep(self._writer, grace=self._grace, clock=self._clock)
            self._due_ns = now + self._interval_ns


class _Way:
    """One time that a collection is tended."""

    def __init__(self, writer: Writer, limits: Limits, *, grace_ns: int, clock: Clock) -> None:
        self._writer, self._store = writer, writer.store
        self._limits, self._grace_ns, self._clock = limits, grace_ns, clock

    def dry(self) -> Tended:
        """Say what would be done."""
        snapshot = self._writer.snapshot()
        acts = due(snapshot, self._limits)
        now = chosen(acts, snapshot, self._limits)
        local_ms = self._clock.wall_ns() // MILLISECOND
        moment = Moment(local_ms, local_ms, self._grace_ns // MILLISECOND)
        is_due = bool(now) or is_forgetting_due(snapshot, self._limits)
        since = since_for(snapshot, self._limits) if is_due else snapshot.since
        deleted = len(expired(snapshot.manifest.dropped, moment))
        files, old = _exchanged(snapshot.files, [_Done(act, _imagined(act)) for act in now])
        dropped = len(old) + len(forgotten(files, since))
        return self._tended(now, left=len(acts) - len(now), since=since, counts=(dropped, deleted))

    def by_itself(self, snapshot: Snapshot, acts: Sequence[Act]) -> Iterable[FileRef]:
        """Do one act after the other."""
        return (perform(self._store, snapshot, act, clock=self._clock) for act in acts)

    def go(self, hands: Hands) -> Tended:
        """Do it."""
        snapshot = self._writer.snapshot()
        acts = due(snapshot, self._limits)
        now = chosen(acts, snapshot, self._limits)
        before = {each.name for each in snapshot.manifest.dropped}
        done: list[_Done] = []
        for act, ref in zip(now, hands(snapshot, now) if now else (), strict=True):
            done.append(_Done(act, ref))
            if sum(each.ref.byte_count for each in done) >= _TOGETHER_BYTES:
                snapshot = self._change(snapshot, done, ())
                done = []
        gone, deleted = self._delete_expired(snapshot)
        after = self._change(snapshot, done, gone)
        dropped = sum(each.name not in before for each in after.manifest.dropped)
        left = len(acts) - len(now)
        return self._tended(now, left=left, since=after.since, counts=(dropped, deleted))

    def _tended(
        self, acts: Sequence[Act], *, left: int, since: int, counts: tuple[int, int]
    ) -> Tended:
        kinds = [act.kind for act in acts]
        rows = sum(act.rows for act in acts)
        folded, merged = kinds.count("fold"), kinds.count("merge")
        return Tended(folded, merged, rows, left, since, *counts)

    def _delete_expired(self, snapshot: Snapshot) -> tuple[Sequence[str], int]:
        """Delete what was dropped a grace ago, and give the names that go out of the manifest.

        And how many of the files are gone.
        Names of files that cannot be deleted go too, if they are many: a sweep finds these.
        """
        dropped = snapshot.manifest.dropped
        local_ms = self._clock.wall_ns() // MILLISECOND
        probably = Moment(local_ms, local_ms, self._grace_ns // MILLISECOND)
        if not expired(dropped, probably):
            return (), 0
        names = expired(dropped, _moment(self._store, self._clock, self._grace_ns))
        failed = set(self._store.delete(names)) if names else set()
        left = [name for name in names if name in failed]
        given_up = set(left[: max(len(left) - FAILED_MAX, 0)])
        gone = [name for name in names if name not in failed or name in given_up]
        return gone, len(names) - len(left)

    def _change(self, snapshot: Snapshot, done: Sequence[_Done], gone: Sequence[str]) -> Snapshot:
        """Let the manifest name what was written, and not what that stands for."""
        if not (done or gone or is_forgetting_due(snapshot, self._limits)):
            return snapshot
        moment = _moment(self._store, self._clock, self._grace_ns)
        return self._writer.change(lambda now: self._changed(now, done, (gone, moment)))

    def _changed(
        self, snapshot: Snapshot, done: Sequence[_Done], sweeping: tuple[Sequence[str], Moment]
    ) -> Manifest | None:
        manifest = snapshot.manifest
        gone, moment = sweeping
        files, old = _exchanged(manifest.files, done)
        since = since_for(snapshot, self._limits)
        past = forgotten(files, since)
        names = {*(ref.name for ref in past)}
        dropped = [each for each in manifest.dropped if each.name not in set(gone)]
        dropped += [Dropped(ref.name, snapshot.upper, moment.store_ms) for ref in (*old, *past)]
        wanted = replace(
            manifest,
            since=since,
            times=manifest.times[since - snapshot.since :],
            files=tuple(ref for ref in files if ref.name not in names),
            dropped=restamped(dropped, moment),
        )
        return None if wanted == manifest else wanted


def _replaced(act: Act) -> list[FileRef]:
    """Give the files that nobody needs once an act is done: behind a fold, runs are for history."""
    return [ref for ref in act.files if act.kind == "merge" or ref.kind == "base"]


def _imagined(act: Act) -> FileRef:
    """Give the file that an act would write, for who only looks."""
    kind: Kind = "base" if act.kind == "fold" else "run"
    first, last = act.files[0].first, act.files[-1].last
    epochs = (act.epoch, act.epoch) if kind == "base" else (first, last)
    return FileRef(
        kind, act.bucket, f"{kind} of {act.bucket}, {epochs}", act.rows, 0, 0, 0, *epochs
    )


def _exchanged(
    files: Sequence[FileRef], done: Sequence[_Done]
) -> tuple[list[FileRef], list[FileRef]]:
    """Give all files with the new ones in, and those that went out for them.

    What was done to files that are not there any more is left out: somebody did it before.
    """
    found = {ref.name: ref for ref in files}
    old: list[FileRef] = []
    for act, ref in done:
        bases = {each.name for each in found.values() if _is_base_of(each, act.bucket)}
        own = {each.name for each in act.files if each.kind == "base"}
        is_other = act.kind == "fold" and bases != own
        if is_other or not all(each.name in found for each in act.files):
            continue
        old += [found.pop(each.name) for each in _replaced(act)]
        found[ref.name] = ref
    return sorted(found.values(), key=_place), old


def _is_base_of(ref: FileRef, bucket: int) -> bool:
    return ref.kind == "base" and ref.bucket == bucket


def _place(ref: FileRef) -> tuple[int, bool, int]:
    return ref.bucket, ref.kind == "run", ref.first


def _moment(store: Bucket, clock: Clock, grace_ns: int) -> Moment:
    """Ask the store what time it is, by putting an object."""
    store.write(MARKER, b"what the time was in this store\n")
    marks = [each.changed_ms for each in store.list(MARKER) if each.key == MARKER]
    if not marks:
        raise DamagedEntry("the store does not list what was put", path=store.place)
    return Moment(marks[0], clock.wall_ns() // MILLISECOND, grace_ns // MILLISECOND)
