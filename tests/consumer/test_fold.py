"""What the store makes of inboxes: honest ones, late ones, and such as nobody can have written."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from beside_kit import FOLDER, Beside, peek, take

import quiver
from quiver.acks import NackState, SegmentState
from quiver.acks.inbox import DeadLetterState, encode_inbox
from quiver.engine.fold import WHOLE_FOLDER


def committed(beside: Beside, store: quiver.Store, *, acked: int = 1) -> quiver.Consumer:
    """Give a consumer that acked some of four bundles; it is folded in."""
    beside.fill(store, 4)
    consumer = beside.subscribe()
    consumer.poll_run(acked).ack()
    consumer.commit()
    store.maintain()
    return consumer


HOSTILE = {
    "the highest lease": {"lease": (1 << 64) - 1},
    "a lease far away": {"lease": 1 << 40},
    "another store": {"store_id": "ab" * 16},
}


@pytest.mark.parametrize("changes", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_cannot_be_is_refused_by_name_and_changes_nothing(
    beside: Beside, changes: dict
) -> None:
    store = beside.open()
    committed(beside, store)
    before, size = store.lag("reader"), store.info().acks_bytes
    whole = (SegmentState(0, 4, ((0, 4),)),)
    beside.leave(beside.inbox(), segments=whole, **changes)
    assert store.maintain() == 0
    assert list(store.refused_inboxes) == ["reader"]
    assert "inbox/reader" in str(store.refused_inboxes["reader"])
    assert (store.lag("reader"), store.info().acks_bytes) == (before, size)
    store.close()
    store = beside.open()
    assert list(store.refused_inboxes) == ["reader"]
    assert store.lag("reader").bundle_count == 3


@pytest.mark.parametrize("changes", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("elsewhere", [False, True])
def test_who_comes_sets_it_aside_and_goes_on(
    beside: Beside, changes: dict, *, elsewhere: bool
) -> None:
    store = beside.open()
    consumer = committed(beside, store)
    consumer.poll().ack()
    beside.leave(beside.inbox(), **changes)
    with pytest.raises(quiver.QuiverError):
        consumer.commit()
    store.maintain()
    data = beside.disk.open(f"{FOLDER}/reader").read(0, 1 << 20)
    coming = beside.subscribe() if elsewhere else store.subscribe("reader")
    store.maintain()
    assert store.refused_inboxes == {}
    kept = [stat.name for stat in beside.disk.list_dir("core_0/quarantine")]
    copy, reason = kept
    assert (copy.startswith("inbox-reader."), reason) == (True, f"{copy}.json")
    assert beside.disk.open(f"core_0/quarantine/{copy}").read(0, 1 << 20) == data
    about = beside.disk.open(f"core_0/quarantine/{reason}").read(0, 1 << 20)
    assert json.loads(bytes(about))["path"].endswith("inbox/reader")
    assert len(store.recovery.damage) == (not elsewhere)
    assert take(coming) == [1, 2, 3]
    with pytest.raises(quiver.SubscriberError):
        consumer.commit()


def test_one_of_a_newer_version_is_left_to_who_understands_it(beside: Beside) -> None:
    store = beside.open()
    committed(beside, store)
    beside.put("reader", _with_version(bytearray(encode_inbox(beside.inbox())), 2))
    for subscribe in (beside.subscribe, lambda: store.subscribe("reader")):
        with pytest.raises(quiver.VersionError):
            subscribe()
    assert beside.disk.stat("core_0/quarantine") is None
    store.reset("reader")
    assert len(beside.disk.list_dir("core_0/quarantine")) == 2
    assert take(beside.subscribe()) == [0, 1, 2, 3]


def test_a_reset_gets_rid_of_any_inbox(beside: Beside) -> None:
    store = beside.open()
    committed(beside, store)
    beside.leave(beside.inbox(), lease=(1 << 64) - 1)
    store.reset("reader")
    assert take(beside.subscribe()) == [0, 1, 2, 3]


def test_files_that_are_no_inboxes_do_not_stop_a_tick_or_an_opening(beside: Beside) -> None:
    store = beside.open()
    committed(beside, store)
    inbox = beside.inbox()
    data = encode_inbox(inbox)
    newer = bytearray(data)
    beside.put("empty", b"")
    beside.put("zeros", bytes(200))
    beside.put("torn", data[:-1])
    beside.put("flipped", data[:60] + bytes([data[60] ^ 1]) + data[61:])
    beside.put("other", data)
    beside.put("large", bytes((1 << 24) + 1))
    beside.put("newer", _with_version(newer, 2))
    beside.put(".hidden", data)
    beside.put("reader.tmp", data)
    beside.disk.make_dir(f"{FOLDER}/folder")
    expected = ["empty", "flipped", "large", "newer", "other", "torn", "zeros"]
    for _ in range(2):
        assert store.maintain() == 0
        assert list(store.refused_inboxes) == expected
        assert store.info().subscribers == ("reader",)
        assert store.lag("reader").bundle_count == 3
        assert isinstance(store.refused_inboxes["newer"], quiver.VersionError)
        store.close()
        store = beside.open()
    assert store.metrics()["quiver.inbox.refused", ""] == len(expected)
    assert take(store.subscribe("reader")) == [1, 2, 3]


def _with_version(data: bytearray, version: int) -> bytes:
    from crc32c import crc32c

    data[8:10] = version.to_bytes(2, "little")
    data[-4:] = crc32c(bytes(data[:-4])).to_bytes(4, "little")
    return bytes(data)


def test_links_are_not_followed_and_stop_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with quiver.open(path, slots=["events"], worker=False) as store:
        with quiver.subscribe(path, "reader", worker=False):
            pass
        folder = path / "core_0/acks/inbox"
        (folder / "linked").symlink_to(folder / "reader")
        store.maintain()
        assert store.info().subscribers == ("reader",)
        assert "linked" not in store.refused_inboxes


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_folder_of_inboxes_that_is_none_is_named_and_stops_nothing(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "store"
    with quiver.open(path, slots=["events"], worker=False):
        pass
    folder = path / "core_0/acks/inbox"
    if kind == "link":
        folder.symlink_to(tmp_path)
    else:
        folder.write_bytes(b"")
    with quiver.open(path, slots=["events"], worker=False) as store:
        store.maintain()
        assert list(store.refused_inboxes) == [WHOLE_FOLDER]
        folder.unlink()
        store.maintain()
        assert store.refused_inboxes == {}


def test_what_it_says_of_bundles_that_are_not_there_is_passed_over(beside: Beside) -> None:
    store = beside.open()
    committed(beside, store, acked=2)
    lag = store.lag("reader")
    beside.leave(
        beside.inbox(),
        segments=(SegmentState(0, 900, ((0, 1), (4, 800))), SegmentState(77, 3, ((0, 3),))),
        nacks=(NackState(0, 1, 9, 1 << 62), NackState(0, 4, 9, 5), NackState(77, 0, 1, 5)),
        dead_letters=(
            DeadLetterState(0, 0, 1),
            DeadLetterState(0, 4, 1),
            DeadLetterState(0, (1 << 32) - 1, 1),
            DeadLetterState(1 << 63, 0, 1),
        ),
    )
    store.maintain()
    assert store.refused_inboxes == {}
    assert store.lag("reader") == lag
    assert peek(store.subscribe("reader")) == [2, 3]


def test_a_bundle_both_acked_and_given_up_has_one_outcome(beside: Beside) -> None:
    store = beside.open()
    committed(beside, store)
    beside.leave(
        beside.inbox(),
        segments=(SegmentState(0, 4, ((0, 4),)),),
        dead_letters=(DeadLetterState(0, 2, 1),),
        nacks=(NackState(0, 3, 1, 5),),
    )
    assert store.maintain() == 1
    lag = store.lag("reader")
    assert (lag.bundle_count, lag.waiting_count, lag.dead_letter_count) == (0, 0, 0)


def test_one_with_claims_of_the_same_lease_leaves_no_bundle_behind(beside: Beside) -> None:
    """Nobody honest writes it: a subscription of the store holds what its own inbox nacks."""
    store = beside.open()
    committed(beside, store)
    subscription = store.subscribe("reader")
    run = subscription.poll_run(9)
    inbox = beside.inbox()
    beside.leave(inbox, dead_letters=(DeadLetterState(0, 3, 1),))
    store.maintain()
    assert "claimed" in str(store.refused_inboxes["reader"])
    beside.leave(inbox, nacks=(NackState(0, 2, 1, beside.clock.wall_ns() + 10**9),))
    store.maintain()
    assert store.refused_inboxes == {}
    assert store.lag("reader").claimed_count == 0
    run.defer()
    assert peek(subscription) == [1, 3]
    beside.clock.step("2s")
    assert take(subscription) == [1, 2, 3]
    assert store.maintain() == 1


@pytest.mark.parametrize("start", ["earliest", "latest", 1, "2023-11-14T22:14:00Z"])
def test_a_registration_through_an_inbox_has_each_kind_of_start(
    beside: Beside, start: str | int
) -> None:
    store = beside.open()
    beside.fill(store, 3)
    beside.clock.step("60s")
    beside.fill(store, 3)
    beside.subscribe(start=start)
    store.maintain()
    beside.fill(store, 1)
    expected = {"earliest": range(7), "latest": [6], 1: range(3, 7)}.get(start, range(3, 7))
    assert peek(store.subscribe("reader")) == list(expected)
    assert take(beside.subscribe()) == list(expected)


def test_who_comes_after_one_that_was_not_folded_in_keeps_its_start(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 2)
    beside.subscribe(start="latest")
    beside.fill(store, 3)
    assert peek(beside.subscribe(start="latest")) == [2, 3, 4]
    store.maintain()
    assert peek(store.subscribe("reader")) == [2, 3, 4]


def test_acks_for_a_segment_that_the_store_does_not_know_yet_are_not_lost(beside: Beside) -> None:
    store = beside.open()
    inbox_of = committed(beside, store)
    ahead = dataclasses.replace(
        beside.inbox(),
        segments=(SegmentState(0, 4, ((0, 1),)), SegmentState(1, 2, ((0, 1),))),
        nacks=(NackState(1, 1, 3, 5),),
    )
    beside.leave(ahead)
    store.maintain()
    beside.fill(store, 2)
    store.maintain()
    assert store.lag("reader").bundle_count == 4
    subscription = store.subscribe("reader")
    handles = [subscription.poll() for _ in range(4)]
    assert [handle.attempt for handle in handles] == [1, 1, 1, 4]
    for handle in handles:
        handle.ack()
    assert inbox_of.closed is False


def test_what_one_saw_and_the_next_did_not_see_yet_is_taken_over(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segment comes, is acked and committed just after the next consumer looked."""
    from quiver.consumer import lease

    store = beside.open()
    first = beside.subscribe()
    honest = lease.holding

    def late(disk, folder, name, **options):
        monkeypatch.setattr(lease, "holding", honest)
        beside.fill(store, 2)
        first.refresh()
        assert take(first) == [0, 1]
        first.commit()
        return honest(disk, folder, name, **options)

    monkeypatch.setattr(lease, "holding", late)
    second = beside.subscribe()
    assert take(second) == []
    second.commit()
    assert store.maintain() == 1


def test_a_full_disk_opens_and_folds_in_once_there_is_room(beside: Beside) -> None:
    with beside.open() as store:
        beside.fill(store, 3)
        store.subscribe("reader")
    consumer = beside.subscribe()
    consumer.poll().ack()
    consumer.poll().reject("bad")
    consumer.commit()
    beside.disk.fail(
        lambda act: type(act).__name__ == "Write" and "inbox" not in act.path,
        error="ENOSPC",
        sticky=True,
    )
    store = beside.open()
    with pytest.raises(quiver.CapacityError):
        store.maintain()
    assert store.lag("reader").bundle_count == 3
    beside.disk.heal()
    store.maintain()
    assert store.lag("reader").bundle_count == 1
    assert store.lag("reader").dead_letter_count == 1


def test_one_inbox_that_cannot_be_folded_in_does_not_hold_up_the_others(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 2)
    a, z = beside.subscribe("a"), beside.subscribe("z")
    store.maintain()
    a.poll().reject("bad")
    a.commit()
    take(z)
    z.commit()
    beside.disk.fail(lambda act: "dead_letters" in act.path, error="ENOSPC", sticky=True)
    with pytest.raises(quiver.CapacityError):
        store.maintain()
    assert (store.lag("a").bundle_count, store.lag("z").bundle_count) == (2, 0)
    assert store.lag("a").claimed_count == 0
    beside.disk.heal()
    store.maintain()
    assert (store.lag("a").bundle_count, store.lag("a").dead_letter_count) == (1, 1)


@pytest.mark.parametrize("path_end", ["ack.log", "reader"])
def test_a_takeover_that_breaks_off_forgets_nothing(beside: Beside, path_end: str) -> None:
    store = beside.open()
    consumer = committed(beside, store, acked=2)
    consumer.poll().ack()
    consumer.commit()
    beside.disk.fail(
        lambda act: type(act).__name__ in {"Sync", "Rename"} and path_end in act.path, sticky=True
    )
    with pytest.raises(quiver.QuiverError):
        store.subscribe("reader")
    beside.disk.heal()
    beside.die(store)
    store = beside.open()
    assert peek(store.subscribe("reader")) == [3]
    with pytest.raises(quiver.SubscriberError):
        consumer.refresh()


def test_an_inbox_that_outlived_its_subscriber_is_removed(beside: Beside) -> None:
    """A crash came between the record that somebody left and the removal of the file."""
    store = beside.open()
    consumer = committed(beside, store)
    consumer.poll().ack()
    consumer.commit()
    store.maintain()
    inbox = beside.inbox()
    assert inbox.subscriber_id
    store.rename("reader", "other")
    beside.leave(inbox)
    store.maintain()
    assert beside.disk.stat(f"{FOLDER}/reader") is None
    with pytest.raises(quiver.SubscriberError, match="removed, renamed or reset"):
        consumer.refresh()
    assert store.info().subscribers == ("other",)


def test_a_damaged_bundle_is_left_to_the_store_which_looks_for_itself(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    from quiver.engine import delivery

    store = beside.open()
    beside.fill(store, 4)
    consumer = beside.subscribe()
    honest = delivery.read

    def read(desk, claim, *, slots=None):
        if claim.bundle_index <= 2 < claim.bundle_index + claim.count:
            raise quiver.DamageError("a bit flipped on the way")
        return honest(desk, claim, slots=slots)

    monkeypatch.setattr(delivery, "read", read)
    assert take(consumer) == [0, 1, 3]
    consumer.commit()
    monkeypatch.setattr(delivery, "read", honest)
    assert store.maintain() == 0
    assert store.lag("reader").bundle_count == 1
    assert take(beside.subscribe()) == [2]
