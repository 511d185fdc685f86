"""Quiver itself, by its public face."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import quiver
from bench.peers.peer import Bundle, Peer
from bench.wal.shapes import SLOTS

__all__ = ["Quiver"]


class Quiver(Peer):
    name = "quiver"
    settings = (
        "defaults (segments of 32 MiB, 25 ms, a worker); `wal.durability` `sync`, for the 25 ms "
        "`interval` with `wait=False`, acked when `Receipt.is_durable` says so. Log and finished "
        "segments are both written"
    )

    @classmethod
    def version(cls) -> str:
        return quiver.__version__

    def open(self) -> None:
        durability = "sync" if self.mode == "each" else "interval"
        self._store = quiver.open(
            self.folder / "store", slots=SLOTS, config={"wal": {"durability": durability}}
        )
        self._pending: deque[quiver.Receipt] = deque()

    def append(self, bundle: Bundle) -> None:
        if self.mode == "each":
            self._store.append(bundle)
            self.acked += 1
            return
        pending = self._pending
        pending.append(self._store.append(bundle, wait=False))
        while pending and pending[0].is_durable:
            pending.popleft()
            self.acked += 1

    def commit(self) -> None:
        """Do nothing: the store's own worker syncs as often."""

    def drain(self) -> None:
        self._store.flush()
        self.acked += len(self._pending)
        self._pending.clear()

    def close(self) -> None:
        self._store.close()

    def first(self) -> Bundle:
        subscription = self._store.subscribe("first")
        bundle = subscription.poll()
        if bundle is None:  # It is in the log alone.
            self._store.finalize()
            bundle = subscription.poll()
        assert bundle is not None
        found = {slot: bundle[slot] for slot in SLOTS}
        bundle.defer()  # What everybody has acked is deleted.
        return found

    def read_all(self) -> Iterator[Bundle]:
        self._store.finalize()
        for slot in SLOTS:
            for batch in quiver.scan(self.folder / "store", slot=slot).to_reader():
                yield {slot: batch}
