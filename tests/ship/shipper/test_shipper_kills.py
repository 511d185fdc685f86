"""Killed before or behind any act on bucket or disk: in the end each bundle is there once."""

from __future__ import annotations

import itertools
import threading

import pytest
from beside_kit import peek
from shipper_kit import NAME, Rig, arrived, rot_stream, segment_path

from quiver.errors import DamageError, RemoteError
from quiver.ship.objects import MemoryBucket, UnclearError, own_key
from quiver.ship.shipper import Trouble
from quiver.testing import Killed, MemoryDisk

COUNT = 6
LOST = 4


class Mortal:
    """A bucket whose user is killed at one of its acts, and does nothing more from then on."""

    def __init__(self, bucket: MemoryBucket, at: int, *, behind: bool) -> None:
        self._bucket, self._at, self._behind = bucket, at, behind
        self._lock = threading.Lock()
        self.acts = 0
        self.is_dead = False

    place = property(lambda self: self._bucket.place)
    base = property(lambda self: self._bucket.base)

    def _act(self, name, *args):
        with self._lock:
            if self.is_dead:
                raise Killed
            self.acts += 1
            dies = self.acts == self._at
            self.is_dead = dies
            if dies and not self._behind:
                raise Killed
        result = getattr(self._bucket, name)(*args)
        if dies:
            raise Killed
        return result

    def get(self, *args):
        return self._act("get", *args)

    def get_if_changed(self, *args):
        return self._act("get_if_changed", *args)

    def read(self, *args):
        return self._act("read", *args)

    def put(self, *args):
        return self._act("put", *args)

    def write(self, *args):
        return self._act("write", *args)

    def put_if(self, *args, **_):
        return self._act("put_if", *args)

    def list(self, *args):
        return self._act("list", *args)


def filled(*, damaged: bool = False) -> Rig:
    """Fill four segments; ``damaged`` takes bundle 4, the second one of the third of them."""
    rig = Rig()
    with rig.open() as store:
        rig.fill(store, 2, 1, 2, 1)
    if damaged:
        rot_stream(rig, 2, 1)
    return rig


def check(rig: Rig, *, damaged: bool) -> None:
    """All that is sound is there once and in order, and nothing is open."""
    assert arrived(rig.bucket) == [n for n in range(COUNT) if not (damaged and n == LOST)]
    with rig.subscribe(NAME) as reader:
        assert peek(reader) == []


@pytest.mark.parametrize("damaged", [False, True], ids=["sound", "damaged"])
@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("batch_bytes", [1, 1 << 20])
def test_killed_at_any_act_on_the_bucket(behind, damaged, batch_bytes) -> None:
    for at in itertools.count(1):
        assert at < 100
        rig = filled(damaged=damaged)
        mortal = Mortal(rig.bucket, at, behind=behind)
        shipper = rig.shipper(queue=rig.queue(mortal), batch_bytes=batch_bytes, uploads=2)
        try:
            shipper.run()
        except Killed:
            assert mortal.is_dead
        else:
            assert at > 3
            break
        rig.disk.forget_locks()
        tally = rig.ship()
        check(rig, damaged=damaged)
        assert shipper.tally.rejected_bundles + tally.rejected_bundles == damaged


@pytest.mark.parametrize("damaged", [False, True], ids=["sound", "damaged"])
@pytest.mark.parametrize("batch_bytes", [1, 1 << 20])
def test_killed_at_any_act_on_the_disk(damaged, batch_bytes) -> None:
    base = filled(damaged=damaged)
    for at in itertools.count():
        assert at < 500
        rig = Rig()
        rig.disk = MemoryDisk(base.disk.tree)
        rig.disk.fail(at, error="kill", sticky=True)
        try:
            rig.ship(batch_bytes=batch_bytes, uploads=2)
        except Killed:
            rig.disk.heal()
            rig.disk.forget_locks()
        else:
            assert at > 10
            break
        rig.ship()
        check(rig, damaged=damaged)


class Faulty(MemoryBucket):
    """Fails as it is told, by the number of the act; ``done``: only the answer is lost."""

    def __init__(self, faults: dict[int, str]) -> None:
        super().__init__("queue")
        self._faults, self.acts = faults, itertools.count()

    def _fault(self, act):
        fault = self._faults.get(next(self.acts), "")
        result = act() if fault in ("", "done") else None
        if fault == "refused":
            raise RemoteError("no", path="x")
        if fault:
            raise UnclearError("no answer", path="x", retryable=True)
        return result

    def put(self, key, data):
        return self._fault(lambda: super(Faulty, self).put(key, data))

    def put_if(self, key, data, tag, **_):
        return self._fault(lambda: super(Faulty, self).put_if(key, data, tag))


@pytest.mark.parametrize("fault", ["done", "missed"])
def test_lost_answers_double_and_lose_nothing(fault: str) -> None:
    for at in range(8):
        rig = filled()
        rig.bucket = Faulty({at: fault})
        tally = rig.ship(batch_bytes=1, uploads=1)
        assert arrived(rig.bucket) == list(range(COUNT))
        assert tally.bundle_count + tally.bundles_before == COUNT


def test_a_store_that_cannot_be_reached_is_tried_again_and_told_of() -> None:
    rig = filled()
    rig.bucket = Faulty(dict.fromkeys((0, 3), "missed"))
    tally = rig.ship(batch_bytes=1, uploads=1)
    assert tally.bundle_count == COUNT
    assert any(isinstance(told, Trouble) for told in rig.told)
    assert arrived(rig.bucket) == list(range(COUNT))


@pytest.mark.parametrize("fault", ["missed", "refused"])
def test_it_gives_up_and_nothing_is_acked_that_is_not_in(fault: str) -> None:
    rig = filled()
    rig.bucket = Faulty(dict.fromkeys(range(2, 10_000), fault))
    with pytest.raises(RemoteError):
        rig.ship(batch_bytes=1, uploads=1)
    there = arrived(rig.bucket)
    with rig.subscribe(NAME) as reader:
        assert there + peek(reader) == list(range(COUNT))


def test_an_object_that_waited_too_long_is_put_under_another_name() -> None:
    rig = filled()
    shipper = rig.shipper(uploads=1)
    loader_load = []

    def put(key, data):
        loader_load.append(key)
        if len(loader_load) == 1:
            tag = MemoryBucket.put(rig.bucket, key, data)
            rig.clock.step("301s")
            return tag
        return MemoryBucket.put(rig.bucket, key, data)

    rig.bucket.put = put
    shipper.run()
    assert len(loader_load) == 2
    (entry,) = list(rig.queue().read().entries())
    assert entry.location.endswith(loader_load[1])
    assert arrived(rig.bucket) == list(range(COUNT))


@pytest.mark.parametrize("is_gone", [False, True], ids=["there", "swept"])
def test_an_object_whose_append_took_too_long_is_put_back_before_anything_is_acked(is_gone) -> None:
    rig = filled(damaged=True)
    shipper = rig.shipper(compression="zstd")
    append = shipper._queue.append

    def slow(*drafts):
        for draft in drafts if is_gone else ():
            rig.bucket.delete([own_key(rig.bucket, draft.location)])
        rig.clock.step("301s")
        return append(*drafts)

    shipper._queue.append = slow
    shipper.run()
    check(rig, damaged=True)


def test_an_object_that_is_gone_and_cannot_be_made_again_is_told_of() -> None:
    rig = filled()
    shipper = rig.shipper()
    append = shipper._queue.append

    def slow(*drafts):
        rig.bucket.delete([own_key(rig.bucket, draft.location) for draft in drafts])
        for seq in range(2):
            rig.disk.unlink(segment_path(seq))
        rig.clock.step("301s")
        return append(*drafts)

    shipper._queue.append = slow
    with pytest.raises(DamageError, match="swept"):
        shipper.run()
