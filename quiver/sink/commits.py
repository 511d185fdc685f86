"""All that a job has staged becomes segments, once; or all of it goes.

::

    under sinks/<sink>.lock                              a crash before this step leaves
    1  finish what an earlier commit has decided         that, for whoever comes next
    2  the sink's record: is this batch in already?      staged files
    3  a core that nobody writes: recover, finalize      staged files
    4  copies under the numbers of the core              copies, which its next opening removes
    5  core_N/intake.json                                the batch, not in     <- decides
    6  names, the record, the journal away               the batch, in: any opening finishes it
    7  what else the sink had staged                     garbage

Steps 5 and 6 are the engine's (``engine/intake_journal``). Who repeats a batch finds it in the
record or in the journal; a batch that is not in either is not in the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Final

from quiver.clock import Clock
from quiver.config import Config
from quiver.disk import Disk, lock_within, remove
from quiver.engine import maintenance
from quiver.engine.cores import visiting_any, visiting_patiently
from quiver.engine.heirs import inherit
from quiver.engine.intake import take_in
from quiver.engine.intake_journal import (
    SINKS,
    check_doubt,
    is_decided,
    read_done,
    settle_intake,
)
from quiver.engine.numbers import STAGING, core_numbers
from quiver.engine.recovery import open_core
from quiver.errors import InputError, LockedError, QuiverError
from quiver.manifest import StoreManifest
from quiver.sink.names import Job
from quiver.sink.stage import Staged, gone

__all__ = ["Committed", "abort", "commit", "settle_cores"]

_PATIENCE_SECONDS: Final = 120.0
"""So long another commit of the same sink is waited for."""


@dataclass(frozen=True, slots=True)
class Committed:
    """Where a batch is. ``is_repeated``: it was in before; no ``core``: there was nothing in it."""

    core: int | None
    segment_seqs: tuple[int, ...]
    row_count: int
    is_repeated: bool


def commit(
    disk: Disk, job: Job, parts: Sequence[Staged], *, config: Config, clock: Clock
) -> Committed:
    """Let in what the tasks of a job have staged, in this order, all at once and once.

    When this returns the batch survives a power cut. If it raises, the batch is in as a whole or
    not at all, and committing it again under the same sink and batch id finds out which. A batch
    that is in already is passed over, whoever staged it. Raises InputError for a batch older than
    the last one, LockedError, CapacityError, DamageError.
    """
    files = [path for part in parts for path in part.files]
    StoreManifest.read(disk)
    if not files:
        return Committed(None, (), 0, is_repeated=False)
    with ExitStack() as stack:
        if job.sink:
            disk.make_dir(SINKS)
            stack.callback(_lock(disk, job.sink))
            settle_cores(disk)
            done = read_done(disk, job.sink)
            if done is not None and job.batch_id <= done.batch_id:
                if job.batch_id < done.batch_id:
                    raise _too_old(job, done.batch_id)
                _remove(disk, files)
                return Committed(done.core, done.segment_seqs, done.row_count, is_repeated=True)
            check_doubt(disk, job.sink)
            first = None if done is None else done.core
        else:
            first = None
        _check_there(disk, files)
        made = _take(disk, job, files, first=first, config=config, clock=clock)
        with suppress(QuiverError):
            _remove(disk, _stale(disk, job.stale_prefix))
        return made


def abort(disk: Disk, job: Job | None, parts: Iterable[Staged]) -> None:
    """Take back what a job has staged, as far as the disk allows; what is in stays in.

    With a job also what its tasks did not tell of.
    """
    files = [path for part in parts for path in part.files]
    with suppress(QuiverError):
        _remove(disk, files)
        if job is not None:
            _remove(disk, _stale(disk, job.prefix))


def _lock(disk: Disk, sink: str) -> Callable[[], None]:
    return lock_within(disk, f"{SINKS}/{sink}.lock", _PATIENCE_SECONDS).release


def settle_cores(disk: Disk) -> None:
    """Finish what commits had decided when they were broken off.

    From then on ``read_done`` says all that is in. Raises LockedError, DamageError.
    """
    for number in core_numbers(disk):
        if not is_decided(disk, number):
            continue
        try:
            with visiting_patiently(disk, number) as held:
                settle_intake(held, number, certain=True)
        except LockedError:
            # Its writer has done so by now, or does it just now.
            if is_decided(disk, number):
                raise


def _take(
    disk: Disk, job: Job, files: Sequence[str], *, first: int | None, config: Config, clock: Clock
) -> Committed:
    """Open a core that nobody writes, take the files in, and leave it to the next one."""
    with visiting_any(disk, config, first=first) as (held, number):
        core = open_core(held, number, slots=None, config=config, clock=clock)
        try:
            inherit(core)
            with core.lock:
                done = take_in(core, files, sink=job.sink, batch_id=job.batch_id)
        except BaseException:
            with core.lock:
                maintenance.let_go(core)
            core.events.tell()
            raise
        with core.lock:
            maintenance.shut(core)
        core.events.tell()
    return Committed(number, done.segment_seqs, done.row_count, is_repeated=False)


def _check_there(disk: Disk, files: Iterable[str]) -> None:
    for path in files:
        if disk.stat(path) is None:
            raise gone(disk, path)


def _too_old(job: Job, last: int) -> InputError:
    return InputError(
        f"batch {job.batch_id} of sink {job.sink} comes after batch {last}, which is in already",
        hint="its checkpoint, or its batchId, was set back; what it has to write may be new, and "
        "may be in already: begin with a new checkpoint or sinkId",
    )


def _stale(disk: Disk, prefix: str) -> list[str]:
    if disk.stat(STAGING) is None:
        return []
    names = [entry.name for entry in disk.list_dir(STAGING)]
    return [f"{STAGING}/{name}" for name in names if name.startswith(prefix)]


def _remove(disk: Disk, paths: Iterable[str]) -> None:
    for path in paths:
        remove(disk, path)
