"""The screen of top, driven by a pilot: what it shows, its keys, and that nothing steers it."""

from __future__ import annotations

import asyncio
import html
import threading
from collections.abc import Callable, Coroutine
from datetime import UTC
from typing import Any

import pytest
from top_kit import HOSTILE, changed, core, look, subscriber

pytest.importorskip("textual")

from textual.pilot import Pilot
from textual.widgets import Static

from quiver.cli.live.board import Board
from quiver.cli.live.look import Look, SegmentSize
from quiver.cli.live.screen import HelpScreen, Looked, SheetTable, TopScreen
from quiver.units import MILLISECOND, SECOND

PATIENCE = 60

Scene = Callable[[TopScreen, Pilot[None]], Coroutine[Any, Any, None]]


def play(scene: Scene, *, size=(80, 24), looker: Any = None, board: Board | None = None):
    """Run a scene on a screen of this size, which nobody sees."""
    board = board or Board("store", interval_ns=SECOND)

    async def run() -> TopScreen:
        screen = TopScreen(board, looker, zone=UTC)
        async with screen.run_test(size=size) as pilot:
            await pilot.pause()
            await scene(screen, pilot)
        return screen

    return asyncio.run(run())


async def see(screen: TopScreen, pilot: Pilot[None], *looks: Look) -> None:
    for each in looks:
        screen.post_message(Looked(each))
        await pilot.pause()


def shown(screen: TopScreen) -> str:
    """The text that is on the screen, lines and all."""
    strips = screen.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def table(screen: TopScreen, name: str) -> SheetTable:
    return screen.query_one(f"#{name}", SheetTable)


def rows(screen: TopScreen, name: str) -> list[list[str]]:
    found = table(screen, name)
    return [[str(cell)[1:] for cell in found.get_row_at(n)] for n in range(found.row_count)]


BUSY = core(
    subscribers=(
        subscriber("lake", bundle_count=7, byte_count=700, oldest_age_ns=2 * SECOND),
        subscriber("alerts", bundle_count=9, is_paused=True),
        subscriber("uploader", retrying_count=1),
    )
)
LATER = changed(
    BUSY,
    next_wal_seq=1025,
    open_bytes=100_500,
    open_bundle_count=1005,
    segments=BUSY.segments | {2: SegmentSize(400, 12_000)},
    next_segment_seq=3,
)


def test_what_is_seen_on_a_small_terminal() -> None:
    async def scene(screen, pilot) -> None:
        await see(screen, pilot, look(BUSY), look(LATER, at=1))
        text = shown(screen)
        assert len(text.splitlines()) == 24
        for word in [
            "store · 1 core · every 1s · a look takes 2ms · 22:13:21",
            "in 1,000 bundles/s  100kB/s  █",
            "disk 2.7kB, no cap known",
            "log 600B in 1 file, 1,005 open · 3 segments 14kB",
            "subscriber bundles size oldest done/s retrying dead state",
            "22:13:21 0    segment 2 finalized: 400 bundles, 12kB",
            "q Quit",
        ]:
            assert word in " ".join(text.split()) or word in text
        assert [row[0] for row in rows(screen, "subscribers")] == ["alerts", "lake", "uploader"]
        assert rows(screen, "cores")[0][:4] == ["0", "41", "1,000", "100kB"]

    play(scene)


@pytest.mark.parametrize("size", [(20, 6), (40, 10), (80, 24), (200, 60), (1, 1)])
def test_any_size_will_do_and_may_change(size) -> None:
    async def scene(screen, pilot) -> None:
        await see(screen, pilot, look(BUSY), look(LATER, at=1))
        await pilot.resize_terminal(90, 25)
        await see(screen, pilot, look(BUSY, at=2))
        assert "in 0 bundles/s" in shown(screen)
        await pilot.resize_terminal(*size)
        await see(screen, pilot, look(LATER, at=3))
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        assert "in 1,000 bundles/s" in shown(screen)

    play(scene, size=size)


def test_before_the_first_look_and_of_an_empty_store() -> None:
    async def scene(screen, pilot) -> None:
        assert "in: not known yet" in shown(screen)
        await see(screen, pilot, look())
        text = shown(screen)
        for word in ("cores: none yet", "subscribers: nobody has subscribed", "0 cores"):
            assert word in text
        assert "events: nothing happened yet" in text

    play(scene)


def test_a_cap_is_drawn_as_a_bar() -> None:
    async def scene(screen, pilot) -> None:
        await see(screen, pilot, look(BUSY))
        assert "disk 2.7kB of 5.3kB, 50%  " + "█" * 12 + "░" * 12 in shown(screen)

    play(scene, board=Board("store", interval_ns=SECOND, cap=5328))


def test_a_store_that_vanished_is_told_and_what_was_seen_last_stays() -> None:
    async def scene(screen, pilot) -> None:
        await see(screen, pilot, look(BUSY), look(problem="no store any more", at=1))
        assert "no store any more" in str(screen.query_one("#problem", Static).render())
        assert screen.query_one("#problem").display
        assert len(rows(screen, "subscribers")) == 3
        await see(screen, pilot, look(BUSY, at=2))
        assert not screen.query_one("#problem").display
        assert [row[2] for row in rows(screen, "events")] == [
            "the store is there again",
            "no store any more",
        ]

    play(scene)


def test_damage_is_told_at_the_top_and_a_hundred_of_it_leaves_room() -> None:
    async def scene(screen, pilot) -> None:
        await see(screen, pilot, look(core(damage=tuple(f"passed over x{n}" for n in range(100)))))
        text = shown(screen)
        assert "passed over x0" in text
        assert "subscribers" in text
        assert len(rows(screen, "events")) == 100

    play(scene)


def test_what_others_wrote_steers_nothing() -> None:
    name = r"a\x1b[31m[b]x[/b]\u202e\n[link=http://x]"

    async def scene(screen, pilot) -> None:
        hostile = core(subscribers=(subscriber(HOSTILE),), damage=(HOSTILE,))
        await see(screen, pilot, look(core()), look(hostile, at=1))
        assert rows(screen, "subscribers")[0][0] == name
        text = shown(screen)
        assert f"subscriber {name} came" in text
        assert "\x1b" not in text
        await see(screen, pilot, look(problem=HOSTILE, at=2))
        assert name in str(screen.query_one("#problem", Static).render())
        picture = html.unescape(screen.picture()).replace("\xa0", " ")
        assert name in picture
        assert "\x1b" not in picture

    play(scene, size=(140, 30), board=Board(HOSTILE, interval_ns=SECOND))


def test_q_and_ctrl_c_end_it() -> None:
    for key in ("q", "ctrl+c"):

        async def scene(screen, pilot, key=key) -> None:
            await pilot.press(key)
            await pilot.pause()
            assert not screen.is_running

        play(scene)


def test_s_sorts_the_table_that_has_the_focus() -> None:
    async def scene(screen, pilot) -> None:
        await see(screen, pilot, look(BUSY))
        assert screen.focused is table(screen, "subscribers")
        await pilot.press("s", "s")
        assert [row[1] for row in rows(screen, "subscribers")] == ["9", "7", "0"]
        assert table(screen, "subscribers").border_title == "subscribers by bundles"
        await pilot.press("s")
        assert [row[0] for row in rows(screen, "subscribers")] == ["lake", "alerts", "uploader"]
        await pilot.press(*"sssss", "s")
        assert table(screen, "subscribers").border_title == "subscribers"
        assert rows(screen, "cores")[0][0] == "0"

    play(scene)


def test_tab_and_arrows_go_from_table_to_table() -> None:
    async def scene(screen, pilot) -> None:
        await see(screen, pilot, look(BUSY, core(1)))
        for key, name in [
            ("tab", "events"),
            ("tab", "cores"),
            ("shift+tab", "events"),
            ("up", "subscribers"),
            ("up", "cores"),
            ("down", "cores"),
            ("down", "subscribers"),
        ]:
            await pilot.press(key)
            assert screen.focused is table(screen, name), (key, name)

    play(scene)


def test_the_cursor_stays_on_its_row_when_others_come_and_go() -> None:
    async def scene(screen, pilot) -> None:
        await see(screen, pilot, look(BUSY))
        await pilot.press("down", "down")
        assert table(screen, "subscribers").cursor_row == 2
        less = changed(BUSY, subscribers=(subscriber("a"), *BUSY.subscribers[1:]))
        await see(screen, pilot, look(less, at=1))
        assert [row[0] for row in rows(screen, "subscribers")] == ["a", "alerts", "uploader"]
        assert table(screen, "subscribers").cursor_row == 2
        gone = changed(BUSY, subscribers=(subscriber("a"),))
        await see(screen, pilot, look(gone, at=2))
        assert table(screen, "subscribers").cursor_row == 0

    play(scene)


def test_the_cursor_stays_on_an_event_while_others_come() -> None:
    async def scene(screen, pilot) -> None:
        await see(screen, pilot, look(problem="one"), look(problem="two", at=1))
        events = table(screen, "events")
        await pilot.press("tab", "down")
        assert rows(screen, "events")[events.cursor_row][2] == "one"
        for number in range(20):
            await see(screen, pilot, look(problem=f"more {number}", at=2 + number))
        assert rows(screen, "events")[events.cursor_row][2] == "one"
        events.move_cursor(row=0)
        await see(screen, pilot, look(problem="last", at=30))
        assert rows(screen, "events")[events.cursor_row][2] == "last"

    play(scene)


def test_help_comes_and_goes() -> None:
    async def scene(screen, pilot) -> None:
        await see(screen, pilot, look(BUSY))
        for key in ("question_mark", "escape", "q"):
            await pilot.press("question_mark")
            assert isinstance(screen.screen, HelpScreen)
            text = shown(screen)
            for words in ("next table; arrows move in one, and on to the next", "not at all."):
                assert words in text
            await see(screen, pilot, look(LATER, at=1))  # Looking goes on behind it.
            await pilot.press(key)
            await pilot.pause()
            assert not isinstance(screen.screen, HelpScreen)
        assert screen.is_running

    play(scene)


class Source:
    """Gives looks, each when it is let; counts them, and says who asked."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked = threading.Semaphore(0)
        self.let = threading.Semaphore(0)
        self.closed = threading.Event()
        self.error = error
        self.count = 0
        self.threads: set[str] = set()

    def look(self) -> Look:
        self.count += 1
        self.threads.add(threading.current_thread().name)
        self.asked.release()
        assert self.let.acquire(timeout=PATIENCE)
        if self.error is not None:
            raise self.error
        return look(BUSY, at=self.count, took_ns=0)

    def close(self) -> None:
        self.closed.set()


async def wait(semaphore: threading.Semaphore) -> None:
    assert await asyncio.to_thread(semaphore.acquire, timeout=PATIENCE)


def test_looks_are_taken_in_a_thread_and_a_slow_disk_holds_up_no_key() -> None:
    source = Source()

    async def scene(screen, pilot) -> None:
        await wait(source.asked)  # The first look has begun, and does not end.
        await pilot.press("question_mark")
        assert isinstance(screen.screen, HelpScreen)
        await pilot.press("escape", "s")
        assert screen.board.look_count == 0
        source.let.release()
        await screen.news.wait()
        await wait(source.asked)
        assert rows(screen, "subscribers")
        await pilot.press("q")  # Also in the middle of a look.

    screen = play(scene, looker=source, board=Board("s", interval_ns=MILLISECOND))
    assert source.threads == {"quiver-top"}
    source.let.release()
    screen.wait_for_looker(PATIENCE)
    assert source.closed.is_set()


def test_p_stands_still_and_goes_on() -> None:
    source = Source()

    async def scene(screen, pilot) -> None:
        await wait(source.asked)
        await pilot.press("p")
        assert "PAUSED" in shown(screen)
        source.let.release()
        await screen.news.wait()
        screen.news.clear()
        assert not await asyncio.to_thread(source.asked.acquire, timeout=0.2)
        await pilot.press("p")
        assert "PAUSED" not in shown(screen)
        await wait(source.asked)
        source.let.release()
        await screen.news.wait()

    play(scene, looker=source, board=Board("s", interval_ns=MILLISECOND))
    assert source.count >= 2


def test_an_error_that_must_not_be_ends_the_screen_and_is_kept() -> None:
    source = Source(KeyError("a fault of ours"))

    async def scene(screen, pilot) -> None:
        await wait(source.asked)
        source.let.release()
        await screen.news.wait()
        await pilot.pause()
        assert not screen.is_running

    assert play(scene, looker=source).failure is source.error
