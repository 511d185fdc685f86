"""Recovered bundles join the open segment, as if they were appended.

What is full is sealed, and written when one more is. So the last one is left to the store's worker,
or to who appends or maintains: an opening takes as long as it takes to read the log.
"""

from __future__ import annotations

from quiver.engine.core import Core
from quiver.engine.sealed import seal, write_sealed
from quiver.errors import CapacityError
from quiver.stored_run import StoredRun
from quiver.wal import Place

__all__ = ["join_run", "make_room"]


def join_run(core: Core, run: StoredRun) -> None:
    """Let bundles join that stand in the log one behind the other."""
    core.times.took(max(int(run.times.max()), 0))
    while run.bundle_count:
        make_room(core)
        taken = core.open_segment.add_run(run, core.clock.monotonic_ns())
        core.open_end = Place(run.generation, run.end_of(taken - 1))
        core.report.replayed_bundles += taken
        run = run.part(taken, run.bundle_count)


def make_room(core: Core) -> None:
    """Seal what joined so far, if it is full, not if it is old; on a full disk it stays in the log.

    A store must open on a full disk: its subscribers are the ones who can empty it.
    """
    if not core.open_segment.is_full or core.finalize_failure is not None:
        return
    try:
        write_sealed(core)
    except CapacityError:
        core.check()
    else:
        # It came as fast as the disk gave it, and was not filled while another one was written.
        core.open_segment.opened_ns = core.clock.monotonic_ns()
        seal(core)
