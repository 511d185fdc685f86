"""A board in words, none of which can steer a terminal."""

from __future__ import annotations

from datetime import UTC

import pytest
from top_kit import HOSTILE, changed, core, look, subscriber

from quiver.cli.live import words
from quiver.cli.live.board import Board
from quiver.cli.live.look import Writer
from quiver.units import SECOND


def board_of(*looks, cap=None) -> Board:
    board = Board("store", interval_ns=SECOND, cap=cap)
    for each in looks:
        board.take(each)
    return board


def cells(sheet) -> list[tuple[str, ...]]:
    return [row.cells for row in sheet.rows]


def test_nothing_is_known_before_the_first_look() -> None:
    board = board_of()
    assert words.head_line(board, is_paused=False) == "store · every 1s"
    assert words.rate_words(board) == "in: not known yet"
    assert words.used_words(board) == ("disk 0B, no cap known", None)
    assert cells(words.core_sheet(board)) == cells(words.subscriber_sheet(board)) == []


def test_the_lines_at_the_top_add_up_all_cores() -> None:
    dead = (subscriber(dead_letter_count=2),)
    board = board_of(
        look(core(), core(1, quarantine_bytes=1000, used_bytes=3664, subscribers=dead)), cap=10_000
    )
    assert board.look is not None
    assert words.station_line(board.look) == (
        "log 1.2kB in 2 files, 10 open · 4 segments 4kB · acks 128B · quarantine 1kB"
        " · 2 dead letters"
    )
    used, share = words.used_words(board)
    assert (used, share) == ("disk 6.3kB of 10kB, 63%", 0.6328)
    head = words.head_line(board, is_paused=True, zone=UTC)
    assert head == "store · 2 cores · every 1s · a look takes 2ms · 22:13:20 · PAUSED"


def test_each_core_is_a_row() -> None:
    before = core()
    after = changed(
        before,
        next_wal_seq=28,
        open_bytes=3500,
        open_bundle_count=8,
        writer=Writer(is_there=False),
    )
    unknown = core(12, writer=Writer())
    board = board_of(look(before, unknown), look(after, unknown, at=2))
    assert words.rate_words(board) == "in 1.5 bundles/s  1.5kB/s"
    assert cells(words.core_sheet(board)) == [
        ("0", "none", "1.5", "1.5kB", "600B", "8", "2", "2kB", "64B", "0B", "2.7kB"),
        ("12", "?", "0", "0B", "600B", "5", "2", "2kB", "64B", "0B", "2.7kB"),
    ]
    assert cells(words.core_sheet(board_of(look(before))))[0][1:4] == ("41", "-", "-")


def test_each_subscriber_is_a_row_with_its_cores_together() -> None:
    behind = subscriber(
        bundle_count=1500, byte_count=2000, oldest_age_ns=90 * SECOND, retrying_count=1
    )
    paused = subscriber(bundle_count=1, oldest_age_ns=5, is_paused=True, dead_letter_count=3)
    fine = subscriber("fine")
    board = board_of(look(core(subscribers=(behind, fine)), core(1, subscribers=(paused,))))
    sheet = words.subscriber_sheet(board)
    assert cells(sheet) == [
        ("fine", "0", "0B", "-", "-", "0", "0", ""),
        ("lake", "1,501", "2kB", "1.5m", "-", "1", "3", "paused"),
    ]
    assert [row.is_alarming for row in sheet.rows] == [False, True]


def test_sheets_are_sorted_by_numbers_from_the_largest_and_by_names_from_the_first() -> None:
    some = [
        subscriber("b", bundle_count=5, oldest_age_ns=7),
        subscriber("c", bundle_count=900),
        subscriber("a", bundle_count=20, oldest_age_ns=9),
    ]
    sheet = words.subscriber_sheet(board_of(look(core(subscribers=tuple(some)))))

    def names(column: str) -> list[str]:
        return [row.name for row in sheet.sorted_by(sheet.titles.index(column)).rows]

    assert names("bundles") == ["c", "a", "b"]
    assert names("subscriber") == ["a", "b", "c"]
    assert names("oldest") == ["a", "b", "c"]  # What is not known comes last.
    assert names("done/s") == ["a", "b", "c"]


def test_events_are_rows_with_the_time_of_day() -> None:
    board = board_of(look(core(damage=("x",)), at=1), look(problem="gone", at=2))
    sheet = words.event_sheet(board.events, UTC)
    assert cells(sheet) == [("22:13:22", "-", "gone"), ("22:13:21", "0", "x")]
    assert all(row.is_alarming for row in sheet.rows)


@pytest.mark.parametrize("where", ["name", "damage", "problem", "folder"])
def test_what_others_wrote_is_printable_when_it_leaves(where) -> None:
    board = Board(HOSTILE if where == "folder" else "s", interval_ns=SECOND)
    name = HOSTILE if where == "name" else "n"
    before = core(damage=(HOSTILE,) if where == "damage" else ())
    board.take(look(before))
    board.take(look(changed(before, subscribers=(subscriber(name),)), at=1))
    if where == "problem":
        board.take(look(problem=HOSTILE, at=2))
    sheets = [words.core_sheet(board), words.subscriber_sheet(board)]
    texts = [
        cell
        for sheet in (*sheets, words.event_sheet(board.events))
        for row in cells(sheet)
        for cell in row
    ]
    texts += [words.head_line(board, is_paused=False)]
    assert all(text.isprintable() for text in texts)
    assert any(r"a\x1b[31m[b]x[/b]\u202e\n" in text for text in texts)


@pytest.mark.parametrize(
    "values, line",
    [
        ([], ""),
        ([0, 0], "▁▁"),
        ([0, 1, 7], "▁▂█"),
        ([5.0], "█"),
        ([1e-9, 1e9], "▁█"),
    ],
)
def test_a_line_of_blocks(values, line) -> None:
    assert words.spark(values) == line


@pytest.mark.parametrize(
    "share, drawn", [(0, "░░░░"), (0.5, "██░░"), (1, "████"), (7, "████"), (0.01, "░░░░")]
)
def test_a_bar_is_never_longer_than_it_may_be(share, drawn) -> None:
    assert words.bar(share, 4) == drawn
