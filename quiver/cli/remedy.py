"""What a repair does to a store, found out by doing it: first to an overlay, then perhaps for real.

Both times the same is looked at: what is damaged before, what the store holds before and after,
and what is left of each damaged file. So a rehearsal says what the repair is going to say.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quiver.cli.audit import Finding, audit
from quiver.cli.holdings import take_holdings
from quiver.cli.inspect import listing
from quiver.cli.losses import Loss, find_losses
from quiver.clock import SystemClock
from quiver.config import Config
from quiver.disk import Disk, LocalDisk, copy_bytes
from quiver.engine.core import core_folder, core_numbers
from quiver.engine.salvage import salvage
from quiver.errors import DamageError, InputError
from quiver.manifest import StoreManifest

if TYPE_CHECKING:
    from quiver.engine import RecoveryProgress

__all__ = ["Fate", "Remedy", "copy_files", "look", "treat"]

_REASON_BYTES_MAX: Final = 1 << 16

Advance = Callable[[int], None]
Watch = Callable[["RecoveryProgress"], None]


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a damaged file: where its bytes are kept, and what is at its path then."""

    quarantine: tuple[str, ...]
    file: str


@dataclass(frozen=True, slots=True)
class Remedy:
    """What was done about the damage of a store. ``remains`` is what is still damaged."""

    fates: tuple[Fate, ...]
    losses: list[Loss]
    remains: list[Finding]
    slots: Mapping[int, str]
    """Names of slots by their ids."""


def look(disk: Disk, advance: Advance) -> tuple[list[Finding], list[Finding]]:
    """Find what is damaged in a store, and what is of another version."""
    found = [finding for finding in audit(disk, advance) if finding.kind != "note"]
    damage = [finding for finding in found if finding.kind == "damage"]
    return damage, [finding for finding in found if finding.kind == "version"]


def treat(
    disk: Disk,
    damage: Sequence[Finding],
    changed: Callable[[], Mapping[str, object]],
    *,
    watch: Watch,
) -> Remedy:
    """Salvage the store on a disk; ``changed`` names, afterwards, the files that are not as before.

    What nothing can mend is in ``remains``.
    """
    suspects = {finding.path for finding in damage}
    before = take_holdings(disk, suspects)
    try:
        salvage(disk, config=Config(), clock=SystemClock(), watch=watch)
    except DamageError as error:
        left = [finding for finding in damage if finding.path == error.path]
        return Remedy((), [], left or list(damage), {})
    losses = find_losses(before, take_holdings(disk, suspects))
    remains, _ = look(disk, lambda _: None)
    names = changed()
    slots = {slot.slot_id: slot.name for slot in StoreManifest.read(disk).slots}
    fates = tuple(_fate(disk, finding, names) for finding in damage)
    return Remedy(fates, losses, remains, slots)


def _fate(disk: Disk, finding: Finding, changed: Mapping[str, object]) -> Fate:
    path = finding.path.removeprefix(disk.locate("")).lstrip("/")
    state = "kept"
    if disk.stat(path) is None:
        state = "removed"
    elif path in changed:
        state = "rewritten"
    return Fate(tuple(_copies(disk, finding)), state)


def _copies(disk: Disk, finding: Finding) -> list[str]:
    """Find the copies in quarantine that were made because of a finding."""
    found = []
    for number in core_numbers(disk):
        folder = f"{core_folder(number)}/quarantine"
        names = [entry.name for entry in listing(disk, folder)]
        found += [
            f"{folder}/{name}"
            for name in names
            for suffix in (".json", ".reason")
            if name + suffix in names and _is_about(disk, f"{folder}/{name}{suffix}", finding)
        ]
    return found


def _is_about(disk: Disk, path: str, finding: Finding) -> bool:
    with closing(disk.open(path)) as file:
        text = file.read(0, _REASON_BYTES_MAX).decode(errors="replace")
    if path.endswith(".reason"):
        return finding.path in text
    try:
        fields = json.loads(text)
        if fields["path"] == posixpath.dirname(finding.path):  # A bundle that is no Arrow data.
            return bool(fields["reason"].endswith(finding.message))
        is_same_place = finding.station != "wal" or fields["offset"] == (finding.offset or 0)
        return is_same_place and bool(fields["path"] == finding.path)
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def copy_files(disk: Disk, paths: Sequence[str], folder: str) -> int:
    """Copy files to a new folder, under the same names, and give their bytes.

    When this returns the copies survive a power cut. Raises InputError if the folder is not empty.
    """
    with closing(LocalDisk(folder, create=True)) as target:
        if target.list_dir(""):
            raise InputError(f"{target.root} is not empty", hint="name a new folder: --backup")
        return sum(_copy_file(disk, path, target) for path in paths)


def _copy_file(disk: Disk, path: str, target: LocalDisk) -> int:
    parents = path.split("/")[:-1]
    for depth in range(len(parents)):
        target.make_dir("/".join(parents[: depth + 1]))
    with closing(disk.open(path)) as source, closing(target.create(path)) as copy:
        size = source.size()
        copy_bytes(source, copy, offset=0, length=size, at=0)
        copy.sync()
    for depth in range(len(parents), -1, -1):
        target.sync_dir("/".join(parents[:depth]))
    return size
