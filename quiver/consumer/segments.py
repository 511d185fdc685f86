"""A subscriber that takes whole segments: which bundles of each are open, and what became of them.

For who carries segments elsewhere as they are. It reads none of them and claims nothing: it is the
only one that goes on under its name, so what is open is its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from quiver.acks import DEAD_REJECTED
from quiver.clock import Clock
from quiver.config import Config
from quiver.consumer.consumer import Consumer
from quiver.consumer.follower import Follower
from quiver.disk import Disk
from quiver.engine.start import Start
from quiver.errors import DamageError, QuiverError
from quiver.segment import SegmentInfo
from quiver.units import SECOND

__all__ = ["Pending", "Runs", "SegmentConsumer"]

Runs: TypeAlias = tuple[tuple[int, int], ...]
"""Bundles of one segment as (first, count), ascending."""

_COMMIT_INTERVAL: Final = "250ms"


@dataclass(frozen=True, slots=True)
class Pending:
    """A finished segment of a core of which bundles are open, and which these are."""

    core: int
    info: SegmentInfo
    runs: Runs

    @property
    def bundle_count(self) -> int:
        """How many bundles are open."""
        return sum(count for _, count in self.runs)

    @property
    def is_whole(self) -> bool:
        """Whether all of its bundles are."""
        return self.bundle_count == self.info.bundle_count


class SegmentConsumer(Consumer):
    """A consumer that sees segments instead of bundles; what is done is committed as ever."""

    def __init__(
        self,
        disk: Disk,
        name: str,
        *,
        start: Start = "earliest",
        config: Config | None = None,
        clock: Clock | None = None,
        keep: bool = True,
    ) -> None:
        """Go on as the subscriber ``name``, in all cores of the store on ``disk``.

        With ``keep`` a thread looks for what is new, and commits; else call ``refresh`` and
        ``commit``. The disk stays open at the end.
        """
        super().__init__(
            disk,
            name,
            core=None,
            start=start,
            options={},
            config=config or Config(),
            commit_interval=_COMMIT_INTERVAL,
            clock=clock,
            keep=keep,
        )

    def pending(self, after: Mapping[int, int]) -> list[Pending]:
        """Give segments with open bundles behind the one that ``after`` names for their core.

        Those of a core come in order; cores take turns.
        """
        self.check_usable()
        found = []
        with self._lock:
            for number, follower in self._followers.items():
                progress = follower.registry.progress(self.name)
                behind = [seq for seq in progress.open_segments if seq > after.get(number, -1)]
                for turn, seq in enumerate(behind):
                    runs = tuple(progress.open_runs(seq))
                    found.append((turn, Pending(number, follower.catalog.get(seq), runs)))
        found.sort(key=lambda each: (each[0], each[1].core))
        return [each for _, each in found]

    def passed(self, core: int, segment_seq: int) -> bool:
        """Whether anything of a later segment of a core has its outcome: this one was passed."""
        with self._lock:
            follower = self._followers.get(core)
            if follower is None:
                return False
            begun = follower.registry.progress(self.name).begun_segments()
        return bool(begun) and begun[-1] > segment_seq

    def unreadable(self) -> list[tuple[int, int, DamageError]]:
        """Give segments, by core and number, whose end is damaged: nobody knows what they hold."""
        self.check_usable()
        with self._lock:
            return [
                (number, seq, error)
                for number, follower in sorted(self._followers.items())
                for seq, error in follower.unreadable()
            ]

    def ack(self, core: int, segment_seq: int, runs: Runs) -> int:
        """Say that bundles are done with; gives how many were open. ``commit`` makes it durable."""
        with self._lock:
            follower = self._followers.get(core)
            return 0 if follower is None else self._resolve(follower, segment_seq, runs)

    def reject(self, core: int, segment_seq: int, *, bundles: Collection[int], reason: str) -> int:
        """Give bundles up for good: the store sets a copy of each aside, sound or damaged.

        Gives how many were open. ``commit`` makes it durable.
        """
        total = 0
        with self._lock:
            follower = self._followers.get(core)
            if follower is None:
                return 0
            for index in sorted(bundles):
                if self._resolve(follower, segment_seq, ((index, 1),)):
                    place = segment_seq, index
                    follower.gathered.give_up(place, 1, DEAD_REJECTED, text=reason)
                    total += 1
        return total

    def _resolve(self, follower: Follower, segment_seq: int, runs: Runs) -> int:
        """Resolve what is open; of a segment that is gone nothing is."""
        progress = follower.registry.progress(self.name)
        total = 0
        for run in runs:
            for first, count in progress.open_within(segment_seq, *run):
                total += follower.registry.resolve(self.name, segment_seq, first, count=count)
        if total:
            follower.append(())
        return total

    @property
    def change_count(self) -> int:
        """A number that grows whenever there may be something new; for ``wait``."""
        with self._lock:
            return self._change_count

    def wait(self, seen: int, timeout_ns: int) -> None:
        """Wait until ``change_count`` is not ``seen`` any more, or a while has passed.

        Raises what keeps the thread in the background from going on.
        """
        with self._lock:
            if self._change_count == seen and not self._closed:
                self._changed.wait(timeout_ns / SECOND)
        self.check_usable()
        failure = self.keeper_failure
        if isinstance(failure, QuiverError) and not failure.retryable:
            raise failure
