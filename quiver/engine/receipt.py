"""What ``append(wait=False)`` gives: proof to come that a bundle is durable."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quiver.engine.store import Store
    from quiver.wal import Place

__all__ = ["Receipt"]


class Receipt:
    """One appended bundle: its ``wal_seq``, and a way to wait until it survives a power cut."""

    __slots__ = ("_place", "_store", "wal_seq")

    def __init__(self, store: Store, wal_seq: int, place: Place) -> None:
        self.wal_seq = wal_seq
        self._store = store
        self._place = place

    def wait(self) -> int:
        """Return the wal_seq once the bundle is durable; many receipts share one sync.

        With ``wal.durability`` ``interval`` or ``segment`` this returns at once, as append does.
        """
        self._store.sync_place(self._place)
        return self.wal_seq

    def __repr__(self) -> str:
        """Name the bundle."""
        return f"Receipt(wal_seq={self.wal_seq})"
