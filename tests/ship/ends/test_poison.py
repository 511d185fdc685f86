"""What cannot be delivered, and what comes twice: dead letters and repeats."""

from __future__ import annotations

import json

import pytest
from ends_kit import Rig, records

from quiver.errors import DamageError, FencedError, InputError, MissingError, RemoteError
from quiver.ship.batch import encode_batch
from quiver.ship.consumer import DeadLetters, Delivered
from quiver.ship.consumer.identity import Identity, identity_of
from quiver.ship.consumer.window import Window
from quiver.ship.objects import root_key
from quiver.ship.queue import Batch, Item, NewEntry, QueueOptions
from quiver.ship.shipper.format import ShippedSegment, encode_payload

STORE = bytes(range(16))


@pytest.fixture
def rig():
    rig = Rig()
    yield rig
    rig.close()


def drain(consumer) -> list[int]:
    found = []
    while (batch := consumer.next_batch()) is not None:
        found.append(batch.sequence)
    return found


def spoil(rig: Rig, key: str) -> bytes:
    data = bytes(rig.bucket.get(key).data)
    spoilt = bytes([data[0] ^ 0xFF]) + data[1:]
    rig.bucket.put(key, spoilt)
    return spoilt


# dead letters ----------------------------------------------------------------------------------


def test_a_damaged_batch_blocks_unless_it_may_be_skipped(rig) -> None:
    keys = [rig.append(b"r%d" % number) for number in range(3)]
    spoilt = spoil(rig, keys[1])
    consumer = rig.consumer()
    assert consumer.next_batch().sequence == 0
    for _ in range(2):
        with pytest.raises(DamageError):
            consumer.next_batch()
    skipping = rig.consumer(on_poison="skip")
    assert drain(skipping) == [0, 2]
    (letter,) = DeadLetters(rig.bucket).list()
    assert (letter.sequence, letter.location) == (1, f"ingest/{keys[1]}")
    assert letter.kind == "DamagedEntry"
    assert rig.bucket.get(letter.evidence).data == spoilt
    assert letter.time_ms == rig.now_ms()
    found = json.loads(rig.bucket.get(letter.key).data)
    assert found["calls"] == [
        {"start": 0, "ingestion_time_ms": rig.now_ms(), "metadata_base64": ""}
    ]
    assert skipping.metrics.read()["quiver.ship.dead_letters", ""] == 1


def test_a_missing_batch_is_a_dead_letter_without_evidence(rig) -> None:
    keys = [rig.append(b"r%d" % number) for number in range(2)]
    rig.bucket.delete([keys[0]])
    assert drain(rig.consumer(on_poison="skip")) == [1]
    (letter,) = DeadLetters(rig.bucket).list()
    assert (letter.kind, letter.evidence) == ("MissingError", None)


def test_acks_go_over_what_was_skipped_and_take_it_along(rig) -> None:
    keys = [rig.append(b"r%d" % number) for number in range(4)]
    for key in (keys[1], keys[3]):
        spoil(rig, key)
    consumer = rig.consumer(on_poison="skip")
    assert drain(consumer) == [0, 2]
    consumer.ack(0)
    consumer.flush()
    assert rig.sequences() == [1, 2, 3]  # What is stored is 0: nothing above may be gone.
    consumer.ack(2)
    consumer.flush()
    assert rig.sequences() == [3]
    again = rig.consumer(last_acked=2, on_poison="skip")
    assert drain(again) == []
    assert len(list(DeadLetters(rig.bucket).list())) == 2


def test_nothing_is_skipped_before_its_letter_is_there(rig) -> None:
    key = rig.append(b"r0")
    rig.append(b"r1")
    spoil(rig, key)
    consumer = rig.consumer(on_poison="skip")

    def refuse(act: str, name: str) -> None:
        if act == "put_if" and name.startswith("dead/"):
            raise RemoteError("refused")

    rig.bucket.before = refuse
    for _ in range(2):
        with pytest.raises(RemoteError):
            consumer.next_batch()
    rig.bucket.before = lambda act, name: None
    assert drain(consumer) == [1]


def test_a_store_that_gives_no_answer_is_no_poison(rig) -> None:
    rig.append(b"r0")
    consumer = rig.consumer(on_poison="skip")

    def refuse(act: str, name: str) -> None:
        if name.endswith(".batch"):
            raise RemoteError("down")

    rig.bucket.before = refuse
    with pytest.raises(RemoteError):
        consumer.next_batch()
    rig.bucket.before = lambda act, name: None
    assert drain(consumer) == [0]
    assert list(DeadLetters(rig.bucket).list()) == []


def test_a_location_that_is_no_key_is_poison(rig) -> None:
    for location in ("", "a/../b", "a//b"):
        rig.queue().append(NewEntry(location))
    rig.append(b"good")
    assert drain(rig.consumer(on_poison="skip")) == [3]
    assert {letter.kind for letter in DeadLetters(rig.bucket).list()} == {"InputError"}


def test_a_gap_is_a_dead_letter_too(rig) -> None:
    for number in range(4):
        rig.append(b"r%d" % number)
    consumer = rig.consumer(on_poison="skip")
    assert consumer.next_batch().sequence == 0
    rig.queue().dequeue(1, epoch=consumer.epoch)
    assert drain(consumer) == [2, 3]
    (letter,) = DeadLetters(rig.bucket).list()
    assert letter.sequence == 1
    assert "missing" in letter.error


@pytest.mark.parametrize("lose", ["delete", "spoil"])
def test_a_page_that_is_lost_is_never_skipped(rig, lose) -> None:
    queue = rig.queue(options=QueueOptions(page_entries=8))
    for number in range(40):
        key = rig.upload(b"%d" % number)
        batch = encode_batch([b"%d" % number])
        entry = NewEntry(root_key(rig.bucket, key), [], Batch(batch.byte_count, batch.crc32c))
        queue.append(entry)
    first, second = queue.read().pages[:2]
    if lose == "delete":
        rig.bucket.delete([first.name])
    else:
        spoil(rig, first.name)
    for policy in ("block", "skip"):
        blocked = rig.consumer(on_poison=policy)
        for _ in range(2):
            with pytest.raises((MissingError, DamageError)):
                blocked.next_batch()
            with pytest.raises((MissingError, DamageError)):
                blocked.next_descriptors(99)
    assert list(DeadLetters(rig.bucket).list()) == []
    assert drain(rig.consumer(last_acked=first.last)) == list(range(second.first, 40))


def test_descriptors_that_an_error_cut_off_are_not_handed_out(rig) -> None:
    """Else who acks a later one would ack them, though he never saw them."""
    queue = rig.queue(options=QueueOptions(page_entries=8))
    for number in range(40):
        key = rig.upload(b"%d" % number)
        queue.append(NewEntry(root_key(rig.bucket, key), [], Batch(13, 0)))
    second = queue.read().pages[1]
    data = rig.bucket.get(second.name).data
    rig.bucket.delete([second.name])
    consumer = rig.consumer()
    with pytest.raises(MissingError):
        consumer.next_descriptors(99)
    with pytest.raises(InputError):
        consumer.ack_through(0)
    assert [each.sequence for each in consumer.next_descriptors(2)] == [0, 1]
    rig.bucket.put(second.name, data)
    assert [each.sequence for each in consumer.next_descriptors(99)] == list(range(2, 40))
    consumer.ack_through(39)


def test_who_is_fenced_sets_nothing_aside(rig) -> None:
    """What is gone was read and swept by who came after."""
    key = rig.append(b"r0")
    zombie = rig.consumer(on_poison="skip")

    def overtake(act: str, name: str) -> None:
        if name == key:
            rig.bucket.before = lambda act, name: None
            rig.consumer()
            rig.bucket.inner.delete([key])

    rig.bucket.before = overtake
    with pytest.raises(FencedError):
        zombie.next_batch()
    assert list(DeadLetters(rig.bucket).list()) == []


def test_a_fetcher_elsewhere_sets_aside_as_well(rig) -> None:
    key = rig.append(b"r0")
    rig.append(b"r1")
    spoil(rig, key)
    consumer = rig.consumer()
    first, second = consumer.next_descriptors(2)
    fetcher = consumer.fetcher()
    assert fetcher.fetch_or_set_aside(first) is None
    assert records(fetcher.fetch_or_set_aside(second)) == [b"r1"]
    assert [letter.sequence for letter in DeadLetters(rig.bucket).list()] == [0]
    consumer.ack_through(1)


def test_letters_of_a_queue_that_began_anew_are_kept_apart(rig) -> None:
    for _ in range(2):
        key = rig.append(b"r0")
        spoil(rig, key)
        assert drain(rig.consumer(on_poison="skip")) == []
        rig.bucket.delete(["manifest"])
    assert [letter.sequence for letter in DeadLetters(rig.bucket).list()] == [0, 0]


def test_a_letter_that_cannot_be_read_is_damage(rig) -> None:
    rig.bucket.put("dead/1-2.json", b"{}")
    with pytest.raises(DamageError):
        list(DeadLetters(rig.bucket).list())


# repeats ---------------------------------------------------------------------------------------


def payload(segment_seq: int, *, core: int = 0) -> bytes:
    """As the shipper writes it."""
    segment = ShippedSegment(
        store_id=STORE.hex(),
        core=core,
        segment_seq=segment_seq,
        wal_seq_first=0,
        wal_seq_last=9,
        bundle_count=10,
        slots=0b101,
        record_bytes=2,
        first_ns=0,
        last_ns=1,
        schemas=(7, 8),
    )
    return encode_payload(segment)


def test_the_identity_of_a_segment_is_read_from_its_metadata() -> None:
    assert identity_of(payload(7, core=3)) == Identity(STORE, 3, 7)
    good = payload(7)
    spoilt = [good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :] for at in range(len(good))]
    for other in (b"", b"x" * 60, good[:-1], good + b"x", *spoilt):
        assert identity_of(other) is None


def test_a_batch_that_is_in_the_queue_twice_comes_once(rig) -> None:
    """As it is after a producer of the reference lost an answer."""
    key = rig.append(b"r0")
    rig.append(b"r1")
    rig.append(b"r0", key=key)
    rig.append(b"r3")
    consumer = rig.consumer()
    assert drain(consumer) == [0, 1, 3]
    for sequence in (0, 1, 3):
        consumer.ack(sequence)
    consumer.flush()
    assert rig.sequences() == []
    assert consumer.metrics.read()["quiver.ship.repeats", ""] == 1


def append_segments(rig: Rig, *seqs: int) -> None:
    batch = encode_batch([b"s%d" % seq for seq in seqs])
    key = rig.upload(*(b"s%d" % seq for seq in seqs))
    items = [Item(place, 0, payload(seq)) for place, seq in enumerate(seqs)]
    entry = NewEntry(root_key(rig.bucket, key), items, Batch(batch.byte_count, batch.crc32c))
    rig.queue().append(entry)


def test_a_segment_that_was_shipped_again_under_a_new_name_is_left_out(rig) -> None:
    for seqs in ((1, 2), (2, 3), (1, 2), (4, 4)):
        append_segments(rig, *seqs)
    consumer = rig.consumer()
    found = []
    while (batch := consumer.next_batch()) is not None:
        found.append((batch.sequence, records(batch), [call.start for call in batch.calls]))
    assert found == [(0, [b"s1", b"s2"], [0, 1]), (1, [b"s3"], [0]), (3, [b"s4"], [0])]
    assert consumer.metrics.read()["quiver.ship.repeats", ""] == 4


def test_descriptors_say_what_is_to_be_left_out(rig) -> None:
    append_segments(rig, 1, 2)
    append_segments(rig, 2, 3)
    consumer = rig.consumer()
    first, second = consumer.next_descriptors(2)
    assert (first.repeats, second.repeats) == ((), (0,))
    assert records(consumer.fetch(second)) == [b"s3"]


def test_repeats_are_known_after_a_restart_if_that_was_stored(rig) -> None:
    key = rig.append(b"r0")
    rig.append(b"r1")
    consumer = rig.consumer()
    drain(consumer)
    stored = consumer.delivered_through(0)
    assert stored == (Delivered(0, f"ingest/{key}", ()),)
    rig.append(b"r0", key=key)
    # The second batch was handed out and not stored: it comes again, the repeat does not.
    assert drain(rig.consumer(last_acked=0, delivered=stored)) == [1]
    assert consumer.delivered_through(None) == ()


def test_what_went_to_the_dead_letters_is_no_repeat_when_it_is_shipped_again(rig) -> None:
    append_segments(rig, 1)
    spoil(rig, rig.batches()[0])
    append_segments(rig, 1)
    consumer = rig.consumer(on_poison="skip")
    assert records(consumer.next_batch()) == [b"s1"]


def test_the_window_forgets_the_oldest_and_keeps_its_bound() -> None:
    window = Window(limit=6)
    for number in range(100):
        window.note(Delivered(number, f"l{number}", (Identity(STORE, 0, number),)))
    assert window.first("l99", 100) == 99
    assert window.first("l97", 100) == 97
    assert window.first("l96", 100) is None
    assert window.repeats([Identity(STORE, 0, 96), Identity(STORE, 0, 98)], 100) == (1,)
    assert len(window.through(99)) == 3


def test_the_same_sequence_again_is_no_repeat() -> None:
    window = Window(known=[Delivered(5, "here")])
    assert window.first("here", 5) is None
    assert window.first("here", 6) == 5
    assert window.repeats([None, None], 6) == ()


def test_a_missing_letter_is_told(rig) -> None:
    with pytest.raises(MissingError):
        DeadLetters(rig.bucket).read("dead/none.json")
