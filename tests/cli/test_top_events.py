"""What happened, from two looks at a store."""

from __future__ import annotations

import pytest
from top_kit import START, changed, core, look, subscriber

from quiver.cli.live.board import EVENTS_MAX, Board
from quiver.cli.live.events import Event, events_between, first_events
from quiver.cli.live.look import SegmentSize, Writer
from quiver.units import SECOND


def told(before, after) -> list[str]:
    return [event.text for event in events_between(look(before), look(after, at=1))]


def segments(*seqs: int) -> dict[int, SegmentSize]:
    return {seq: SegmentSize(10, 1000) for seq in seqs}


def test_nothing_happened() -> None:
    assert told(core(), core()) == []


def test_an_event_has_the_time_of_the_look_that_saw_it_and_its_core() -> None:
    before = core(3)
    after = changed(before, segments=segments(0, 1, 2), next_segment_seq=3)
    assert events_between(look(before), look(after, at=5)) == [
        Event(START + 5 * SECOND, 3, "segment", "segment 2 finalized: 10 bundles, 1kB")
    ]


@pytest.mark.parametrize(
    "seqs, next_seq, texts",
    [
        ((0, 1, 2), 3, ["segment 2 finalized: 10 bundles, 1kB"]),
        ((0, 1, 2, 3, 4), 5, ["3 segments, 2 to 4, finalized: 30 bundles, 3kB"]),
        ((1,), 2, ["segment 0 deleted: 10 bundles, 1kB"]),
        (
            (2,),
            3,
            [
                "segment 2 finalized: 10 bundles, 1kB",
                "2 segments, 0 to 1, deleted: 20 bundles, 2kB",
            ],
        ),
        (
            (0, 1, 4),
            5,
            [
                "segment 4 finalized: 10 bundles, 1kB",
                "2 segments finalized and deleted since the last look",
            ],
        ),
        ((0, 1), 3, ["1 segment finalized and deleted since the last look"]),
    ],
)
def test_segments_come_and_go(seqs, next_seq, texts) -> None:
    before = core()
    assert told(before, changed(before, segments=segments(*seqs), next_segment_seq=next_seq)) == (
        texts
    )


def test_a_segment_that_was_away_is_back() -> None:
    before = core(seqs=(1,))
    after = changed(before, segments=segments(0, 1))
    assert told(before, after) == ["segment 0 came back: 10 bundles, 1kB"]


def test_the_first_segment_of_all_is_told() -> None:
    before = core(seqs=())
    after = changed(before, segments=segments(0), next_segment_seq=1)
    assert told(before, after) == ["segment 0 finalized: 10 bundles, 1kB"]


def test_subscribers_come_go_pause_and_give_up() -> None:
    before = core(subscribers=(subscriber("a"), subscriber("b"), subscriber("c")))
    after = changed(
        before,
        subscribers=(
            subscriber("b", is_paused=True),
            subscriber("c", dead_letter_count=2),
            subscriber("d", dead_letter_count=1),
        ),
    )
    assert told(before, after) == [
        "subscriber b was paused",
        "subscriber c gave up 2 bundles",
        "subscriber d came",
        "subscriber d gave up 1 bundle",
        "subscriber a went",
    ]
    assert told(after, before)[0] == "subscriber a came"
    assert "subscriber b goes on" in told(after, before)


@pytest.mark.parametrize(
    "old, new, text",
    [
        ((False, None), (True, 7), "process 7 began to write"),
        ((None, None), (True, 7), "process 7 began to write"),
        ((True, 7), (False, None), "process 7 writes no more"),
        ((True, 7), (True, 8), "process 8 writes instead of 7"),
        ((True, 7), (True, 7), None),
        ((True, 7), (None, None), None),
        ((None, None), (False, None), None),
    ],
)
def test_a_writer_starts_and_stops(old, new, text) -> None:
    before, after = core(writer=Writer(*old)), core(writer=Writer(*new))
    assert told(before, after) == ([] if text is None else [text])


def test_damage_is_told_once_and_what_was_set_aside_each_time() -> None:
    before = core()
    after = changed(before, quarantine_bytes=1200, damage=("passed over x",))
    assert told(before, after) == [
        "damage was set aside: 1.2kB more in quarantine",
        "passed over x",
    ]
    assert told(after, after) == []
    assert told(after, before) == []


def test_a_core_that_cannot_be_read_says_why_once() -> None:
    before = core()
    after = changed(before, problem="no right to read it", segments=segments())
    assert told(before, after) == ["no right to read it"]
    assert told(after, after) == []


def test_cores_appear_and_go() -> None:
    new = core(1, seqs=(0,), subscribers=(subscriber("a"),))
    found = events_between(look(core()), look(core(), new))
    assert [(event.core, event.kind, event.text) for event in found] == [
        (1, "core", "core 1 appeared"),
        (1, "writer", "process 41 began to write"),
        (1, "subscriber", "subscriber a came"),
    ]
    (gone,) = events_between(look(core(), new), look(core()))
    assert (gone.core, gone.text) == (1, "core 1 is gone")


def test_a_store_goes_comes_back_and_is_another_one() -> None:
    here, gone = look(core()), look(problem="no quiver.json in there")
    wrong = look(core(damage=("passed over x",)))
    assert [e.text for e in events_between(here, gone)] == ["no quiver.json in there"]
    assert events_between(gone, gone) == []
    assert [e.text for e in events_between(gone, wrong)] == [
        "the store is there again",
        "passed over x",
    ]
    other = look(core(seqs=()), store_id="1" * 32)
    assert [e.text for e in events_between(here, other)] == ["another store is there now"]


def test_the_first_look_tells_what_is_wrong_already() -> None:
    found = first_events(look(core(problem="p"), core(1, damage=("d", "e"))))
    assert [(event.core, event.text) for event in found] == [(0, "p"), (1, "d"), (1, "e")]
    assert first_events(look(core())) == []


def test_a_board_keeps_the_newest_events_and_the_last_look_that_saw_something() -> None:
    board = Board("store", interval_ns=SECOND)
    before = core(damage=("first",))
    board.take(look(before))
    assert (board.rates, [event.text for event in board.events]) == (None, ["first"])
    after = changed(before, segments=segments(0, 1, 2), next_segment_seq=3)
    board.take(look(after, at=1))
    assert board.events[0].text.startswith("segment 2 finalized")
    assert board.rates is not None
    board.take(look(problem="gone", at=2))
    assert (board.problem, board.look, board.rates) == ("gone", look(after, at=1), None)
    for number in range(EVENTS_MAX):
        board.take(look(problem=f"gone {number}", at=3 + number))
    assert len(board.events) == EVENTS_MAX
    assert board.events[0].text == f"gone {EVENTS_MAX - 1}"
