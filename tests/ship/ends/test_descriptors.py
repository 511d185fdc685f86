"""Batches that others fetch: descriptors, fetchers, acks of many at once (scenarios 44 to 48)."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest
from ends_kit import Rig, records
from strikes import interrupt_once

from quiver.errors import DamageError, FencedError, InputError, RemoteError
from quiver.ship.consumer import Descriptor, Fetcher


@pytest.fixture
def rig():
    rig = Rig()
    yield rig
    rig.close()


def filled(rig: Rig, count: int) -> list[str]:
    return [rig.append(b"r%d" % number) for number in range(count)]


def numbers(descriptors: list[Descriptor]) -> list[int]:
    return [descriptor.sequence for descriptor in descriptors]


def test_44_descriptors_come_in_runs_and_once(rig) -> None:
    filled(rig, 5)
    consumer = rig.consumer()
    looks = rig.bucket.count("get")
    assert consumer.next_descriptors(0) == []
    assert rig.bucket.count("get") == looks
    assert numbers(consumer.next_descriptors(2)) == [0, 1]
    assert numbers(consumer.next_descriptors(2)) == [2, 3]
    assert consumer.next_batch().sequence == 4
    assert consumer.next_descriptors(9) == []
    assert numbers(rig.consumer().next_descriptors(9)) == [0, 1, 2, 3, 4]


def test_44_a_run_costs_one_look_at_the_manifest(rig) -> None:
    filled(rig, 5)
    consumer = rig.consumer()
    looks = rig.bucket.count("get")
    consumer.next_descriptors(5)
    assert rig.bucket.count("get") == looks + 1


@pytest.mark.parametrize(
    ("room", "step"), [("_cursors", "hand_out"), ("_window", "note"), ("", "_note_time")]
)
@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
def test_a_batch_that_nobody_got_comes_again(rig, monkeypatch, room, step, behind) -> None:
    filled(rig, 4)
    consumer = rig.consumer()
    assert consumer.next_batch().sequence == 0
    place = getattr(consumer, room) if room else consumer
    interrupt_once(monkeypatch, place, step, behind=behind)
    with pytest.raises(KeyboardInterrupt):
        consumer.next_batch()
    if room:  # Descriptors do not look at the time.
        interrupt_once(monkeypatch, place, step, behind=behind)
        with pytest.raises(KeyboardInterrupt):
            consumer.next_descriptors(2)
    assert consumer.next_batch().sequence == 1
    assert numbers(consumer.next_descriptors(9)) == [2, 3]
    for sequence in range(4):
        consumer.ack(sequence)


def test_45_two_fetchers_work_while_the_owner_acks(rig) -> None:
    filled(rig, 20)
    consumer = rig.consumer()
    descriptors = consumer.next_descriptors(20)
    fetchers = [consumer.fetcher(), consumer.fetcher()]
    with ThreadPoolExecutor(2) as pool:
        found = [
            pool.submit(fetchers[index % 2].fetch, each) for index, each in enumerate(descriptors)
        ]
        for future, descriptor in zip(found, descriptors, strict=True):
            assert records(future.result()) == [b"r%d" % descriptor.sequence]
            consumer.ack(descriptor.sequence)
    consumer.flush()
    assert rig.sequences() == []


def test_46_many_are_acked_with_one_write(rig) -> None:
    filled(rig, 5)
    consumer = rig.consumer()
    consumer.next_descriptors(4)
    writes = rig.bucket.count("put_if")
    consumer.ack_through(2)
    assert rig.bucket.count("put_if") == writes + 1
    assert consumer.last_acked == 2
    assert rig.sequences() == [3, 4]
    for wrong in (0, 2, 4, 99):  # Acked, acked, not handed out, never there.
        with pytest.raises(InputError):
            consumer.ack_through(wrong)
    consumer.ack(3)
    assert consumer.metrics.read()["quiver.ship.acks", ""] == 4


def test_46_a_failed_or_fenced_ack_changes_nothing(rig) -> None:
    filled(rig, 3)
    consumer = rig.consumer()
    consumer.next_descriptors(3)

    def refuse(act: str, key: str) -> None:
        if act == "put_if":
            raise RemoteError("refused")

    rig.bucket.before = refuse
    with pytest.raises(RemoteError):
        consumer.ack_through(1)
    rig.bucket.before = lambda act, key: None
    assert consumer.last_acked is None
    consumer.ack_through(1)
    rig.consumer()
    with pytest.raises(FencedError):
        consumer.ack_through(2)
    assert consumer.last_acked == 1
    assert rig.sequences() == [2]


def test_47_fetcher_and_wrapper_give_the_same(rig) -> None:
    rig.append(b"a", b"b", metadata=b"m")
    consumer = rig.consumer()
    (descriptor,) = consumer.next_descriptors(1)
    one, other = consumer.fetcher().fetch(descriptor), consumer.fetch(descriptor)
    assert one == other
    rig.clock.step("2s")
    assert consumer.lag_seconds == 2.0


def test_48_an_old_descriptor_can_be_fetched_after_a_fence(rig) -> None:
    filled(rig, 1)
    old = rig.consumer()
    (descriptor,) = old.next_descriptors(1)
    rig.consumer()
    assert records(old.fetcher().fetch(descriptor)) == [b"r0"]
    with pytest.raises(FencedError):
        old.next_descriptors(1)


class Pickled:
    """A bucket that opens itself where it arrives, as those do that have an address."""

    opened: ClassVar[dict[str, object]] = {}

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, attribute: str) -> object:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return getattr(Pickled.opened[self.__dict__["name"]], attribute)


def test_descriptors_fetchers_and_batches_can_be_pickled(rig) -> None:
    rig.append(b"a", b"b", metadata=b"m")
    Pickled.opened["here"] = rig.bucket
    (descriptor,) = rig.consumer().next_descriptors(1)
    fetcher = Fetcher(Pickled("here"), clock=rig.clock)
    copy, there = pickle.loads(pickle.dumps((fetcher, descriptor)))
    batch = copy.fetch(there)
    again = pickle.loads(pickle.dumps(batch))
    assert records(again) == records(batch) == [b"a", b"b"]
    assert again.calls == batch.calls
    assert [bytes(record) for record in again.of_call(0)] == [b"a", b"b"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: bytes([data[0] ^ 1]) + data[1:],
        lambda data: data[:5] + b"!" + data[6:],
        lambda data: b"",
    ],
    ids=["cut", "longer", "length", "record", "empty"],
)
def test_a_batch_is_held_to_what_its_entry_says(rig, spoil) -> None:
    key = rig.append(b"abc", b"def")
    rig.bucket.put(key, spoil(rig.bucket.get(key).data))
    consumer = rig.consumer()
    with pytest.raises(DamageError) as damage:
        consumer.next_batch()
    assert damage.value.path == f"ingest/{key}"


def test_what_only_looked_damaged_is_read_once_more(rig) -> None:
    """A transfer that went wrong is no damage of the object."""
    key = rig.append(b"abc")
    good = rig.bucket.get(key).data
    rig.bucket.put(key, good[:-1])

    def mend(act: str, name: str) -> None:
        if name == key:
            rig.bucket.inner.put(key, good)

    rig.bucket.after = mend
    assert records(rig.consumer().next_batch()) == [b"abc"]


def test_a_batch_that_grows_too_large_is_not_decoded(rig) -> None:
    producer = rig.producer(compression="zstd")
    producer.produce([bytes(100_000)])
    producer.close()
    (descriptor,) = rig.consumer().next_descriptors(1)
    with pytest.raises(Exception, match="more than 1,000"):
        Fetcher(rig.bucket, block_bytes_max=1000).fetch(descriptor)


@pytest.mark.parametrize("starts", [(1, 0), (0, 4)])
def test_calls_that_do_not_fit_their_batch_are_damage(rig, starts) -> None:
    from quiver.ship.consumer import CallRange

    key = rig.upload(b"a", b"b", b"c")
    calls = tuple(CallRange(start, 0, b"") for start in starts)
    with pytest.raises(DamageError):
        Fetcher(rig.bucket).fetch(Descriptor(0, f"ingest/{key}", calls))
