"""All cores of a store as numbers, read from its folder: no lock is taken, nothing is changed.

An ``Observer`` may look every second. It keeps what cannot change (the ends of segments) and goes
on in the log where it was. What it says was true when each file was read, which is not one moment:
a bundle that became a segment in between may be counted as open once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from quiver.clock import Clock, SystemClock
from quiver.disk import Disk, LocalDisk, Stat, folder_bytes
from quiver.engine.budget import sharers
from quiver.engine.core import core_folder, core_numbers, covered_place
from quiver.engine.dead_letters import FOLDER as DEAD_LETTERS
from quiver.engine.numbers import staged_bytes
from quiver.engine.reserve import RESERVE_NAME
from quiver.engine.standing import Standings, read_standings
from quiver.engine.stats import CoreStats, SubscriberStats
from quiver.errors import DamageError
from quiver.manifest import StoreManifest
from quiver.observe.open_log import OpenLog
from quiver.segment import Catalog, SegmentInfo, parse_segment_name
from quiver.units import SECOND

__all__ = ["CoreDetail", "Observer", "StoreStats"]


@dataclass(frozen=True, slots=True)
class StoreStats:
    """A store at about one moment."""

    path: str
    store_id: str
    at_ns: int
    """When it was looked at, in wall time."""
    cores: tuple[CoreStats, ...]
    staged_bytes: int = 0
    """What waits for the commits of sinks, in no core yet; it counts for the cap of all."""
    passed_over: tuple[str, ...] = ()
    """What could not be read and is in no number, in words."""


@dataclass(frozen=True, slots=True)
class CoreDetail:
    """What the last look at a core found behind its numbers, of one moment with its subscribers."""

    segments: Mapping[int, SegmentInfo]
    next_finalized_seq: int
    """All bundles below it are in segments, or were."""
    footer_count: int
    """How many segments had to be opened."""
    damage: tuple[str, ...]
    """What is wrong with segments and acks, in words."""


class Observer:
    """Looks at the folder of a store, again and again; use it as a context manager.

    ``size_cap`` is the ``retention.size_cap`` of whoever writes the store, in bytes: the folder
    does not tell it. With ``core`` it looks at that one alone. Raises MissingError or StorageError
    if there is no store.
    """

    def __init__(
        self,
        folder: str,
        *,
        size_cap: int | None = None,
        core: int | None = None,
        clock: Clock | None = None,
        disk: Disk | None = None,
    ) -> None:
        self._disk = LocalDisk(folder) if disk is None else disk
        self._clock = clock or SystemClock()
        self._cap = size_cap or None
        self._core = core
        self._cores: dict[int, _Core] = {}
        try:
            StoreManifest.read(self._disk)
        except BaseException:
            self.close()
            raise

    def look(self) -> StoreStats:
        """Look at all cores that are there now."""
        store_id = StoreManifest.read(self._disk).store_id
        numbers = core_numbers(self._disk)
        passed_over: list[str] = []
        found = []
        for number in numbers if self._core is None else {self._core}.intersection(numbers):
            core = self._cores.setdefault(number, _Core(self._disk, number, self._clock))
            cap = None if self._cap is None else self._cap // len(sharers(self._disk, number))
            found.append(core.look(store_id, cap, passed_over))
        for gone in self._cores.keys() - set(numbers):
            del self._cores[gone]
        return StoreStats(
            path=self._disk.locate(""),
            store_id=store_id,
            at_ns=self._clock.wall_ns(),
            cores=tuple(found),
            staged_bytes=staged_bytes(self._disk),
            passed_over=tuple(passed_over),
        )

    def detail(self, core: int) -> CoreDetail:
        """Give what the last look found in a core that it saw."""
        return self._cores[core].detail

    def close(self) -> None:
        """Let go of the folder."""
        if isinstance(self._disk, LocalDisk):
            self._disk.close()

    def __enter__(self) -> Self:
        """Give the observer itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go of the folder."""
        self.close()


@dataclass(slots=True)
class _Core:
    """One core, and what is known of it from looks before."""

    disk: Disk
    number: int
    clock: Clock
    infos: dict[str, tuple[Stat, int, SegmentInfo]] = field(default_factory=dict)
    """By file name: what it was when its end was read, when that was written, and the end."""
    log: OpenLog | None = None
    broken: dict[str, tuple[Stat, int, str]] = field(default_factory=dict)
    """Likewise what is wrong with those whose ends are damaged."""
    standings: Standings | None = None
    """Where subscribers stood when it was read last, from files that were ``marks`` then."""
    marks: object = None
    refused: list[str] = field(default_factory=list)
    detail: CoreDetail = field(default_factory=lambda: CoreDetail({}, 0, 0, ()))

    def look(self, store_id: str, cap: int | None, passed_over: list[str]) -> CoreStats:
        folder = core_folder(self.number)
        before = dict(self.infos)
        catalog = self._catalog(f"{folder}/segments", passed_over)
        standings = self._standings(catalog, store_id)
        passed_over += self.refused
        floor = standings.acks.floor
        covered = floor.next_wal_seq - 1
        if catalog.covered_wal_seq is not None:
            covered = max(covered, catalog.covered_wal_seq)
        self.log = self.log or OpenLog(self.disk, f"{folder}/wal")
        log = self.log.look(covered, covered_place(catalog))
        self.detail = CoreDetail(
            {info.segment_seq: info for info in catalog},
            covered + 1,
            sum(known is not before.get(name) for name, known in self.infos.items()),
            (*passed_over, *(str(error) for error in standings.acks.damage)),
        )
        newest = -1 if catalog.newest_seq is None else catalog.newest_seq
        reserve = self.disk.stat(f"{folder}/{RESERVE_NAME}")
        now = self.clock.wall_ns()
        return CoreStats(
            core=self.number,
            at_ns=now,
            next_wal_seq=log.next_wal_seq,
            wal_bytes=log.used_bytes,
            wal_files=log.file_count,
            open_bundles=log.bundle_count,
            open_bytes=log.payload_bytes,
            open_age_ns=None if log.oldest_ns is None else max(now - log.oldest_ns, 0),
            next_segment_seq=max(newest + 1, floor.next_segment_seq),
            segments=len(catalog),
            segment_bytes=catalog.segment_bytes,
            segment_disk_bytes=sum(info.allocated_bytes for info in catalog),
            subscribers=_subscribers(standings),
            acks_log_bytes=standings.acks.log_bytes or 0,
            acks_bytes=folder_bytes(self.disk, f"{folder}/acks"),
            quarantine_bytes=folder_bytes(self.disk, f"{folder}/quarantine"),
            dead_letter_bytes=folder_bytes(self.disk, f"{folder}/{DEAD_LETTERS}"),
            reserve_bytes=0 if reserve is None else min(reserve.size, reserve.allocated),
            cap_bytes=cap,
        )

    def _standings(self, catalog: Catalog, store_id: str) -> Standings:
        """Read where subscribers stand, again only if something of it changed.

        What changed within the second before it was read may change once more without a trace.
        """
        folder = f"{core_folder(self.number)}/acks"
        entries = [e for f in (folder, f"{folder}/inbox") for e in _listing(self.disk, f)]
        files = [(entry.name, entry.size, entry.modified_ns) for entry in entries]
        latest = self.clock.wall_ns() - SECOND
        if all(0 < modified_ns < latest for _, _, modified_ns in files):
            marks: object = (store_id, files, list(catalog))
        else:
            marks = None
        if self.standings is None or marks is None or marks != self.marks:
            self.refused = []
            self.standings = read_standings(
                self.disk,
                self.number,
                catalog,
                store_id=store_id,
                warn=lambda text: self.refused.append(text.removeprefix("quiver: ")),
                clock=self.clock,
            )
        self.marks = marks
        return self.standings

    def _catalog(self, folder: str, passed_over: list[str]) -> Catalog:
        """Read the ends of segments that are new; names of segments are given out once."""
        there = {
            entry.name: entry
            for entry in _listing(self.disk, folder)
            if entry.is_file and parse_segment_name(entry.name) is not None
        }
        self.infos = {n: known for n, known in self.infos.items() if _is_same(known, there.get(n))}
        self.broken = {n: k for n, k in self.broken.items() if _is_same(k, there.get(n))}
        known = self.infos.keys() | self.broken.keys()
        fresh = [entry for name, entry in there.items() if name not in known]
        found, damaged = Catalog.load(self.disk, folder, listing=fresh)
        faults = {path: _told(self.disk.locate(path), error) for path, error in damaged}
        by_path: Mapping[str, SegmentInfo] = {info.path: info for info in found}
        for entry in fresh:
            info = by_path.get(f"{folder}/{entry.name}")
            fault = faults.get(f"{folder}/{entry.name}")
            if info is not None:
                self.infos[entry.name] = entry, entry.modified_ns, info
            elif fault is not None:
                self.broken[entry.name] = entry, entry.modified_ns, fault
        passed_over += [fault for _, _, fault in self.broken.values()]
        catalog = Catalog()
        for _, _, info in self.infos.values():
            catalog.add(info)
        return catalog


def _listing(disk: Disk, folder: str) -> list[Stat]:
    """List a folder; one that is not there is empty."""
    return [] if disk.stat(folder) is None else disk.list_dir(folder)


def _is_same(known: tuple[Stat, int, object], found: Stat | None) -> bool:
    stat, modified_ns, _ = known
    return found is not None and stat == found and modified_ns == found.modified_ns


def _subscribers(standings: Standings) -> tuple[SubscriberStats, ...]:
    return tuple(
        SubscriberStats(
            lag=standing.lag,
            gap_count=standing.gap_count,
            unfolded_count=standing.unfolded_count,
            is_registered=standing.is_registered,
        )
        for standing in standings
    )


def _told(place: str, error: DamageError) -> str:
    return f"passed over {place}: {error.message}"
