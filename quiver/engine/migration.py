"""Give a store another slot table, so that a crash at any point leaves the old one or the new one.

::

    under the locks of all cores                        a crash before this step opens with
    1  recover each core, finalize, close               the old table
    2  each log: an empty file of the old layout        the old table
    3  quiver.json: new table, and what it replaces     the old table      <- decides
    4  each log: an empty file of the new layout        the new table; ``settle`` does this step
    5  quiver.json: without what it replaces            the new table

Between 3 and 4 a log has the layout that quiver.json replaces. It cannot hold a bundle, because of
step 2, so the next opening of its core puts an empty one of the new layout in its place. Segments
are not touched: they are read by slot id, so a slot keeps its id as long as they hold data of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

from quiver.clock import Clock
from quiver.config import Config, RecoveryConfig
from quiver.disk import Disk, HeldDisk, remove
from quiver.disk import replace as replace_file
from quiver.engine import maintenance
from quiver.engine.core import Core, core_folder, core_numbers, covered_place
from quiver.engine.recovery import Watch, open_core
from quiver.errors import InputError
from quiver.manifest import MANIFEST_NAME, StoreManifest
from quiver.segment import Catalog, SegmentReader
from quiver.slots import SLOTS_MAX, Slot, SlotTable
from quiver.wal import ACTIVE_NAME, Place, rotated_generation
from quiver.wal.format import HEADER_BYTES, encode_header
from quiver.wal.truncate import read_sidecar, write_sidecar

__all__ = ["Changes", "layout_of_log", "migrate", "settle"]


@dataclass(frozen=True, slots=True)
class Changes:
    """What is to become of a slot table: slots dropped, then renamed, then added, then retyped.

    ``add`` maps names to ids, None for the lowest one that is free.
    """

    add: Mapping[str, int | None] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    payload_types: Mapping[str, int] = field(default_factory=dict)

    def apply(self, table: SlotTable) -> SlotTable:
        """Give the table after the changes; raises InputError for one that cannot be."""
        gone = {table[name].slot_id for name in self.drop}
        renamed = {table[name].slot_id: new for name, new in self.rename.items()}
        if both := gone & renamed.keys():
            raise InputError(f"slot {table[both.pop()].name!r} cannot be both dropped and renamed")
        slots = [
            replace(slot, name=renamed.get(slot.slot_id, slot.name))
            for slot in table
            if slot.slot_id not in gone
        ]
        taken = {slot.slot_id for slot in slots} | {i for i in self.add.values() if i is not None}
        free = (slot_id for slot_id in range(SLOTS_MAX) if slot_id not in taken)
        for name, wanted in self.add.items():
            slot_id = next(free, SLOTS_MAX) if wanted is None else wanted
            slots.append(Slot(slot_id, name, slot_id))
        made = SlotTable(slots)
        types = {made[name].slot_id: type_id for name, type_id in self.payload_types.items()}
        return SlotTable(
            replace(slot, payload_type_id=types.get(slot.slot_id, slot.payload_type_id))
            for slot in made
        )


def migrate(
    disk: Disk,
    changes: Changes,
    *,
    config: Config,
    clock: Clock,
    watch: Watch | None = None,
) -> tuple[SlotTable, SlotTable]:
    """Change the slot table of a store that nobody has open; give the old table and the new one.

    When this returns the new one is there for good. With nothing to change it finishes a migration
    that was broken off. Raises InputError for a change that the data forbids, DamageError for a
    store that must be repaired first, LockedError; the old table stays then.
    """
    # Who makes a new core takes this lock as well: none comes that nobody here knows of.
    with HeldDisk(disk, [f"{MANIFEST_NAME}.lock"]) as alone:
        manifest = StoreManifest.read(alone)
        table = changes.apply(manifest.slots)
        cores = core_numbers(alone)
        with HeldDisk(alone, [f"{core_folder(number)}/LOCK" for number in cores]) as held:
            for number in cores:
                _settle(held, number, manifest)
            if table != manifest.slots:
                strict = replace(config, recovery=RecoveryConfig(policy="strict"))
                for number in cores:
                    core = open_core(
                        held, number, slots=None, config=strict, clock=clock, watch=watch
                    )
                    _empty_log(core)
                _check_data(held, cores, changes, tables=(manifest.slots, table))
                _switch(held, cores, manifest, table=table)
            if manifest.replaces is not None or table != manifest.slots:
                StoreManifest(manifest.store_id, table).write(held)
    return manifest.slots, table


def settle(disk: Disk, number: int) -> None:
    """Finish a migration for one core, if one was broken off behind its decision."""
    if disk.stat(MANIFEST_NAME) is not None and disk.stat(core_folder(number)) is not None:
        manifest = StoreManifest.read(disk)
        if manifest.replaces is not None:
            with HeldDisk(disk, [f"{core_folder(number)}/LOCK"]) as held:
                _settle(held, number, manifest)


def layout_of_log(disk: Disk, number: int, manifest: StoreManifest) -> bytes:
    """Give the digest that the log of a core has to have, for whoever reads it without a lock."""
    if manifest.replaces is not None and _is_empty(disk, number, manifest.replaces):
        return manifest.replaces
    return manifest.layout_digest


def _settle(disk: Disk, number: int, manifest: StoreManifest) -> None:
    if manifest.replaces is not None and _is_empty(disk, number, manifest.replaces):
        _begin_log(disk, number, manifest.layout_digest)


def _is_empty(disk: Disk, number: int, digest: bytes) -> bool:
    """Whether the log of a core is one file of this layout without any entry."""
    folder = f"{core_folder(number)}/wal"
    if disk.stat(f"{folder}/{ACTIVE_NAME}") is None or _rotated(disk, folder):
        return False
    with closing(disk.open(f"{folder}/{ACTIVE_NAME}")) as file:
        return file.read(0, HEADER_BYTES + 1) == encode_header(digest)


def _rotated(disk: Disk, folder: str) -> dict[int, str]:
    found = {rotated_generation(entry.name): entry.name for entry in disk.list_dir(folder)}
    return {generation: name for generation, name in found.items() if generation is not None}


def _empty_log(core: Core) -> None:
    """Make all that the log of a core holds segments, and let go of the core."""
    try:
        with core.lock:
            maintenance.shut(core)
    finally:
        core.held.release()


def _check_data(
    disk: Disk, cores: Iterable[int], changes: Changes, *, tables: tuple[SlotTable, SlotTable]
) -> None:
    """Refuse a change that would hide data in segments, or give it another meaning."""
    before, after = tables
    changed = {after[name].slot_id: f"added as {name!r}" for name in changes.add}
    changed |= {before[name].slot_id: f"dropped as {name!r}" for name in changes.drop}
    for number in cores:
        for info in Catalog.load(disk, f"{core_folder(number)}/segments")[0]:
            with SegmentReader.open(disk, info.path) as reader:
                used = next((s for s in reader.streams if s.slot_id in changed), None)
            if used is not None:
                raise InputError(
                    f"slot id {used.slot_id} cannot be {changed[used.slot_id]}: "
                    f"{disk.locate(info.path)} holds {used.row_count:,} rows under it",
                    hint="it can once subscribers have acked that segment; or rename it",
                )


def _switch(disk: Disk, cores: Iterable[int], manifest: StoreManifest, *, table: SlotTable) -> None:
    """Change the table of a store whose logs hold nothing that is not in segments."""
    for number in cores:
        _begin_log(disk, number, manifest.layout_digest)
    after = StoreManifest(manifest.store_id, table, replaces=manifest.layout_digest)
    after.write(disk)
    for number in cores:
        _begin_log(disk, number, after.layout_digest)


def _begin_log(disk: Disk, number: int, digest: bytes) -> None:
    """Put a file without an entry in the place of a log whose bundles are all in segments.

    Its generation is new, so no place that a segment names is in it. The sidecar says so first.
    """
    folder = f"{core_folder(number)}/wal"
    if disk.stat(folder) is None:
        return
    rotated = _rotated(disk, folder)
    covered = covered_place(Catalog.load(disk, f"{core_folder(number)}/segments")[0])
    sidecar, _ = read_sidecar(disk, folder)
    known = [place.generation for place in (covered, sidecar) if place is not None]
    generation = max([*known, *(old + 1 for old in rotated), 1])
    write_sidecar(disk, folder, Place(generation + 1, HEADER_BYTES))
    for name in rotated.values():
        remove(disk, f"{folder}/{name}")
    disk.sync_dir(folder)
    replace_file(disk, f"{folder}/{ACTIVE_NAME}", encode_header(digest))
