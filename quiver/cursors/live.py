"""When a live cursor may give a message: once nothing before it can come from any partition.

::

    1  timelines of idle partitions     how far each one is, at least (``least_ns``)
    2  their logs                       all that was there by 1
    3  timelines and cores once more    who was closed, or not there, by 1 and is now, has begun
                                        in between: all is done again

So a partition counts as closed only if it was so before and after its log was read: a writer says
that it begins before its first append, and the clock gave what was read before an earlier time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from quiver.clock import SystemClock
from quiver.cursors.message import Key
from quiver.disk import Disk
from quiver.engine.numbers import core_folder
from quiver.engine.timekeeping import read_timeline
from quiver.timeline import Saved
from quiver.units import SECOND
from quiver.wal import ACTIVE_NAME

__all__ = ["Waits"]

_Marks = tuple[int, int, int]


class _Seen(NamedTuple):
    """What a core's log and segments looked like; None if that may change unseen."""

    marks: _Marks | None


_FRESH: Final = _Seen(None)


class Waits:
    """How far partitions are that have shown nothing more."""

    def __init__(self, disk: Disk) -> None:
        """Know of none yet."""
        self._disk = disk
        self._clock = SystemClock()
        self._saved: dict[int, Saved | None] = {}
        self._seen: dict[int, _Seen] = {}
        self._changed: dict[int, bool] = {}

    def look(self, cores: Collection[int]) -> None:
        """Look at the timelines of partitions, before their logs."""
        self._saved.clear()
        for core in cores:
            self._saved[core] = read_timeline(self._disk, core_folder(core))
            marks = self._marks(core)
            before = self._seen.get(core, _FRESH)
            self._changed[core] = marks is None or before.marks is None or before.marks != marks
            settled_ns = self._clock.wall_ns() - SECOND
            is_settled = marks is not None and max(marks[0], marks[2]) < settled_ns
            self._seen[core] = _Seen(marks) if is_settled else _FRESH

    def _marks(self, core: int) -> _Marks | None:
        folder = core_folder(core)
        log = self._disk.stat(f"{folder}/wal/{ACTIVE_NAME}")
        segments = self._disk.stat(f"{folder}/segments")
        if log is None or segments is None:
            return None
        return log.modified_ns, log.size, segments.modified_ns

    def may_have_more(self, core: int) -> bool:
        """Whether something may have come since the log was read last."""
        return self._changed.get(core, True)

    def look_once_more(self) -> bool:
        """Look behind the logs; False if a partition that was closed has begun meanwhile."""
        for core, saved in self._saved.items():
            if saved is None or saved.closed:
                now = read_timeline(self._disk, core_folder(core))
                if now != saved:
                    return False
        return True

    def allows(self, best: Key, idle: Mapping[int, int]) -> bool:
        """Whether no idle partition, each at some time already, can have more before a message."""
        for core, at_ns in idle.items():
            saved = self._saved.get(core)
            if core not in self._saved:
                return False
            if saved is None or saved.closed:
                continue
            least_ns = max(saved.least_ns, at_ns + (saved.rule == "writer"))
            if not (best.time_ns, best.partition) < (least_ns, core):
                return False
        return True
