"""Which core a writer gets: the one it asks for, or the first that nobody has.

::

    1  cores that have a folder, lowest number first: whose LOCK is free is taken
    2  the same once more, under quiver.json.lock: a migration or a repair was waited for
    3  the lowest number without a folder, under the same lock

``flock`` decides: two writers that come at once get two cores. Who only visits a core, to adopt or
to tend it, holds its VISIT as well and is gone again soon, so it is waited for: otherwise a writer
that starts again at that moment would get another core than before. The same goes for who only
looks whether it is free, at each of its ticks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final

from quiver.clock import Clock
from quiver.config import Config
from quiver.disk import Disk, HeldDisk, Lock, lock_within
from quiver.engine.budget import check_share
from quiver.engine.core import Core
from quiver.engine.heirs import inherit
from quiver.engine.maintenance import let_go
from quiver.engine.migration import settle
from quiver.engine.numbers import CORES_MAX, core_folder, core_numbers
from quiver.engine.recovery import Watch, check_place, lock_core, open_core
from quiver.errors import InputError, LockedError
from quiver.manifest import MANIFEST_NAME, StoreManifest
from quiver.slots import SlotTable

__all__ = ["VISIT_NAME", "check_core", "open_any", "visiting", "visiting_any", "visiting_patiently"]

VISIT_NAME: Final = "VISIT"
_PATIENCE_SECONDS: Final = 30.0
"""Longer than a recovery takes; so long a visitor that is stopped keeps one writer waiting."""
_GLANCE_SECONDS: Final = 0.03
"""Who only looks whether a core is free has its LOCK for a moment, and no VISIT."""


def check_core(core: object) -> None:
    """Raise InputError unless this is the number of a core, or None."""
    if core is None:
        return
    if isinstance(core, bool) or not isinstance(core, int) or not 0 <= core < CORES_MAX:
        raise InputError(f"core: {core!r} is not a whole number from 0 to {CORES_MAX - 1}")


def open_any(
    disk: Disk,
    core: int | None,
    *,
    slots: SlotTable | None,
    config: Config,
    clock: Clock,
    watch: Watch | None = None,
) -> Core:
    """Lock, recover and give the core of that number, or with None the first that is free."""
    create = slots is not None
    check_place(disk, create=create)
    if disk.stat(MANIFEST_NAME) is not None:  # What is refused leaves no new core behind.
        manifest = StoreManifest.read(disk)
        if slots is not None:
            manifest.check_slots(slots)
    if core is None:
        number, held = _first_free(disk, config, create=create)
    else:
        number, held = core, _lock(disk, core, config, create=create)
    opened = open_core(
        disk, number, slots=slots, config=config, clock=clock, watch=watch, held=held
    )
    try:
        inherit(opened)
    except BaseException:
        let_go(opened)
        held.release()
        raise
    return opened


def _first_free(disk: Disk, config: Config, *, create: bool) -> tuple[int, Lock]:
    for number in core_numbers(disk):
        try:
            if number < CORES_MAX:
                return number, _lock(disk, number, config, create=create)
        except LockedError:
            continue
    with closing(_Making(disk)):
        numbers = core_numbers(disk)
        for number in numbers:
            try:
                if number < CORES_MAX:
                    return number, _lock_now(disk, number, config, create=create)
            except LockedError:
                continue
        for number in sorted({*range(CORES_MAX)} - {*numbers}):
            # Who sees the folder before its lock is taken may be faster.
            with suppress(LockedError):
                return number, _lock_now(disk, number, config, create=create)
    raise LockedError(
        f"all {CORES_MAX} cores of {disk.locate('')} are being written",
        hint="close one of these writers first; readers need no lock: quiver.scan(path)",
    )


def _lock(disk: Disk, number: int, config: Config, *, create: bool) -> Lock:
    """Take the lock of a core; who only visits it is waited for."""
    if disk.stat(core_folder(number)) is None:
        with closing(_Making(disk)):
            return _lock_now(disk, number, config, create=create)
    try:
        return _lock_now(disk, number, config, create=create)
    except LockedError:
        try:
            visitor = lock_within(disk, f"{core_folder(number)}/{VISIT_NAME}", _PATIENCE_SECONDS)
        except LockedError:
            pass
        else:
            with closing(_Let(visitor)):
                lock_within(disk, f"{core_folder(number)}/LOCK", _GLANCE_SECONDS).release()
                return _lock_now(disk, number, config, create=create)
        raise


def _lock_now(disk: Disk, number: int, config: Config, *, create: bool) -> Lock:
    check_share(disk, number, config)
    settle(disk, number)
    return lock_core(disk, number, create=create)


@contextmanager
def visiting(disk: Disk, number: int) -> Iterator[Disk]:
    """Keep writers out of a core for a while, to tend it; gives a disk to open it from.

    Raises LockedError if it is being written, or tended. A writer that comes meanwhile waits.
    """
    folder = core_folder(number)
    disk.lock(f"{folder}/LOCK").release()  # Where somebody writes, nothing is left behind.
    with HeldDisk(disk, [f"{folder}/{VISIT_NAME}", f"{folder}/LOCK"]) as held:
        yield held


@contextmanager
def visiting_patiently(disk: Disk, number: int) -> Iterator[Disk]:
    """Do the same, but wait for who tends it; LockedError if a writer has it."""
    with _visit(disk, number) as held:
        yield held


@contextmanager
def visiting_any(disk: Disk, config: Config, *, first: int | None) -> Iterator[tuple[Disk, int]]:
    """Keep writers out of a core for a while, to add to it; gives a disk to open it from.

    That is ``first`` if nobody writes it, else the first that nobody writes, else a new one. Who
    tends one of them is waited for.
    """
    with closing(_Closed(*_visit_first(disk, config, first))) as found:
        yield found.held, found.number


def _visit_first(disk: Disk, config: Config, first: int | None) -> tuple[HeldDisk, int]:
    if (found := _visit_free(disk, first)) is not None:
        return found
    with closing(_Making(disk)):
        if (found := _visit_free(disk, first)) is not None:  # Who only looked at a lock is gone.
            return found
        for number in sorted({*range(CORES_MAX)} - {*core_numbers(disk)}):
            check_share(disk, number, config)
            disk.make_dir(core_folder(number))
            with suppress(LockedError):
                return _held(disk, number), number
    raise LockedError(
        f"all {CORES_MAX} cores of {disk.locate('')} are being written",
        hint="close one of these writers first",
    )


def _visit_free(disk: Disk, first: int | None) -> tuple[HeldDisk, int] | None:
    for number in sorted(core_numbers(disk), key=lambda number: (number != first, number)):
        with suppress(LockedError):
            if number < CORES_MAX:
                return _visit(disk, number), number
    return None


def _visit(disk: Disk, number: int) -> HeldDisk:
    """Keep writers out of one core; raises LockedError if one is there."""
    folder = core_folder(number)
    try:
        disk.lock(f"{folder}/LOCK").release()  # As in ``visiting``.
    except LockedError:
        if disk.stat(f"{folder}/{VISIT_NAME}") is None:
            raise
        lock_within(disk, f"{folder}/{VISIT_NAME}", _PATIENCE_SECONDS).release()
    held = _held(disk, number)
    try:
        settle(held, number)
    except BaseException:
        held.release()
        raise
    return held


def _held(disk: Disk, number: int) -> HeldDisk:
    folder = core_folder(number)
    return HeldDisk(disk, [f"{folder}/{VISIT_NAME}", f"{folder}/LOCK"])


class _Closed:
    """Held locks as something to be closed."""

    def __init__(self, held: HeldDisk, number: int) -> None:
        self.held, self.number, self.close = held, number, held.release


class _Let:
    """A lock as something to be closed."""

    def __init__(self, lock: Lock) -> None:
        self.close = lock.release


class _Making(_Let):
    """Who makes a core, migrates or repairs the store keeps the others of these out."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk.lock(f"{MANIFEST_NAME}.lock", wait=True))
