"""Runs, orders, slots and prefetch: what a subscription gives is what was appended, once."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
from beside_kit import Beside, number, peek, take
from store_kit import bundle

import quiver
from quiver.engine import delivery

PATIENCE = 60


@pytest.fixture
def beside() -> Beside:
    return Beside()


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch):
    """Let reading one bundle fail with an error, alone and within any run."""
    honest = delivery.read

    def break_(index: int, error: Exception) -> None:
        def read(desk, claim, *, slots=None):
            if claim.bundle_index <= index < claim.bundle_index + claim.count:
                raise error
            return honest(desk, claim, slots=slots)

        monkeypatch.setattr(delivery, "read", read)

    yield break_
    monkeypatch.setattr(delivery, "read", honest)


def test_a_run_gives_what_was_appended_as_a_table_and_one_by_one(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 5, 3)
    subscription = store.subscribe("reader")
    seen = []
    while (run := subscription.poll_run(4)) is not None:
        with run:
            first = len(seen)
            expected = [bundle(n) for n in range(first, first + len(run))]
            assert run.table("events").to_pylist() == [
                row for each in expected for row in each["events"].to_pylist()
            ]
            notes = [
                row for each in expected if "notes" in each for row in each["notes"].to_pylist()
            ]
            assert run.table("notes").to_pylist() == notes
            for given, wanted in zip(run, expected, strict=True):
                assert {k: v.to_pylist() for k, v in given.items()} == {
                    k: v.to_pylist() for k, v in wanted.items()
                }
            seen += [given["events"].column("n")[0].as_py() for given in run]
    assert seen == list(range(8))
    assert store.maintain() == 2


def test_a_run_has_all_its_rows_also_where_its_bundles_were_read_one_by_one(
    beside: Beside,
) -> None:
    store = beside.open()
    beside.fill(store, 3)
    assert take(store.subscribe("single")) == [0, 1, 2]
    subscription = store.subscribe("reader")
    for _ in range(2):
        run = subscription.poll_run()
        assert run.table("events").column("n").drop_null().to_pylist() == [0, 1, 2]
        assert [number(each) for each in run] == [0, 1, 2]
        run.defer()
    assert peek(subscription) == [0, 1, 2]


def test_the_table_of_a_run_whose_schema_changes_has_the_schema_of_a_scan(beside: Beside) -> None:
    store = beside.open()
    parts = [
        pa.record_batch({"x": pa.array([1], pa.int32())}, metadata={"by": "a"}),
        pa.record_batch({"x": pa.array([1 << 40]), "y": ["text"]}, metadata={"by": "b"}),
        pa.record_batch({"y": ["more"]}),
        pa.record_batch({"x": pa.array([2], pa.int32())}, metadata={"by": "a"}),
    ]
    for part in parts:
        store.append({"events": part})
    store.finalize()
    run = store.subscribe("reader").poll_run()
    table = run.table("events")
    table.validate(full=True)
    assert table.schema == pa.schema({"x": pa.int64(), "y": pa.string()})
    assert table.to_pydict() == {"x": [1, 1 << 40, None, 2], "y": [None, "text", "more", None]}
    assert [each["events"].schema.names for each in run] == [["x"], ["x", "y"], ["y"], ["x"]]
    run.defer()


def test_a_run_of_types_with_nothing_in_common_is_gone_through_one_by_one(beside: Beside) -> None:
    store = beside.open()
    for values in ([1], ["one"]):
        store.append({"events": pa.record_batch({"x": values})})
    store.finalize()
    run = store.subscribe("reader").poll_run()
    with pytest.raises(quiver.InputError, match="'x'"):
        run.table("events")
    assert [each["events"].to_pylist() for each in run] == [[{"x": 1}], [{"x": "one"}]]
    run.defer()


def test_a_run_that_failed_comes_back_one_by_one(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 3)
    subscription = store.subscribe("reader")
    with pytest.raises(RuntimeError), subscription.poll_run():
        raise RuntimeError
    assert subscription.poll_run() is None
    beside.clock.step("2s")
    runs = [subscription.poll_run() for _ in range(3)]
    assert [(run.bundle_first, len(run), run.attempt) for run in runs] == [
        (0, 1, 2),
        (1, 1, 2),
        (2, 1, 2),
    ]
    for run in runs:
        run.ack()


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "2"])
def test_what_is_no_number_of_bundles_is_refused(beside: Beside, limit: object) -> None:
    subscription = beside.open().subscribe("reader")
    for ask in (subscription.poll_run, subscription.next_run):
        with pytest.raises(quiver.InputError, match="limit"):
            ask(limit)


@pytest.mark.parametrize("prefetch", [0, 4])
@pytest.mark.parametrize("limit", [1, 4, 100])
def test_a_damaged_bundle_holds_up_no_run(
    beside: Beside, broken, prefetch: int, limit: int
) -> None:
    store = beside.open()
    beside.fill(store, 6)
    broken(3, quiver.DamageError("a bit flipped"))
    subscription = store.subscribe("reader", prefetch=prefetch)
    seen = []
    while (run := subscription.poll_run(limit)) is not None:
        with run:
            seen += range(run.bundle_first, run.bundle_first + len(run))
    assert seen == [0, 1, 2, 4, 5]
    assert beside.disk.list_dir("core_0/quarantine")
    assert store.maintain() == 1
    assert store.metrics()["quiver.subscriber.dropped_bundles", "reader"] == 1


def test_a_disk_that_refuses_to_be_read_holds_up_nothing_for_long(beside: Beside, broken) -> None:
    store = beside.open()
    beside.fill(store, 3)
    broken(1, quiver.StorageError("no"))
    subscription = store.subscribe("reader")
    seen, refusals = [], 0
    for _ in range(9):
        try:
            handle = subscription.poll()
        except quiver.StorageError:
            refusals += 1
            continue
        if handle is None:
            break
        seen.append(number(handle))
        handle.ack()
    assert (seen, refusals) == ([0, 2], 2)
    assert store.lag("reader").waiting_count == 1


def test_a_segment_that_is_gone_is_kept_for_later_and_the_others_come(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 2, 2)
    path = store._core.catalog.get(0).path
    beside.disk.rename(path, f"{path}.away")
    subscription = store.subscribe("reader")
    assert take(subscription) == [2, 3]
    assert store.lag("reader").waiting_count == 2
    beside.disk.rename(f"{path}.away", path)
    beside.clock.step("31s")
    assert take(subscription) == [0, 1]


def test_the_newest_segment_comes_first_and_the_rest_is_filled_in(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 2, 2)
    subscription = store.subscribe("reader", order="newest")
    found = []
    for _ in range(2):
        with subscription.poll() as handle:
            found.append(number(handle))
    beside.fill(store, 2)
    assert found + take(subscription) == [2, 3, 4, 5, 0, 1]


def test_a_function_that_ranks_is_followed_and_asked_once_for_each_bundle(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 3, 3)
    asked = []

    def rank(entry) -> float:
        asked.append(entry.wal_seq)
        return entry.wal_seq % 3

    subscription = store.subscribe("reader", order=rank)
    assert take(subscription) == [2, 5, 1, 4, 0, 3]
    assert sorted(asked) == list(range(6))


def test_a_function_that_fails_claims_nothing(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 2)

    def rank(entry) -> float:
        raise ZeroDivisionError

    subscription = store.subscribe("reader", order=rank)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            subscription.poll()
    assert store.lag("reader").claimed_count == 0
    assert peek(store.subscribe("reader")) == [0, 1]


@pytest.mark.parametrize("prefetch", [0, 3])
@pytest.mark.parametrize("limit", [1, 10])
def test_bundles_without_the_slot_are_acked_unseen(
    beside: Beside, prefetch: int, limit: int
) -> None:
    store = beside.open()
    beside.fill(store, 5, 4)
    subscription = store.subscribe("reader", slots="notes", prefetch=prefetch)
    seen = []
    while (run := subscription.poll_run(limit)) is not None:
        with run:
            assert run.slots == ("notes",)
            with pytest.raises(KeyError):
                run.table("events")
            for each in run:
                assert list(each) == ["notes"]
                seen.append(each["notes"].column("s")[0].as_py())
    assert seen == [f"note {n}" for n in range(0, 9, 2)]
    assert store.maintain() == 2


def test_a_skip_that_the_disk_refuses_is_done_the_next_time(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 4)
    subscription = store.subscribe("reader", slots=["notes"])
    for error in ("EIO", "ENOSPC"):
        beside.disk.fail(
            lambda act: type(act).__name__ == "Write" and act.path.endswith("ack.log"), error=error
        )
        with pytest.raises((quiver.StorageError, quiver.CapacityError)):
            subscription.poll()
        assert store.lag("reader").claimed_count == 0
        beside.disk.heal()
    handle = subscription.poll()
    assert list(handle) == ["notes"]
    handle.ack()
    with subscription.poll() as handle:
        assert handle.bundle_index == 2
    assert store.maintain() == 1


def test_what_was_claimed_ahead_keeps_its_order_and_is_given_back(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 6)
    subscription = store.subscribe("reader", prefetch=4)
    with subscription.poll() as handle:
        assert number(handle) == 0
    assert store.lag("reader").claimed_count == 3
    run = subscription.poll_run(2)
    assert (run.bundle_first, len(run)) == (1, 2)
    run.defer()
    assert take(subscription) == [1, 2, 3, 4, 5]
    beside.fill(store, 3)
    handle = subscription.poll()
    subscription.close()
    assert store.lag("reader").claimed_count == 1
    handle.defer()
    assert peek(store.subscribe("reader")) == [6, 7, 8]


def test_prefetched_bundles_of_one_that_is_renamed_or_reset_do_no_harm(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 4)
    subscription = store.subscribe("reader", prefetch=4)
    subscription.poll().ack()
    store.reset("reader")
    late = subscription.poll()
    late.ack()
    assert store.lag("reader").bundle_count == 4
    store.rename("reader", "other")
    with pytest.raises(quiver.SubscriberError):
        subscription.poll()
    subscription.close()
    assert peek(store.subscribe("other")) == [0, 1, 2, 3]


@pytest.mark.usefixtures("as_another_thread")
def test_no_change_between_the_look_and_the_wait_is_slept_through(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = beside.open()
    subscription = store.subscribe("reader")
    honest, looked = delivery.claim, []

    def claim(desk, name, **options):
        found = honest(desk, name, **options)
        if not looked:  # Just behind the look, in the same thread, something comes.
            looked.append(found)
            beside.fill(store, 1)
        return found

    monkeypatch.setattr(delivery, "claim", claim)
    handles: list[quiver.BundleHandle] = []
    waiting = threading.Thread(target=lambda: handles.append(subscription.next()), daemon=True)
    waiting.start()
    waiting.join(PATIENCE)
    assert looked == [None]
    with handles[0] as handle:
        assert number(handle) == 0


def test_closing_a_subscription_wakes_all_who_wait_for_it(beside: Beside) -> None:
    store = beside.open()
    subscription = store.subscribe("reader")
    found: list[object] = []
    waiting = [
        threading.Thread(target=lambda: found.append(subscription.next()), daemon=True),
        threading.Thread(target=lambda: found.append(subscription.next_run()), daemon=True),
        threading.Thread(target=lambda: found.extend(subscription), daemon=True),
    ]
    for thread in waiting:
        thread.start()
    subscription.close()
    for thread in waiting:
        thread.join(PATIENCE)
    assert found == [None, None]


def test_a_run_that_was_lost_is_offered_again(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 3)
    subscription = store.subscribe("reader")
    run = subscription.poll_run()
    with pytest.warns(ResourceWarning, match="bundles 0 to 2 of segment 0"):
        del run
    assert take(subscription) == [0, 1, 2]


def test_single_bundles_of_a_run_are_read_when_somebody_asks_for_them(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To list the batches of a segment takes as long as to validate them."""
    from quiver.engine.readers import OpenedSegment

    listed: list[int] = []
    honest = OpenedSegment._whole
    monkeypatch.setattr(
        OpenedSegment,
        "_whole",
        lambda opened, stream: listed.append(stream) or honest(opened, stream),
    )
    store = beside.open()
    beside.fill(store, 3)
    with store.subscribe("reader").poll_run() as run:
        assert run.table("events").column("n").drop_null().to_pylist() == [0, 1, 2]
        assert listed == []
        assert [number(each) for each in run] == [0, 1, 2]
        assert listed


def without_columns(rows: int, word: str) -> pa.RecordBatch:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    return batch.replace_schema_metadata({"word": word})


@pytest.mark.parametrize("words", ["aaa", "aba"])
def test_a_run_without_columns_has_all_its_rows(tmp_path, words) -> None:
    with quiver.open(tmp_path, slots=["events"], worker=False) as store:
        for rows, word in enumerate(words, 3):
            store.append({"events": without_columns(rows, word)})
        store.finalize()
        with store.subscribe("reader").poll_run() as run:
            assert run.table("events").num_rows == 3 + 4 + 5
            assert [len(each["events"]) for each in run] == [3, 4, 5]
