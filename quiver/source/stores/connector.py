"""``StoreConnector``: the cores of a local store as the splits of a source."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from os import PathLike
from typing import Final

from quiver.clock import Clock, SystemClock
from quiver.consumer import Consumer, subscribe
from quiver.disk import LocalDisk
from quiver.engine.numbers import core_numbers
from quiver.errors import MissingError, SourceError, StorageError
from quiver.manifest import StoreManifest
from quiver.source.protocols import Split, States
from quiver.source.stores.position import CONNECTOR, core_of, decode, split_id
from quiver.source.stores.reader import CoreReader

__all__ = ["StoreConnector", "StoreEnumerator"]


class StoreConnector:
    """Reads one slot of a store that other processes write, all cores, as they come.

    With a ``subscriber`` the store keeps what was not acknowledged yet; without one it may delete
    what was not read, and then ``fail_on_data_loss`` decides whether that is an error.
    """

    name: Final = CONNECTOR
    drops_splits: Final = True
    """A core whose folder is gone is drained."""

    def __init__(
        self,
        path: str | PathLike[str],
        slot: str,
        *,
        subscriber: str | None = None,
        fail_on_data_loss: bool = True,
        clock: Clock | None = None,
    ) -> None:
        """Read from the store in ``path``; nothing is opened yet."""
        self._path, self._slot, self._name = path, slot, subscriber
        self._fail_on_loss = fail_on_data_loss
        self._clock = clock or SystemClock()
        self._consumer: Consumer | None = None
        self._lock = threading.Lock()

    def enumerator(self) -> StoreEnumerator:
        """Look at the store; with a subscriber, register it in each core."""
        disk = self._open()
        try:
            if self._name is not None:
                self._subscriber(self._name)
            return StoreEnumerator(disk, self._slot)
        except BaseException:
            disk.close()
            raise

    def reader(self, split: Split, state: str | None, columns: Sequence[str] | None) -> CoreReader:
        """Restore a reader of one core."""
        disk = self._open()
        try:
            return CoreReader(
                disk,
                split.id,
                state,
                slot=self._slot,
                columns=columns,
                clock=self._clock,
                fail_on_loss=self._fail_on_loss,
                let_go=disk.close,
            )
        except BaseException:
            disk.close()
            raise

    def acknowledge(self, states: States) -> None:
        """Ack, as the subscriber, all bundles before these states; they are no longer kept."""
        if self._name is None:
            return
        consumer = self._subscriber(self._name)
        store_id = consumer.store_id
        consumer.ack_before(
            {core_of(split): decode(state, store_id) for split, state in states.items()}
        )

    def _subscriber(self, name: str) -> Consumer:
        with self._lock:
            if self._consumer is None or self._consumer.closed:
                self._consumer = subscribe(self._path, name, worker=False, clock=self._clock)
            return self._consumer

    def close(self) -> None:
        """Stop being the subscriber; a second call does nothing."""
        with self._lock:
            if self._consumer is not None:
                self._consumer.close()

    def _open(self) -> LocalDisk:
        try:
            return LocalDisk(self._path)
        except MissingError:
            raise
        except StorageError as error:
            raise SourceError(str(error), retryable=True) from error


class StoreEnumerator:
    """Lists the cores of a store."""

    def __init__(self, disk: LocalDisk, slot: str) -> None:
        """List those in ``disk``, closed with this; InputError if it has no such slot."""
        self._disk = disk
        manifest = StoreManifest.read(disk)
        self._properties = {"slot": manifest.slots[slot].name, "store": manifest.store_id}

    def list_splits(self) -> Sequence[Split]:
        """Give the cores that have a folder now."""
        try:
            cores = core_numbers(self._disk)
        except StorageError as error:
            raise SourceError(str(error), retryable=True) from error
        return sorted(
            (Split(split_id(core), self._properties) for core in cores), key=lambda split: split.id
        )

    def close(self) -> None:
        """Let go of the store."""
        self._disk.close()
