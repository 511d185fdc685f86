"""A restore that failed is run again, by the same restorer."""

from __future__ import annotations

from contextlib import suppress

import pytest
from beside_kit import take
from shipper_kit import Rig, entries

import quiver
from quiver.errors import RemoteError, StorageError
from quiver.ship.shipper import RestoreOptions, Restorer
from quiver.testing import MemoryDisk


def restorer(rig: Rig, disk: MemoryDisk, **options) -> Restorer:
    return Restorer(
        disk, rig.queue(), options=RestoreOptions(fetches=1, **options), clock=rig.clock
    )


def shipped(rig: Rig) -> None:
    with rig.open() as store:
        rig.fill(store, 2, 1, 1)
        rig.ship(batch_bytes=1)


def check_once(rig: Rig, disk: MemoryDisk) -> None:
    with quiver.open("m", disk=disk, clock=rig.clock, worker=False) as store:
        assert take(store.subscribe("reader")) == [0, 1, 2, 3]


@pytest.mark.parametrize("consume", [False, True])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_what_was_staged_as_a_fetch_failed_is_staged_again(rig, monkeypatch, consume, at) -> None:
    shipped(rig)
    disk = MemoryDisk()
    again = restorer(rig, disk, consume=consume)
    fetch, calls = again._fetcher.fetch, []

    def fails_once(descriptor):
        calls.append(descriptor)
        if len(calls) == at:
            raise RemoteError("timed out", retryable=True)
        return fetch(descriptor)

    monkeypatch.setattr(again._fetcher, "fetch", fails_once)
    with pytest.raises(RemoteError):
        again.run()
    assert len(entries(rig.bucket)) == 3
    assert again.run().segment_count == 3
    assert len(entries(rig.bucket)) == (0 if consume else 3)
    check_once(rig, disk)


@pytest.mark.parametrize("consume", [False, True])
def test_whatever_act_fails_the_same_restorer_goes_on_with_each_segment_once(consume) -> None:
    act, fault = 0, None
    while fault is None or fault.hits:
        rig = Rig()
        shipped(rig)
        disk = MemoryDisk()
        again = restorer(rig, disk, consume=consume)
        fault = disk.fail(act)
        with suppress(StorageError):
            again.run()
        disk.heal()
        again.run()
        check_once(rig, disk)
        act += 7
    assert act > 40
