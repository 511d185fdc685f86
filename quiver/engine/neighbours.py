"""The cores that nobody writes any more: the worker of any other core adopts them.

At each tick it looks at one of them. One that was free for a while, so that a writer who only
starts again is not in the way of it, is adopted in a thread of its own: it takes as long as a
recovery, and no append waits for that. Afterwards it is left alone until something in it changes:
an inbox, which may let segments go. Where segments grow too old it is looked after from time to
time, since there they do so too, and its store clock has to be told how much time has passed.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Final

from quiver.acks.opening import LOG_NAME
from quiver.engine.adoption import adopt_core
from quiver.engine.core import Core
from quiver.engine.numbers import core_bytes, core_folder, core_numbers
from quiver.engine.threads import begin_thread
from quiver.errors import LockedError, QuiverError
from quiver.units import SECOND
from quiver.wal import ACTIVE_NAME

__all__ = ["Neighbours"]

_GRACE_NS: Final = 5 * SECOND
"""For so long a core must have been free."""
_RETRY_NS: Final = 60 * SECOND
"""What failed is tried again after so long, even if nothing changed: a disk may have room again."""
_VISITS: Final = 16
"""How often in the time after which segments are too old: less than half of it is believed."""
_HOUR_NS: Final = 3600 * SECOND
_NEVER: Final = 1 << 63
_SIGNS: Final = (
    *("wal", "segments", "acks", "acks/inbox"),
    *(f"wal/{ACTIVE_NAME}", f"acks/{LOG_NAME}"),
)
"""Folders in which names come and go, and the files that grow."""

Signs = tuple[tuple[str, int, int], ...]


class _StoppedError(Exception):
    """The store here is being closed: what was begun is left to others."""


class Neighbours:
    """The other cores of a store, as the worker of one of them sees them."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._turn = -1
        self._free_since: dict[int, int] = {}
        self._left: dict[int, Signs] = {}
        """What was there when an adoption ended, or failed."""
        self._failed: dict[int, str] = {}
        """What was told of one that failed."""
        self._rest_until: dict[int, int] = {}
        """When it is adopted again although nothing changed; never, if it is not in here."""
        self._spent_until: dict[int, int] = {}
        """Until when one that could make no room is not asked again."""
        self._thread: threading.Thread | None = None
        self._stopping = False

    def look(self) -> None:
        """Look at the next of the others, and begin to adopt it if that is due."""
        if self._stopping or (self._thread is not None and self._thread.is_alive()):
            return
        with contextlib.suppress(QuiverError):
            others = [n for n in core_numbers(self._core.disk) if n != self._core.number]
            if not others:
                return
            self._turn = next((n for n in others if n > self._turn), others[0])
            if self._is_due(self._turn):
                name = f"quiver-adopt-{self._turn}"
                arguments = (self._turn, self._signs(self._turn))
                thread = threading.Thread(
                    target=self._adopt, args=arguments, name=name, daemon=True
                )
                begin_thread(thread)
                self._thread = thread  # Not before: one that never began cannot be waited for.

    def stop(self) -> None:
        """Break off what was begun, as a crash would, and wait for that."""
        self._stopping = True
        if self._thread is not None:
            self._thread.join()

    def _is_due(self, number: int) -> bool:
        core = self._core
        if core.disk.stat(f"{core_folder(number)}/wal") is None:
            return False  # It is about to be made.
        now = core.clock.monotonic_ns()
        rest_until = self._rest_until.get(number, _NEVER)
        if self._left.get(number) == self._signs(number) and now < rest_until:
            budget = core.budget
            is_spent = now < self._spent_until.get(number, now)
            if is_spent or not self._lacking():
                return False
            if core_bytes(core.disk, number) <= budget.even:
                return False
        try:
            # No VISIT for this: it would be written to at each tick.
            core.disk.lock(f"{core_folder(number)}/LOCK").release()
        except LockedError:
            for known in (self._free_since, self._left, self._failed, self._rest_until):
                known.pop(number, None)
            return False
        since = self._free_since.setdefault(number, now)
        return core.budget.is_short or now - since >= _GRACE_NS

    def _signs(self, number: int) -> Signs:
        """Tell one state of a core from the next; costs the same however much is there."""
        folder = core_folder(number)
        found = ((name, self._core.disk.stat(f"{folder}/{name}")) for name in _SIGNS)
        return tuple((name, s.size, s.modified_ns) for name, s in found if s is not None)

    def _adopt(self, number: int, before: Signs) -> None:
        core, lacking = self._core, self._lacking()
        try:
            adopted = adopt_core(
                core.disk,
                number,
                config=core.config,
                clock=core.clock,
                watch=self._check,
                give_bytes=lacking,
                keep_bytes=core.budget.even,
            )
        except (LockedError, _StoppedError):
            return
        except Exception as error:  # noqa: BLE001 It is told, and tried again.
            self._rest(number, error, before)
            return
        self._failed.pop(number, None)
        self._left[number] = self._signs(number)
        self._rest_until[number] = self._next_visit(number)
        if lacking and not adopted.deleted_segments:
            self._spent_until[number] = core.clock.monotonic_ns() + _RETRY_NS
        core.events.info(
            "core.adopted",
            other_core=number,
            replayed_bundle_count=adopted.recovery.replayed_bundles,
            written_segment_count=adopted.written_segments,
            deleted_segment_count=adopted.deleted_segments,
        )
        core.events.tell()

    def _lacking(self) -> int:
        """Say how much the dead are to make room for, of what they have above an even part."""
        drops = self._core.config.retention.size_cap_policy == "drop_oldest"
        return self._core.budget.lacking if drops else 0

    def _next_visit(self, number: int) -> int:
        """Say when segments that are there may have grown too old."""
        core = self._core
        limit_ns = int(core.config.retention.max_retain_after_ingestion_hours * _HOUR_NS)
        with contextlib.suppress(QuiverError):
            if limit_ns and core.disk.list_dir(f"{core_folder(number)}/segments"):
                return core.clock.monotonic_ns() + max(limit_ns // _VISITS, _RETRY_NS)
        return _NEVER

    def _rest(self, number: int, error: Exception, before: Signs) -> None:
        """Leave a core alone for a while, and say once why."""
        core, why = self._core, repr(error)
        if self._failed.get(number) != why:
            core.events.warning("core.adopt_failed", other_core=number, error=error)
            core.events.tell()
        self._failed[number] = why
        self._rest_until[number] = core.clock.monotonic_ns() + _RETRY_NS
        with contextlib.suppress(QuiverError):
            before = self._signs(number)  # A recovery that fails leaves its marks as well.
        self._left[number] = before

    def _check(self, _: object) -> None:
        if self._stopping:
            raise _StoppedError
