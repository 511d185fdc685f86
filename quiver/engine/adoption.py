"""Finish what the writer of a core left behind: its log becomes a segment, what all have goes.

Whoever asks does it: ``quiver.adopt``, ``quiver gc``, and the worker of any store that is open
(``neighbours``). The core stays as it is, for whoever opens it next; nothing of it moves to
another one, so order and numbers are those of its own writer.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from quiver.clock import Clock
from quiver.config import Config
from quiver.disk import Disk
from quiver.engine import maintenance
from quiver.engine.budget import leave_behind
from quiver.engine.census import usage
from quiver.engine.core import RecoveryReport
from quiver.engine.cores import visiting
from quiver.engine.migration import settle
from quiver.engine.numbers import core_numbers
from quiver.engine.recovery import Watch, open_core
from quiver.engine.space import drop_surplus
from quiver.errors import LockedError, QuiverError
from quiver.manifest import StoreManifest

__all__ = ["Adopted", "adopt_all", "adopt_core"]


@dataclass(frozen=True, slots=True)
class Adopted:
    """A core that was adopted, and what came of it."""

    core: int
    recovery: RecoveryReport
    written_segments: int
    """How many segments the bundles of its log became."""
    deleted_segments: int
    """How many went because every subscriber is done with them."""


def adopt_all(disk: Disk, *, config: Config, clock: Clock) -> tuple[Adopted, ...]:
    """Adopt each core that nobody writes; MissingError if there is no store."""
    StoreManifest.read(disk)
    done = []
    for number in core_numbers(disk):
        try:
            done.append(adopt_core(disk, number, config=config, clock=clock))
        except LockedError:
            continue
    return tuple(done)


def adopt_core(
    disk: Disk,
    number: int,
    *,
    config: Config,
    clock: Clock,
    watch: Watch | None = None,
    give_bytes: int = 0,
    keep_bytes: int = 0,
) -> Adopted:
    """Adopt one core. Raises LockedError if somebody writes or tends it.

    The cap is that of its next writer: no headroom is kept, but nothing is dropped here either, or,
    under ``drop_oldest``, no more than ``give_bytes`` of what is above ``keep_bytes``.
    """
    kept = replace(config.retention, size_cap=0, steady_state_headroom=0)
    with visiting(disk, number) as held:
        settle(held, number)
        core = open_core(
            held,
            number,
            slots=None,
            config=replace(config, retention=kept),
            clock=clock,
            watch=watch,
        )
        with core.events.telling(), core.lock:
            before = {info.segment_seq for info in core.catalog}
            if give_bytes:
                drop_surplus(core, min(give_bytes, usage(core).total_bytes - keep_bytes))
            maintenance.shut(core)
            gone = before - {info.segment_seq for info in core.catalog}
        with suppress(QuiverError):  # It is a hint, and may be of a newer version.
            leave_behind(disk, number, store_id=core.manifest.store_id)
    written = core.metrics.read().get(("quiver.segment.finalized_segments", ""), 0)
    return Adopted(number, core.report, written, len(gone))
