"""Looks at the folder of a store, again and again: no lock is taken and nothing is changed.

Each core is read on its own, so that one that cannot be read hides no other. What cannot have
changed since the last look is not read again: ``quiver.observe`` sees to that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from quiver.cli.inspect import core_numbers, open_folder
from quiver.cli.live.look import CoreLook, Look, SegmentSize, SubscriberLook, Writer
from quiver.cli.live.nodes import NodeAsker
from quiver.clock import Clock, SystemClock
from quiver.disk import Disk, LocalDisk, lock_holders
from quiver.engine import SubscriberStats
from quiver.engine.core import core_folder
from quiver.engine.numbers import staged_bytes
from quiver.errors import MissingError, QuiverError
from quiver.manifest import StoreManifest
from quiver.observe import Observer

__all__ = ["Looker"]

_LOCK: Final = "LOCK"


class Looker:
    """Whoever looks; ``core`` is the only one to look at, if it is given.

    ``open_disk`` is asked anew at each look, for the folder may be another one by then.
    """

    def __init__(
        self,
        folder: str,
        *,
        core: int | None = None,
        clock: Clock | None = None,
        open_disk: Callable[[str], Disk] = open_folder,
        asker: NodeAsker | None = None,
    ) -> None:
        self._folder = folder
        self._core = core
        self._clock = clock or SystemClock()
        self._open_disk = open_disk
        self._asker = asker
        self._cores: dict[int, _Core] = {}
        self._store_id: str | None = None

    def look(self) -> Look:
        """Look at the store now; what is wrong with it is in what this gives, and never raised."""
        began = self._clock.monotonic_ns()
        try:
            found = self._look()
        except QuiverError as error:
            self._forget()
            found = Look(0, 0, problem=_said(error))
        nodes = None if self._asker is None else self._asker.ask()
        ended = self._clock.monotonic_ns()
        at_ns = self._clock.wall_ns()
        return replace(found, at_ns=at_ns, monotonic_ns=ended, took_ns=ended - began, nodes=nodes)

    def close(self) -> None:
        """Let go of the folder."""
        self._forget()
        if self._asker is not None:
            self._asker.close()

    def _look(self) -> Look:
        disk = self._open_disk(self._folder)
        try:
            manifest = StoreManifest.read(disk)
            if manifest.store_id != self._store_id:
                self._forget()
                self._store_id = manifest.store_id
            numbers = core_numbers(disk)
            if self._core is not None:
                numbers = [number for number in numbers if number == self._core]
            staged = staged_bytes(disk)
            locks = {f"{core_folder(number)}/{_LOCK}": number for number in numbers}
            holders = lock_holders(disk, locks)
        finally:
            if isinstance(disk, LocalDisk):
                disk.close()
        for gone in self._cores.keys() - set(numbers):
            self._cores.pop(gone).close()
        looks = []
        for lock, number in locks.items():
            writer = Writer()
            if holders is not None:
                writer = Writer(lock in holders, holders.get(lock))
            looks.append(self._look_at(number, writer))
        return Look(
            0,
            0,
            footer_count=sum(core.footer_count for core in self._cores.values()),
            store_id=self._store_id,
            cores=tuple(looks),
            staged_bytes=staged,
        )

    def _look_at(self, number: int, writer: Writer) -> CoreLook:
        core = self._cores.setdefault(number, _Core(number))
        try:
            if core.observer is None:
                disk = self._open_disk(self._folder)
                core.observer = Observer(self._folder, core=number, clock=self._clock, disk=disk)
            look = core.look(core.observer)
        except QuiverError as error:
            core.close()
            look = replace(core.last, problem=_said(error))
        core.last = replace(look, writer=writer)
        return core.last

    def _forget(self) -> None:
        self._store_id = None
        while self._cores:
            self._cores.popitem()[1].close()


class _Core:
    """One core, and what was seen of it last."""

    def __init__(self, number: int) -> None:
        self.last = CoreLook(number)
        self.observer: Observer | None = None
        self.footer_count = 0

    def look(self, observer: Observer) -> CoreLook:
        """Look, and once more if the acks know of segments that the list did not have yet.

        They are read after the list; what is not in it the second time either was deleted.
        """
        self.footer_count = 0
        look = self._look(observer)
        newest = max(look.segments, default=-1)
        if self.last.next_segment_seq < look.next_segment_seq > newest + 1:
            look = self._look(observer)
        return look

    def close(self) -> None:
        """Let go of the folder."""
        if self.observer is not None:
            self.observer.close()
        self.observer = None

    def _look(self, observer: Observer) -> CoreLook:
        stats = observer.look()
        if not stats.cores:
            raise MissingError(f"core {self.last.core} is gone")
        found = stats.cores[0]
        detail = observer.detail(self.last.core)
        self.footer_count += detail.footer_count
        return CoreLook(
            found.core,
            next_wal_seq=found.next_wal_seq,
            next_finalized_seq=detail.next_finalized_seq,
            open_bundle_count=found.open_bundles,
            open_bytes=found.open_bytes,
            wal_file_count=found.wal_files,
            wal_bytes=found.wal_bytes,
            next_segment_seq=found.next_segment_seq,
            segments={
                seq: SegmentSize(info.bundle_count, info.file_bytes)
                for seq, info in detail.segments.items()
            },
            acks_bytes=found.acks_bytes,
            quarantine_bytes=found.quarantine_bytes,
            used_bytes=found.used_bytes,
            subscribers=tuple(_subscriber(each) for each in found.subscribers),
            damage=detail.damage,
        )


def _said(error: QuiverError) -> str:
    """Say what is wrong and where, without the hint."""
    return str(error).removesuffix(f" ({error.hint})") if error.hint else str(error)


def _subscriber(stats: SubscriberStats) -> SubscriberLook:
    lag = stats.lag
    return SubscriberLook(
        stats.name,
        lag.bundle_count,
        lag.byte_count,
        lag.oldest_age_ns,
        lag.waiting_count,
        lag.dead_letter_count,
        stats.unfolded_count,
        lag.is_paused,
    )
