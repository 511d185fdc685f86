"""What a folder of the Rust Quiver holds, read whole and checked, before any of it is taken over.

Nothing is changed there. What cannot be read is told with its error, and its bytes are known, so
that they can be kept.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from quiver.acks.format import name_fault
from quiver.bundle import fingerprint
from quiver.config import LimitsConfig
from quiver.disk import Disk
from quiver.errors import DamagedEntry, DamageError, LockedError, VersionError
from quiver.ipc import decode_stream
from quiver.payload import EncodedBundle
from quiver.segment import SegmentReader
from quiver.upstream import (
    LoggedBundle,
    UpstreamCore,
    UpstreamLog,
    UpstreamSegment,
    UpstreamSubscriber,
)

__all__ = [
    "Aside",
    "CoreStock",
    "SegmentStock",
    "SubscriberStock",
    "check_unchanged",
    "logged_bundles",
    "take_stock",
]

Advance = Callable[[int], None]
Runs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SegmentStock:
    """A sound segment; ``file`` says where it is."""

    file: UpstreamSegment
    bundle_count: int
    row_count: int


@dataclass(frozen=True, slots=True)
class SubscriberStock:
    """A subscriber, under its name there and here; ``resolved`` are runs by segment number."""

    source_name: str
    name: str
    resolved: Mapping[int, Runs]
    resolved_bundles: int
    open_bundles: int


@dataclass(frozen=True, slots=True)
class Aside:
    """Bytes ``[offset, end)`` of a file that cannot be taken; ``end`` is None for all of it."""

    path: str
    name: str
    error: DamageError
    offset: int = 0
    end: int | None = None


@dataclass(slots=True)
class CoreStock:
    """What one data folder holds. ``damage`` is all that is wrong, ``aside`` what it costs."""

    core: UpstreamCore
    state: object
    log: UpstreamLog
    segments: list[SegmentStock] = field(default_factory=list)
    subscribers: list[SubscriberStock] = field(default_factory=list)
    logged_bundles: int = 0
    logged_rows: int = 0
    slot_ids: set[int] = field(default_factory=set)
    damage: list[DamageError] = field(default_factory=list)
    aside: list[Aside] = field(default_factory=list)
    next_segment_seq: int = 0
    """Above every segment that is there, or that a subscriber ever heard of."""

    @property
    def bundle_count(self) -> int:
        """Bundles of all sound segments."""
        return sum(segment.bundle_count for segment in self.segments)

    @property
    def row_count(self) -> int:
        """Their rows in all slots."""
        return sum(segment.row_count for segment in self.segments)


def take_stock(core: UpstreamCore, limits: LimitsConfig, advance: Advance) -> CoreStock:
    """Read everything in a data folder; ``advance`` counts the bytes.

    Damage is in what this gives. Raises VersionError, with the path, for a newer format.
    """
    stock = CoreStock(core, core.state(), core.log())
    stock.damage += stock.log.damage
    stock.aside += [
        Aside(bad.path, f"{posixpath.basename(bad.path)}.{bad.offset}", bad.error, *bad[1:3])
        for bad in stock.log.bad
    ]
    for file in core.segments():
        stock.next_segment_seq = max(stock.next_segment_seq, file.segment_seq + 1)
        _take_segment(stock, file, limits)
        advance(file.file_bytes)
    for bundle in logged_bundles(stock.log, core.disk, limits, told=stock):
        stock.logged_bundles += 1
        stock.logged_rows += sum(payload.row_count for payload in bundle.payloads)
        stock.slot_ids.update(payload.slot_id for payload in bundle.payloads)
    advance(stock.log.file_bytes)
    used: set[str] = set()
    for subscriber in core.subscribers():
        stock.subscribers.append(_subscriber(stock, subscriber, used))
    return stock


def check_unchanged(stock: CoreStock) -> None:
    """Raise LockedError if a file of the data folder was written since its stock was taken."""
    if stock.core.state() != stock.state:
        place = stock.core.disk.locate(stock.core.path)
        raise LockedError(
            f"{place} was written while it was read",
            hint="stop its writer first: the Rust Quiver takes no lock that could be asked for",
        )


def _take_segment(stock: CoreStock, file: UpstreamSegment, limits: LimitsConfig) -> None:
    disk = stock.core.disk
    place = disk.locate(file.path)
    try:
        with SegmentReader.open(disk, file.path, limits=limits) as reader:
            reader.verify()
            rows = sum(stream.row_count for stream in reader.streams)
            stock.segments.append(SegmentStock(file, reader.bundle_count, rows))
            stock.slot_ids.update(stream.slot_id for stream in reader.streams)
    except VersionError as error:
        raise VersionError(f"{place}: {error.message}", hint=error.hint) from error
    except DamageError as error:
        located = error if error.path else error.at(place)
        stock.damage.append(located)
        stock.aside.append(Aside(file.path, posixpath.basename(file.path), located))


def logged_bundles(
    log: UpstreamLog, disk: Disk, limits: LimitsConfig, *, told: CoreStock | None = None
) -> Iterator[EncodedBundle]:
    """Go through the bundles that no segment holds, with fingerprints of our kind.

    One whose payloads are no Arrow data is left out, and told if that is asked for.
    """
    for logged in log.bundles():
        try:
            yield _ours(logged, limits)
        except DamagedEntry as error:
            if told is not None:
                located = error.at(disk.locate(logged.path), base=logged.offset)
                name = f"{posixpath.basename(logged.path)}.{logged.offset}"
                told.damage.append(located)
                told.aside.append(Aside(logged.path, name, located, logged.offset, logged.end))


def _ours(logged: LoggedBundle, limits: LimitsConfig) -> EncodedBundle:
    """Read the payloads: the fingerprints there are of another kind, or of another schema."""
    payloads = []
    for payload in logged.bundle.payloads:
        batch = decode_stream(payload.data, rows=payload.row_count, limits=limits)
        payloads.append(payload._replace(fingerprint=fingerprint(batch.schema)))
    return logged.bundle._replace(payloads=tuple(payloads))


def _subscriber(
    stock: CoreStock, subscriber: UpstreamSubscriber, used: set[str]
) -> SubscriberStock:
    """Hold what a subscriber has against the segments; all is open where that cannot be told."""
    name = subscriber.name
    while name in used or name_fault(name) is not None:
        name = f"upstream{name}"
    used.add(name)
    place = stock.core.disk.locate(subscriber.path)
    if subscriber.damage is not None:
        stock.damage.append(subscriber.damage)
        aside = Aside(subscriber.path, posixpath.basename(subscriber.path), subscriber.damage)
        stock.aside.append(aside)
    counts = {segment.file.segment_seq: segment.bundle_count for segment in stock.segments}
    resolved: dict[int, Runs] = {}
    for progress in subscriber.progress.segments if subscriber.progress is not None else ():
        seq = progress.segment_seq
        stock.next_segment_seq = max(stock.next_segment_seq, seq + 1)
        if seq not in counts:
            continue
        if progress.bundle_count == counts[seq]:
            resolved[seq] = progress.runs
            continue
        stock.damage.append(
            DamagedEntry(
                f"the progress file speaks of another segment {seq}",
                path=place,
                expected=f"{counts[seq]} bundles",
                found=progress.bundle_count,
                hint="all of that segment counts as open",
            )
        )
    done = sum(count for runs in resolved.values() for _, count in runs)
    left = sum(counts.values()) + stock.logged_bundles - done
    return SubscriberStock(subscriber.name, name, resolved, done, left)
