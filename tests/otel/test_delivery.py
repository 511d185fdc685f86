"""The loop between a store and an exporter: what is acked, when, and what comes again."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from delivery_kit import OK, ScriptedExporter, rig, texts
from otlp_sinks import logs_batch
from store_kit import abandon

from quiver.errors import CapacityError, DamagedEntry, InputError, StorageError
from quiver.otel.batch import Batch
from quiver.otel.nodes import Accepted, Delivered, Gather, Outcome, Refused, Retry
from quiver.subscriber import BundleHandle


def answering(**answers: Outcome) -> Callable[[Delivered], Outcome]:
    return lambda each: answers.get(texts(each.batch)[0], OK)


def test_all_bundles_are_sent_in_order_and_acked_behind_the_answer() -> None:
    exporter = ScriptedExporter()
    with rig(exporter) as r:
        left = []
        exporter.during = lambda: left.append(r.left())
        r.put(*"abcdef")
        assert r.steps() is None
        assert exporter.accepted == list("abcdef")
        assert left == [6, 2]
        assert r.left() == 0
        assert [each.place.bundle_index for each in exporter.calls[0]] == [0, 1, 2, 3]
        assert r.counts() == {"sent_batches": 6, "sent_items": 6}


def test_one_that_is_not_taken_waits_alone_and_longer_each_time() -> None:
    exporter = ScriptedExporter(answering(b=Retry("no")))
    with rig(exporter) as r:
        r.put(*"abc")
        rest = r.steps()
        assert exporter.accepted == ["a", "c"]
        assert r.left() == 1
        rests = []
        for _ in range(8):
            rests.append(rest)
            r.clock.step(rest)
            rest = r.steps()
        attempts = [each.attempt for call in exporter.calls for each in call if each.attempt > 1]
        assert attempts == sorted(attempts)
        assert len(attempts) >= 3
        assert all(0.8 <= rests[n] <= 30 for n in range(8))
        r.put("d")
        exporter.answer = lambda _: OK
        r.pass_time(30, 2)
        assert exporter.accepted[-2:] in (["b", "d"], ["d", "b"])
        assert r.left() == 0
        assert r.counts()["retried_batches"] == len(attempts) + 1


def test_a_batch_that_never_succeeds_does_not_hold_up_later_ones() -> None:
    exporter = ScriptedExporter(answering(bad=Retry("no")), Gather(batches=1))
    with rig(exporter) as r:
        for n in range(20):
            r.put(*(["bad"] if n == 0 else [f"good{n}"]))
            r.pass_time(5, 1)
        r.pass_time(5, 4)
        assert exporter.accepted == [f"good{n}" for n in range(1, 20)]
        assert r.left() == 1


def test_while_nothing_is_taken_few_are_tried_and_then_all_arrive() -> None:
    exporter = ScriptedExporter(lambda _: Retry("down"))
    with rig(exporter) as r:
        r.put(*(f"{n:02}" for n in range(40)))
        r.pass_time(1, 120)
        calls = len(exporter.calls)
        assert 10 < calls < 60
        assert all(len(call) <= 4 for call in exporter.calls)
        assert r.left() == 40
        assert r.counts()["retried_batches"] >= calls
        exporter.answer = lambda _: OK
        r.pass_time(5, 10)
        assert sorted(exporter.accepted) == [f"{n:02}" for n in range(40)]
        assert r.left() == 0


def test_a_delay_that_the_other_side_asks_for_is_kept() -> None:
    exporter = ScriptedExporter(lambda _: Retry("busy", 90.0))
    with rig(exporter) as r:
        r.put("a")
        assert r.steps() == pytest.approx(90)
        exporter.answer = lambda _: OK
        r.clock.step(89.9)
        assert r.steps() == pytest.approx(0.1)
        assert r.delivery.is_blocked
        r.clock.step(0.2)
        r.steps()
        assert exporter.accepted == ["a"]
        assert r.left() == 0


def test_what_is_refused_becomes_a_dead_letter_with_its_reason() -> None:
    exporter = ScriptedExporter(answering(b=Refused("status 400: odd")))
    with rig(exporter) as r:
        r.put(*"abc")
        r.steps()
        assert exporter.accepted == ["a", "c"]
        assert r.left() == 0
        assert r.counts()["refused_batches"] == r.counts()["refused_items"] == 1
        (folder,) = r.disk.list_dir("core_0/dead_letters")
        files = r.disk.list_dir(f"core_0/dead_letters/{folder.name}")
        about = bytes(r.disk.map(f"core_0/dead_letters/{folder.name}/{files[1].name}"))
        assert b"status 400: odd" in about


def test_a_partial_success_is_acked_and_counted() -> None:
    exporter = ScriptedExporter(lambda _: Accepted(2, "old"))
    with rig(exporter) as r:
        r.store.append(logs_batch("a", "b", "c").bundle)
        r.store.finalize()
        r.steps()
        assert r.left() == 0
        assert r.counts() == {"sent_batches": 1, "sent_items": 1, "rejected_items": 2}


def test_what_processors_leave_nothing_of_is_acked_unsent() -> None:
    def convert(batch: Batch) -> Batch | None:
        if texts(batch) == ["bad"]:
            raise InputError("no")
        return None if texts(batch) == ["drop"] else logs_batch(*texts(batch)[:1])

    exporter = ScriptedExporter()
    with rig(exporter, convert=convert) as r:
        r.store.append(logs_batch("a", "b").bundle)
        r.append("drop", "bad", "c")
        r.store.finalize()
        r.steps()
        assert exporter.accepted == ["a", "c"]
        assert r.left() == 0
        assert r.counts()["dropped_items"] == 2
        assert r.counts()["refused_batches"] == 1


@pytest.mark.parametrize("fault", [ValueError("x"), CapacityError("full")], ids=["ours", "disk"])
def test_an_exporter_that_raises_loses_nothing(fault: Exception) -> None:
    faults = [fault]

    def answer(_: Delivered) -> Outcome:
        if faults:
            raise faults.pop()
        return OK

    with rig(ScriptedExporter(answer)) as r:
        r.put(*"ab")
        r.steps()
        assert r.left() == 2
        assert r.counts() == {"retried_batches": 2}
        r.pass_time(2, 3)
        assert r.exporter.accepted == ["a", "b"]
        assert r.left() == 0


def test_a_processor_that_raises_what_nobody_expects_loses_nothing() -> None:
    faults = [ZeroDivisionError()]

    def convert(batch: Batch) -> Batch:
        if faults:
            raise faults.pop()
        return batch

    with rig(ScriptedExporter(), convert=convert) as r:
        r.put(*"ab")
        r.pass_time(2, 3)
        assert sorted(r.exporter.accepted) == ["a", "b"]
        assert r.left() == 0


def test_what_was_accepted_and_not_acked_before_a_kill_comes_again_and_no_more() -> None:
    exporter = ScriptedExporter()
    with rig(exporter) as r:
        r.put(*"abcdef")
        exporter.during = lambda: abandon(r.store) if len(exporter.calls) == 2 else None
        r.delivery.run()
        assert exporter.accepted == list("abcdef")
        r.delivery._subscription.close()
        disk = r.disk
    again = ScriptedExporter()
    with rig(again, disk) as r:
        r.steps()
        assert again.accepted == ["e", "f"]
        assert r.left() == 0


def test_outcomes_that_find_no_room_are_written_later_and_nothing_is_sent_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exporter = ScriptedExporter()
    with rig(exporter) as r:
        r.put(*"ab")
        outlet = r.store._core.outlet
        append, full = outlet.append, [CapacityError("full")] * 2

        def refusing(records: object) -> None:
            if full:
                raise full.pop()
            append(records)

        monkeypatch.setattr(outlet, "append", refusing)
        r.steps()
        assert r.left() == 2
        assert r.delivery.held_batches == 2
        r.pass_time(2, 4)
        assert exporter.accepted == ["a", "b"]
        assert r.left() == 0


def test_a_disk_that_does_not_let_read_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with rig(ScriptedExporter()) as r:
        r.put(*"ab")
        look, faults = r.delivery._subscription.look, [StorageError("cannot read")] * 3

        def refusing(*given: object) -> object:
            if faults:
                raise faults.pop()
            return look(*given)

        monkeypatch.setattr(r.delivery._subscription, "look", refusing)
        r.pass_time(2, 6)
        assert r.exporter.accepted == ["a", "b"]
        assert r.left() == 0


def test_a_dead_letter_that_finds_damage_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = ScriptedExporter(lambda _: Refused("no"))
    with rig(exporter) as r:
        r.put("a")
        monkeypatch.setattr(BundleHandle, "reject", _damaged)
        r.steps()
        assert r.left() == 1
        monkeypatch.undo()
        r.pass_time(2, 2)
        assert r.left() == 0
        assert r.store.lag("out").dead_letter_count == 1


def _damaged(*_: object) -> None:
    raise DamagedEntry("rot")


def test_a_fault_of_ours_is_told_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    with rig(ScriptedExporter()) as r:
        r.put("a")
        monkeypatch.setattr(r.delivery._subscription, "hand_out", broken)
        with pytest.raises(ZeroDivisionError):
            r.delivery.run()
        assert str(r.delivery.failure) == "a fault of quiver's own: ZeroDivisionError"
        assert r.left() == 1


def test_an_end_is_not_put_off_by_what_processors_leave_nothing_of() -> None:
    with rig(ScriptedExporter(), convert=lambda _: None) as r:
        r.put(*"abcd")
        r.delivery.stop(10)
        r.delivery._convert = lambda _: r.clock.step(4)
        assert r.delivery.step() == 0.0  # The time is up: nothing is waited for.
        r.delivery.run()
        assert r.left() == 1


def test_an_exporter_that_waits_for_more_gets_it_at_once_or_when_time_is_up() -> None:
    exporter = ScriptedExporter(gather=Gather(batches=100, items=3, linger_seconds=10))
    with rig(exporter) as r:
        r.put(*"ab")
        assert r.steps() == 10.0
        assert not exporter.calls
        r.put("c")
        r.steps()
        assert [len(call) for call in exporter.calls] == [3]
        r.put("d")
        assert r.steps() == 10.0
        r.clock.step(10)
        r.steps()
        assert exporter.accepted == list("abcd")


def test_a_stop_drains_what_is_there_and_gives_back_what_it_has_no_time_for() -> None:
    exporter = ScriptedExporter(gather=Gather(batches=100, linger_seconds=60))
    with rig(exporter) as r:
        r.put(*"abc")
        r.steps()
        r.delivery.stop(30)
        r.delivery.run()
        assert exporter.accepted == list("abc")
        assert exporter.closed == 1
        assert r.left() == 0
    exporter = ScriptedExporter(lambda _: Retry("down"), Gather(batches=2))
    with rig(exporter) as r:
        r.put(*"abc")
        exporter.during = lambda: r.clock.step(20)
        r.delivery.stop(30)
        r.steps()
        r.clock.step(20)
        r.delivery.run()
        assert r.left() == 3
        assert r.delivery.held_batches == 0
        assert r.delivery.failure is None


def test_a_thread_wakes_for_what_comes_and_ends_when_the_store_is_closed() -> None:
    exporter = ScriptedExporter()
    with rig(exporter) as r:
        thread = threading.Thread(target=r.delivery.run)
        came = threading.Event()
        exporter.during = came.set
        thread.start()
        r.put("a")
        assert came.wait(20)
        r.store.close()
        thread.join(20)
        assert not thread.is_alive()
        assert exporter.accepted == ["a"]
        assert exporter.closed == 1
