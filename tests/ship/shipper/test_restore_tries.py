"""A restore that failed is run again, by the same restorer; and one that gets no threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from beside_kit import take
from shipper_kit import Rig, entries

import quiver
from quiver.errors import MissingError, RemoteError, StorageError
from quiver.ship.objects import own_key
from quiver.ship.shipper import RestoreOptions, Restorer, arriving
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


@pytest.mark.parametrize("left", [0, 1])
def test_all_is_restored_when_a_process_ends_that_gives_no_more_threads(
    rig, monkeypatch, left
) -> None:
    class Ending(ThreadPoolExecutor):
        submits = 0

        def submit(self, *values, **named):
            self.submits += 1
            if self.submits > left:
                raise RuntimeError("cannot schedule new futures after interpreter shutdown")
            return super().submit(*values, **named)

    monkeypatch.setattr(arriving, "ThreadPoolExecutor", Ending)
    shipped(rig)
    disk = MemoryDisk()
    assert restorer(rig, disk).run().segment_count == 3
    check_once(rig, disk)


def test_what_cannot_be_fetched_without_threads_is_told_as_ever(rig, monkeypatch) -> None:
    class Ending(ThreadPoolExecutor):
        def submit(self, *_, **__):
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(arriving, "ThreadPoolExecutor", Ending)
    shipped(rig)
    (key,) = [own_key(rig.bucket, each.location) for each in entries(rig.bucket)][1:2]
    rig.bucket.delete([key])
    with pytest.raises(MissingError, match=key):
        restorer(rig, MemoryDisk()).run()
