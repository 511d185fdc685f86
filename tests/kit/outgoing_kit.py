"""Bundles that are not waited for, and a disk that is full when their entries are written."""

from __future__ import annotations

from typing import Any

from store_kit import bundle, numbers

from quiver.engine import Receipt, Store
from quiver.testing import MemoryDisk

QUIET = {"flush_interval": "1h"}
LOG = "wal/quiver.wal"


def waiting(store: Store) -> int:
    return len(store._core.outgoing)


def send(store: Store, *some: int) -> list[Receipt]:
    return [store.append(bundle(n), wait=False) for n in some]


def is_entry(act: Any) -> bool:
    return type(act).__name__ == "Write" and act.path.endswith(LOG)


def fill(disk: MemoryDisk, store: Store, entry: int, error: str = "ENOSPC") -> None:
    """Leave room for so many of the entries that wait, and no more."""
    sizes = [one.byte_count for one in store._core.outgoing._entries]
    end = store._core.log.end.offset + sum(sizes[:entry])

    def refuses(act: Any) -> bool:
        return is_entry(act) and act.offset + len(act.data) > end

    disk.fail(refuses, error=error, sticky=True)


def numbers_after(store: Store) -> list[int]:
    store.finalize()
    return numbers(store)
