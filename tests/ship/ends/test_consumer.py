"""A consumer: order, acks, resuming and fencing (scenarios 27 to 43 and 62)."""

from __future__ import annotations

import pytest
from ends_kit import WAIT, Rig, records

from quiver.errors import (
    ClosedError,
    ConfigError,
    DamageError,
    FencedError,
    InputError,
    MissingError,
    RemoteError,
)
from quiver.ship.consumer import Consumer
from quiver.ship.objects import Conflict, UnclearError
from quiver.ship.queue import NewEntry

UNSTARTED = (1 << 64) - 1


@pytest.fixture
def rig():
    rig = Rig()
    yield rig
    rig.close()


def filled(rig: Rig, count: int) -> list[str]:
    return [rig.append(b"r%d" % number) for number in range(count)]


def drain(consumer: Consumer) -> list[int]:
    found = []
    while (batch := consumer.next_batch()) is not None:
        found.append(batch.sequence)
    return found


# fencing ---------------------------------------------------------------------------------------


def test_27_the_first_consumer_has_epoch_1_and_the_next_2(rig) -> None:
    assert rig.consumer().epoch == 1
    assert rig.queue().read().epoch == 1
    assert rig.consumer().epoch == 2


def test_28_an_old_consumer_is_fenced_wherever_it_looks(rig) -> None:
    filled(rig, 3)
    old = rig.consumer()
    assert records(old.next_batch()) == [b"r0"]
    new = rig.consumer()
    for act in (old.next_batch, lambda: old.next_descriptors(1), lambda: old.ack_through(0)):
        with pytest.raises(FencedError) as fenced:
            act()
        assert (fenced.value.epoch, fenced.value.current) == (1, 2)
    old.ack(0)  # In memory alone, so nothing is removed.
    with pytest.raises(FencedError):
        old.flush()
    assert rig.sequences() == [0, 1, 2]
    assert drain(new) == [0, 1, 2]


def test_29_who_never_started_is_fenced(rig) -> None:
    filled(rig, 1)
    rig.consumer()
    with pytest.raises(FencedError):
        rig.queue().read(epoch=UNSTARTED)
    with pytest.raises(FencedError):
        rig.queue().dequeue(0, epoch=UNSTARTED)


def test_30_the_epoch_behind_the_largest_is_0(rig) -> None:
    filled(rig, 1)
    data = bytearray(rig.bucket.get("manifest").data)
    data[-10:-2] = (UNSTARTED - 1).to_bytes(8, "little")
    rig.bucket.put("manifest", bytes(data))
    consumer = rig.consumer()
    assert consumer.epoch == 0
    assert drain(consumer) == [0]


def test_31_entries_that_somebody_else_wrote_are_read(rig) -> None:
    """Without a tail: neither size nor checksum is known."""
    key = rig.upload(b"theirs")
    location = f"ingest/{key}".encode()
    body = (4).to_bytes(8, "little") + len(location).to_bytes(2, "little") + location + bytes(4)
    entry = len(body).to_bytes(4, "little") + body
    footer = (1).to_bytes(4, "little") + (5).to_bytes(8, "little") + bytes(8) + b"\1\0"
    rig.bucket.put("manifest", entry + footer)
    rig.append(b"ours")
    consumer = rig.consumer()
    first, second = consumer.next_batch(), consumer.next_batch()
    assert (first.sequence, records(first), first.calls) == (4, [b"theirs"], ())
    assert (second.sequence, records(second)) == (5, [b"ours"])


def test_32_numbers_go_on_after_a_dequeue(rig) -> None:
    filled(rig, 2)
    consumer = rig.consumer()
    drain(consumer)
    consumer.ack_through(1)
    assert rig.sequences() == []
    producer = rig.producer()
    handle = producer.produce([b"x"])
    producer.flush(WAIT)
    assert handle.sequence == 2
    assert drain(consumer) == [2]


def test_33_what_is_not_there_is_not_found(rig) -> None:
    filled(rig, 2)
    view = rig.queue().read()
    assert list(view.entries(after=1)) == []
    assert [entry.sequence for entry in view.entries(after=0)] == [1]


def test_62_a_zombie_acks_and_flushes_in_vain(rig) -> None:
    filled(rig, 3)
    zombie = rig.consumer(dequeue_every=2)
    drain(zombie)
    new = rig.consumer()
    zombie.ack(0)
    with pytest.raises(FencedError):
        zombie.ack(1)
    assert zombie.last_acked == 0
    with pytest.raises(FencedError):
        zombie.close()
    assert rig.sequences() == [0, 1, 2]
    assert drain(new) == [0, 1, 2]


# reading ---------------------------------------------------------------------------------------


def test_34_records_come_with_their_metadata(rig) -> None:
    producer = rig.producer()
    producer.produce([b"a", b"b"], b"m1")
    producer.produce([b"c"], b"m2")
    producer.flush(WAIT)
    batch = rig.consumer().next_batch()
    assert records(batch) == [b"a", b"b", b"c"]
    assert [(call.start, call.metadata) for call in batch.calls] == [(0, b"m1"), (2, b"m2")]
    assert [bytes(record) for record in batch.of_call(0)] == [b"a", b"b"]
    assert [bytes(record) for record in batch.of_call(1)] == [b"c"]


def test_35_an_empty_queue_gives_nothing_and_then_what_comes(rig) -> None:
    consumer = rig.consumer()
    assert consumer.next_batch() is None
    rig.append(b"late")
    assert records(consumer.next_batch()) == [b"late"]
    assert consumer.next_batch() is None


def test_36_reading_on_needs_no_ack(rig) -> None:
    filled(rig, 3)
    consumer = rig.consumer()
    assert drain(consumer) == [0, 1, 2]
    assert rig.sequences() == [0, 1, 2]


def test_37_resuming_skips_and_removes_what_is_below(rig) -> None:
    filled(rig, 5)
    consumer = rig.consumer(last_acked=2)
    assert rig.sequences() == [3, 4]
    assert drain(consumer) == [3, 4]
    consumer.ack(3)
    assert consumer.last_acked == 3


def test_38_without_a_sequence_it_begins_with_what_is_there(rig) -> None:
    filled(rig, 6)
    with rig.consumer(last_acked=4):
        pass
    assert drain(rig.consumer()) == [5]


@pytest.mark.parametrize("stored", [3, 4, 10**12])
def test_resuming_where_the_queue_never_was_is_refused(rig, stored) -> None:
    """The manifest was lost, or it is another queue: what is new would never be seen."""
    filled(rig, 3)
    before = rig.bucket.get("manifest").data
    with pytest.raises(InputError):
        rig.consumer(last_acked=stored)
    assert rig.bucket.get("manifest").data == before


def test_39_acks_out_of_order_are_refused(rig) -> None:
    filled(rig, 3)
    consumer = rig.consumer()
    with pytest.raises(InputError, match="next to be acked is none"):
        consumer.ack(0)  # Nobody has it.
    drain(consumer)
    with pytest.raises(InputError, match="sequence 1 cannot be acked: the next to be acked is 0"):
        consumer.ack(1)
    consumer.ack(0)
    for wrong in (0, 2, 3):
        with pytest.raises(InputError):
            consumer.ack(wrong)
    consumer.ack(1)
    assert consumer.last_acked == 1


def test_40_after_101_acks_one_entry_is_left_and_a_flush_removes_it(rig) -> None:
    filled(rig, 101)
    consumer = rig.consumer()
    for sequence in drain(consumer):
        consumer.ack(sequence)
    assert rig.sequences() == [100]
    assert consumer.queue_length == 1
    consumer.flush()
    assert rig.sequences() == []
    writes = rig.bucket.count("put_if")
    consumer.flush()
    assert rig.bucket.count("put_if") == writes


def test_40_the_hundredth_ack_can_be_tried_again(rig) -> None:
    filled(rig, 100)
    consumer = rig.consumer()
    drain(consumer)
    for sequence in range(99):
        consumer.ack(sequence)

    def refuse(act: str, key: str) -> None:
        if act == "put_if":
            raise RemoteError("refused")

    rig.bucket.before = refuse
    with pytest.raises(RemoteError):
        consumer.ack(99)
    assert consumer.last_acked == 98
    rig.bucket.before = lambda act, key: None
    consumer.ack(99)
    assert rig.sequences() == []


def test_41_closing_flushes(rig) -> None:
    filled(rig, 2)
    with rig.consumer() as consumer:
        drain(consumer)
        consumer.ack(0)
    assert rig.sequences() == [1]
    consumer.close()
    for act in (consumer.next_batch, consumer.flush, lambda: consumer.ack(1)):
        with pytest.raises(ClosedError):
            act()


def test_42_a_batch_that_is_gone_comes_when_it_is_back(rig) -> None:
    keys = filled(rig, 2)
    data = rig.bucket.get(keys[0]).data
    rig.bucket.delete([keys[0]])
    consumer = rig.consumer()
    for _ in range(2):
        with pytest.raises(MissingError):
            consumer.next_batch()
    rig.bucket.put(keys[0], data)
    assert drain(consumer) == [0, 1]


def test_43_a_call_that_was_cut_short_skips_nothing(rig) -> None:
    filled(rig, 2)
    consumer = rig.consumer()
    for fault in (KeyboardInterrupt(), UnclearError("no answer"), MemoryError()):

        def cut(act: str, key: str, fault=fault) -> None:
            if key.endswith(".batch"):
                raise fault

        rig.bucket.before = cut
        with pytest.raises(type(fault)):
            consumer.next_batch()
    rig.bucket.before = lambda act, key: None
    assert drain(consumer) == [0, 1]


def test_67_a_manifest_that_is_gone_or_begins_anew_is_told(rig) -> None:
    filled(rig, 3)
    consumer = rig.consumer()
    drain(consumer)
    rig.bucket.delete(["manifest"])
    with pytest.raises(MissingError):
        consumer.next_batch()
    rig.append(b"anew")  # A producer that never saw the old one.
    for act in (consumer.next_batch, lambda: consumer.ack_through(2)):
        with pytest.raises((MissingError, FencedError)):
            act()
    assert rig.sequences() == [0]
    with pytest.raises(InputError):
        rig.consumer(last_acked=2)  # As a process would that starts again.


def test_entries_that_somebody_else_removed_are_missed(rig) -> None:
    filled(rig, 4)
    consumer = rig.consumer()
    assert consumer.next_batch().sequence == 0
    rig.queue().dequeue(1, epoch=consumer.epoch)
    with pytest.raises(DamageError, match="expected sequence 1, found 2"):
        consumer.next_batch()


def test_58_appends_race_the_epoch_and_the_dequeue(rig) -> None:
    """Each change of the consumer meets an append that was quicker, and the other way round."""
    filled(rig, 2)
    rig.bucket.before = once_only(lambda: rig.append(b"racer"))
    consumer = rig.consumer()
    assert drain(consumer) == [0, 1, 2]
    rig.bucket.before = once_only(lambda: rig.append(b"racer"))
    consumer.ack_through(1)
    assert rig.sequences() == [2, 3]
    assert drain(consumer) == [3]
    rig.bucket.before = once_only(lambda: consumer.ack_through(3))
    rig.append(b"last")
    assert rig.sequences() == [4]


def once_only(race):
    """Let somebody be quicker than the first put of a manifest."""
    done = []

    def act(name: str, key: str) -> None:
        if name == "put_if" and not done:
            done.append(key)
            race()

    return act


def test_a_conflict_that_never_ends_is_given_up(rig) -> None:
    filled(rig, 1)
    consumer = rig.consumer()
    drain(consumer)

    def conflict(act: str, key: str) -> None:
        if act == "put_if":
            raise Conflict("412", retryable=True)

    rig.bucket.before = conflict
    with pytest.raises(RemoteError):
        consumer.ack_through(0)
    assert consumer.last_acked is None
    assert consumer.metrics.read()["quiver.ship.manifest_conflicts", "consumer"] > 1


def test_what_a_consumer_counts(rig) -> None:
    rig.append(b"abc", b"d")
    rig.append(b"e")
    rig.clock.step("3s")
    consumer = rig.consumer()
    assert consumer.lag_seconds == 0.0
    first = consumer.next_batch()
    assert consumer.lag_seconds == 3.0
    assert consumer.queue_length == 2
    consumer.next_descriptors(5)
    consumer.ack(0)
    counted = consumer.metrics.read()
    assert counted["quiver.ship.collected_batches", ""] == 1
    assert counted["quiver.ship.collected_records", ""] == 2
    assert counted["quiver.ship.collected_bytes", ""] == first.byte_count
    assert counted["quiver.ship.descriptors", ""] == 1
    assert counted["quiver.ship.acks", ""] == 1
    assert counted["quiver.ship.manifest_writes", "consumer"] == 1
    rig.clock.jump_to(0)
    assert consumer.lag_seconds == 0.0


@pytest.mark.parametrize(
    "options",
    [
        {"on_poison": "ignore"},
        {"dequeue_every": 0},
        {"window": 0},
        {"sweep_interval": "5m", "sweep_grace": "5m"},
    ],
)
def test_options_that_make_no_sense_are_refused(rig, options) -> None:
    with pytest.raises(ConfigError):
        rig.consumer(**options)
    assert rig.bucket.acts == []


def test_a_location_elsewhere_in_the_store_is_read(rig) -> None:
    rig.bucket.put("/other/place.batch", [b"\0" * 5 + b"\1\0"])
    rig.queue().append(NewEntry("other/place.batch"))
    assert rig.consumer().next_batch().location == "other/place.batch"
