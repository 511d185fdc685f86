"""Bundles that are sent before their segment is finished."""

from __future__ import annotations

import threading

from delivery_kit import OK, Rig, ScriptedExporter, rig, texts
from otlp_sinks import logs_batch
from store_kit import abandon

from quiver.errors import CapacityError
from quiver.otel.delivery import Policy, Pressure
from quiver.otel.nodes import Gather, Refused, Retry
from quiver.testing import ManualClock


def offer(r: Rig, *names: str) -> None:
    """Append and offer, as who keeps a store does."""
    for name in names:
        batch = logs_batch(name)
        r.delivery.offer(r.store.append(batch.bundle), batch)


def test_an_offer_is_sent_at_once_and_settled_when_its_segment_comes() -> None:
    exporter = ScriptedExporter()
    with rig(exporter) as r:
        offer(r, *"ab")
        r.steps()
        assert exporter.accepted == ["a", "b"]
        assert r.counts()["ahead_batches"] == 2
        assert [each.place for each in exporter.calls[0]] == [None, None]
        r.store.finalize()
        assert r.left() == 2
        r.steps()
        assert exporter.accepted == ["a", "b"]
        assert r.left() == 0
        assert len(exporter.calls) == 1


def test_an_offer_that_is_not_taken_comes_with_its_segment() -> None:
    exporter = ScriptedExporter(lambda _: Retry("down"))
    with rig(exporter) as r:
        offer(r, "a")
        r.steps()
        offer(r, "b")
        assert r.delivery.offered_batches == 0, "nobody is to wait in memory for who is down"
        r.store.finalize()
        exporter.answer = lambda _: OK
        r.pass_time(2, 3)
        assert exporter.accepted == ["a", "b"]
        assert r.left() == 0


def test_an_offer_that_is_refused_is_a_dead_letter_when_its_segment_comes() -> None:
    exporter = ScriptedExporter(lambda _: Refused("status 400"))
    with rig(exporter) as r:
        offer(r, "a")
        r.steps()
        r.store.finalize()
        r.steps()
        assert r.left() == 0
        assert r.store.lag("out").dead_letter_count == 1
        assert r.counts()["refused_batches"] == 1


def test_what_stands_in_segments_goes_before_what_is_offered_and_nothing_twice() -> None:
    exporter = ScriptedExporter(gather=Gather(batches=1))
    with rig(exporter) as r:
        r.put(*"ab")
        offer(r, *"cd")
        r.delivery.step()
        r.store.finalize()
        r.steps()
        assert exporter.accepted == list("abcd")
        assert r.left() == 0
        assert "ahead_batches" not in r.counts()
        assert r.delivery.offered_batches == 0


def test_a_segment_that_comes_while_an_offer_is_in_hand_gives_it_its_place() -> None:
    exporter = ScriptedExporter(gather=Gather(batches=9, linger_seconds=5))
    with rig(exporter) as r:
        offer(r, "a")
        r.steps()
        r.store.finalize()
        r.clock.step(5)
        r.steps()
        assert exporter.accepted == ["a"]
        assert r.left() == 0
        assert exporter.calls[0][0].place is not None


def test_a_kill_forgets_what_was_sent_ahead_and_it_comes_again() -> None:
    exporter = ScriptedExporter()
    with rig(exporter) as r:
        offer(r, *"ab")
        r.steps()
        abandon(r.store)
        disk = r.disk
    again = ScriptedExporter()
    with rig(again, disk) as r:
        r.store.finalize()
        r.steps()
        assert again.accepted == ["a", "b"]
        assert r.left() == 0


def test_more_offers_than_there_is_room_for_come_with_their_segment() -> None:
    exporter = ScriptedExporter()
    with rig(exporter, policy=Policy(offers_max=2)) as r:
        offer(r, *"abcd")
        assert r.delivery.offered_batches == 2
        r.steps()
        assert exporter.accepted == ["a", "b"]
        r.store.finalize()
        r.steps()
        assert exporter.accepted == list("abcd")
        assert r.left() == 0
    with rig(ScriptedExporter(), policy=Policy(offers_bytes=10)) as r:
        offer(r, "a")
        assert r.delivery.offered_batches == 0


def test_segments_are_made_of_what_there_was_no_room_for_once_there_is_nothing_else() -> None:
    exporter = ScriptedExporter(gather=Gather(batches=1))
    made: list[int] = []
    with rig(exporter, policy=Policy(offers_max=2), finish=lambda: made.append(r.finish())) as r:
        offer(r, *"abcd")
        r.delivery.step()
        assert made == [], "there was an offer to send"
        r.steps()
        assert exporter.accepted == list("abcd")
        assert r.left() == 0
        assert made == [4]
        offer(r, "e")
        r.steps()
        assert exporter.accepted == list("abcde")
        assert made == [4], "it was sent ahead, and its segment can wait"


def test_no_segment_is_made_of_what_came_by_one_since_or_while_it_is_paused() -> None:
    made: list[int] = []
    policy = Policy(offers_max=1)
    with rig(ScriptedExporter(), policy=policy, finish=lambda: made.append(r.finish())) as r:
        offer(r, *"ab")
        r.store.finalize()
        r.steps()
        assert r.left() == 0
        assert made == []
        r.store.pause("out")
        offer(r, *"cd")
        r.steps()
        assert made == []
        r.store.resume("out")
        r.store.finalize()
        r.steps()
        assert r.left() == 0


def test_a_disk_that_makes_no_segment_now_makes_it_later() -> None:
    exporter = ScriptedExporter()

    def finish() -> None:
        raise CapacityError("full")

    with rig(exporter, policy=Policy(offers_max=1), finish=finish) as r:
        offer(r, *"ab")
        r.steps()
        assert exporter.accepted == ["a"]
        r.store.finalize()
        r.steps()
        assert exporter.accepted == ["a", "b"]
        assert r.left() == 0


def test_who_has_to_know_the_place_or_is_paused_gets_no_offers() -> None:
    exporter = ScriptedExporter(gather=Gather(needs_place=True))
    with rig(exporter) as r:
        offer(r, "a")
        r.steps()
        assert not exporter.calls
    exporter = ScriptedExporter()
    with rig(exporter) as r:
        r.store.pause("out")
        offer(r, "a")
        r.steps()
        assert not exporter.calls
        r.store.resume("out")
        r.store.finalize()
        r.steps()
        assert exporter.accepted == ["a"]


def test_an_offer_wakes_the_thread() -> None:
    exporter = ScriptedExporter()
    with rig(exporter) as r:
        came = threading.Event()
        exporter.during = came.set
        thread = threading.Thread(target=r.delivery.run)
        thread.start()
        offer(r, "a")
        assert came.wait(20)
        r.delivery.stop()
        thread.join(20)
        assert not thread.is_alive()


def early(r: Rig, *names: str) -> None:
    """Offer as who keeps a store does, which is told of what arrives."""
    offer(r, *names)
    r.steps()


def test_what_is_accepted_early_is_told_to_the_store_and_does_not_come_again() -> None:
    exporter = ScriptedExporter()
    with rig(exporter, early=lambda seqs: r.store.ack_early("out", seqs)) as r:
        early(r, *"ab")
        info = r.store.finalize()
        assert info is not None
        assert r.left() == 0, "it was acked when the segment was made"
        r.steps()
        assert exporter.accepted == ["a", "b"]
        assert len(exporter.calls) == 1


def test_what_was_refused_early_or_was_late_is_settled_when_it_comes() -> None:
    exporter = ScriptedExporter(lambda each: Refused("400") if texts(each.batch) == ["a"] else OK)
    with rig(exporter, early=lambda seqs: r.store.ack_early("out", seqs)) as r:
        exporter.during = r.store.finalize
        early(r, *"ab")
        assert exporter.accepted == ["b"]
        assert r.left() == 0
        assert r.store.lag("out").dead_letter_count == 1
        assert len(exporter.calls) == 1


class Pressed:
    is_high = True


def test_there_is_room_unless_time_is_short_and_offers_are_taken() -> None:
    exporter = ScriptedExporter(gather=Gather(batches=1))
    pressed = Pressed()
    with rig(exporter, policy=Policy(offers_max=16), pressure=pressed) as r:
        offer(r, *"abcd")
        r.delivery.step()
        assert not r.delivery.has_room
        assert r.delivery.is_pressed
        pressed.is_high = False
        assert r.delivery.has_room
        pressed.is_high = True
        r.clock.step("101ms")
        assert r.delivery.has_room, "its other side is slow"
        r.steps()
        assert r.delivery.has_room
        assert exporter.accepted == list("abcd")


def test_a_process_is_pressed_when_it_ran_most_of_the_last_moment() -> None:
    clock, spent = ManualClock(), [0]
    pressure = Pressure(clock, lambda: spent[0])
    assert not pressure.is_high
    for ran_ms, is_high in ((20, False), (59, True), (40, True), (10, False)):
        clock.step("50ms")
        spent[0] += ran_ms * 1_000_000
        assert pressure.is_high == is_high
        clock.step("10ms")
        assert pressure.is_high == is_high, "it looks once in a while"
