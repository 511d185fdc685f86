"""Folders of the Rust Quiver that are taken over, and what must come out of it."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import upstream_kit as kit

import quiver
from quiver.cli.audit import audit
from quiver.config import Config
from quiver.disk import FolderDisk
from quiver.engine.inventory import CoreStock, take_stock
from quiver.engine.takeover import take_over
from quiver.slots import Slot, SlotTable
from quiver.testing import ManualClock, MemoryDisk
from quiver.upstream import find

TABLE = SlotTable([Slot(30, "logs", 30), Slot(31, "slot_31", 31)])


def entry(text: str, *, at: int = 7) -> bytes:
    return kit.wal_entry(0, [(31, kit.logs(f"{text} attrs")), (30, kit.logs(text))], at=at)


def write_core(folder: kit.Folder, tag: str = "") -> None:
    """Two segments, one bundle in the log that they hold and two that they do not, two readers."""
    folder.add_segment(3, {30: kit.logs(f"{tag}0", f"{tag}0")}, {31: kit.logs(f"{tag}1")})
    folder.add_segment(8, {31: kit.logs(f"{tag}2"), 30: kit.logs(f"{tag}2")}, {})
    covered, *new = (entry(f"{tag}{number}", at=number) for number in (3, 4, 5))
    folder.add_log(covered, *new, position=900)
    folder.set_cursor(900 + len(covered))
    folder.set_progress("spark", (3, 2, {0}), (8, 2, {1}), (1, 9, range(9)))
    folder.set_progress("-", (3, 2, {0, 1}), (8, 2, ()), (41, 1, ()))


BUNDLES = ["0 0", "1", "2 2", "", "4 4 attrs", "5 5 attrs"]
"""What each bundle of such a core says in its slots, in order."""


def stocks_of(disk) -> list[CoreStock]:
    folder = find(disk)
    assert folder is not None
    limits = Config().limits.for_reading()
    return [take_stock(core, limits, lambda _: None) for core in folder.cores]


def take(source, parent: MemoryDisk, *, table: SlotTable = TABLE, **config: object) -> None:
    take_over(
        stocks_of(source),
        parent,
        "store",
        slots=table,
        config=Config.of(config),
        clock=ManualClock(),
    )


def opened(parent: MemoryDisk, core: int = 0) -> quiver.Store:
    disk = FolderDisk(parent, "store")
    return quiver.open("memory", disk=disk, core=core, clock=ManualClock(), worker=False)


def said(bundle: Mapping[str, pa.RecordBatch]) -> str:
    return " ".join(text for batch in bundle.values() for text in batch["body"].to_pylist())


def taken(store: quiver.Store, name: str) -> list[str]:
    found = []
    subscription = store.subscribe(name)
    while (handle := subscription.poll()) is not None:
        with handle:
            found.append(said(handle))
    return found


def findings(parent: MemoryDisk, name: str = "store") -> list[str]:
    found = audit(FolderDisk(parent, name), lambda _: None)
    return [f"{each.kind} {each.path} {each.message}" for each in found]
