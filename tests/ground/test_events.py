"""Events are noted at once and told when no lock is held, whatever those do who listen."""

from __future__ import annotations

import logging
import threading

import pytest

from quiver.errors import CapacityError, TornEntry
from quiver.events import Events


class Calls(logging.Handler):
    def __init__(self, act) -> None:
        super().__init__()
        self.act = act
        self.names: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.names.append(record.getMessage())
        self.act(record)


@pytest.fixture
def listen():
    logger, handlers = logging.getLogger("quiver"), []
    level = logger.level
    logger.setLevel(logging.INFO)

    def add(act=lambda _: None) -> Calls:
        handlers.append(Calls(act))
        logger.addHandler(handlers[-1])
        return handlers[-1]

    yield add
    for handler in handlers:
        logger.removeHandler(handler)
    logger.setLevel(level)


def test_nothing_is_told_by_who_holds_the_lock(listen) -> None:
    lock, heard = threading.RLock(), listen()
    events = Events(lock, store="s")
    with events.telling(), lock:
        events.info("wal.rotated", generation=1)
        events.tell()
        assert heard.names == []
    assert heard.names == ["wal.rotated"]
    with pytest.raises(ValueError, match="x"), events.telling(), lock:
        events.warning("segment.missing")
        raise ValueError("x")
    assert heard.names == ["wal.rotated", "segment.missing"]


def test_records_have_what_is_common_and_what_is_their_own(listen) -> None:
    records = []
    listen(records.append)
    events = Events(None, store="s", core=3)
    error = CapacityError("full", hint="delete something")
    events.error("store.poisoned", error=error)
    events.warning("worker.job_failed", error=ValueError("what a bundle holds"))
    events.warning("recovery.damage", error=TornEntry("cut", path="p", offset=7))
    events.tell()
    assert [r.error for r in records] == [str(error), "ValueError", "cut in p at byte 7"]
    assert {(r.store, r.core, r.name) for r in records} == {("s", 3, "quiver.engine")}
    assert [r.levelname for r in records] == ["ERROR", "WARNING", "WARNING"]


def test_a_handler_that_notes_more_is_not_called_out_of_itself_nor_without_end(listen) -> None:
    events = Events()

    def more(_: object) -> None:
        events.info("wal.rotated")
        events.tell()

    heard = listen(more)
    events.info("wal.rotated")
    for number in range(1, 5):
        events.tell()
        assert len(heard.names) == number
        assert len(events.noted) == 1


def test_what_a_handler_raises_goes_to_stderr_and_the_rest_is_told(listen, capsys) -> None:
    def fail(_: object) -> None:
        raise OSError("handler is broken")

    heard, events = listen(fail), Events()
    events.info("store.opened")
    events.info("store.closed")
    events.tell()
    assert heard.names == ["store.opened", "store.closed"]
    assert capsys.readouterr().err.count("OSError: handler is broken") == 2


def test_what_it_raises_is_lost_where_logging_says_so(listen, capsys, monkeypatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)

    def fail(_: object) -> None:
        raise OSError("handler is broken")

    listen(fail)
    events = Events()
    events.info("store.opened")
    events.tell()
    assert capsys.readouterr().err == ""


def test_what_lasts_begins_once_and_ends_once(listen) -> None:
    heard, events = listen(), Events()
    assert not events.end("acks.checkpoint_failed")
    for _ in range(2):
        events.begin("acks.checkpoint_failed")
        events.begin("acks.checkpoint_failed")
        events.begin("segment.finalize_failed")
        assert events.end("acks.checkpoint_failed")
    events.tell()
    assert heard.names.count("acks.checkpoint_failed") == 2
    assert heard.names.count("segment.finalize_failed") == 1


def test_what_was_seen_long_ago_may_be_told_again_so_that_memory_is_bounded() -> None:
    events = Events()
    assert [events.is_first("a", 1), events.is_first("a", 1), events.is_first("a", 2)] == [1, 0, 1]
    assert all(events.is_first("b", number) for number in range(10_000))
    assert len(events._seen) <= 4096


def test_each_event_is_told_once_by_many_threads(listen) -> None:
    heard, events = listen(), Events()

    def run() -> None:
        for _ in range(500):
            events.info("wal.rotated")
            events.tell()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    events.tell()
    assert len(heard.names) == 2000
