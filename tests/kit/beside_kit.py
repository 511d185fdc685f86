"""A store on a disk in RAM and subscribers in what could be other processes, for test folders."""

from __future__ import annotations

import dataclasses
from typing import Any

from store_kit import SLOTS, bundle

import quiver
from quiver.acks.inbox import Inbox
from quiver.acks.letterbox import read_inbox, write_inbox
from quiver.manifest import StoreManifest
from quiver.testing import ManualClock, MemoryDisk

FOLDER = "core_0/acks/inbox"


class Beside:
    """One disk, one clock; stores and consumers come and go over it."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.clock = ManualClock()
        self.appended = 0

    def open(self, **config: Any) -> quiver.Store:
        return quiver.open(
            "memory", slots=SLOTS, disk=self.disk, clock=self.clock, worker=False, config=config
        )

    def subscribe(self, name: str = "reader", **options: Any) -> quiver.Consumer:
        options = {"disk": self.disk, "clock": self.clock, "worker": False} | options
        return quiver.subscribe("memory", name, **options)

    def fill(self, store: quiver.Store, *counts: int) -> None:
        """Append so many bundles for each segment; their numbers go on from the last ones."""
        for count in counts:
            for _ in range(count):
                store.append(bundle(self.appended))
                self.appended += 1
            store.finalize()

    def die(self, store: quiver.Store) -> None:
        """Let a store go as kill -9 does."""
        store._core.held.release()
        store._closed = True

    def inbox(self, name: str = "reader") -> Inbox:
        store_id = StoreManifest.read(self.disk).store_id
        return read_inbox(self.disk, FOLDER, name, store_id=store_id)

    def leave(self, inbox: Inbox, **changes: Any) -> None:
        """Leave a changed inbox, as who can write to the folder may."""
        write_inbox(self.disk, FOLDER, dataclasses.replace(inbox, **changes))

    def put(self, name: str, data: bytes) -> None:
        """Leave any bytes under a name."""
        path = f"{FOLDER}/{name}"
        if self.disk.stat(path) is not None:
            self.disk.unlink(path)
        file = self.disk.create(path)
        file.write(0, data)
        file.close()


def number(handle: Any) -> int:
    return int(handle["events"].column("n")[0].as_py())


def take(subscription: Any) -> list[int]:
    """Take all there is and ack it."""
    found = []
    while (handle := subscription.poll()) is not None:
        with handle:
            found.append(number(handle))
    return found


def peek(subscription: Any) -> list[int]:
    """Take all there is and give it back."""
    handles = []
    while (handle := subscription.poll()) is not None:
        handles.append(handle)
    found = [number(handle) for handle in handles]
    for handle in reversed(handles):
        handle.defer()
    return found
