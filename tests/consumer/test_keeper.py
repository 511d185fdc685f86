"""The thread of a consumer: it is done with the consumer before that ends, and gone behind it."""

from __future__ import annotations

import threading

import pytest

import quiver
from quiver.consumer import Consumer, keeper
from quiver.disk import LocalDisk, Watch

SECONDS = 60


@pytest.fixture
def disk(tmp_path):
    with quiver.open(tmp_path, slots=["events"]):
        pass
    return LocalDisk(tmp_path)


def test_what_was_done_is_committed_while_the_watch_is_let_go_of(disk, monkeypatch) -> None:
    committed, let_go = threading.Event(), []
    commit, close = Consumer._commit, Watch.close

    def note(self: Consumer) -> None:
        commit(self)
        committed.set()

    def wait(self: Watch) -> None:
        let_go.append(committed.wait(SECONDS))
        close(self)

    monkeypatch.setattr(Consumer, "_commit", note)
    monkeypatch.setattr(Watch, "close", wait)
    with quiver.subscribe(disk.locate(""), "reader") as consumer:
        kept = consumer._keeper
    assert let_go == [True]
    assert not kept._thread.is_alive()


def test_a_look_that_is_under_way_is_waited_for_and_none_begins_behind_it(
    disk, monkeypatch
) -> None:
    looking, go_on = threading.Event(), threading.Event()
    refresh = Consumer.refresh
    looks: list[bool] = []

    def look(self: Consumer) -> None:
        looking.set()
        assert go_on.wait(SECONDS)
        looks.append(self.closed)
        refresh(self)

    monkeypatch.setattr(Consumer, "refresh", look)
    consumer = quiver.subscribe(disk.locate(""), "reader")
    assert looking.wait(SECONDS)
    ends = threading.Thread(target=consumer.close)
    ends.start()
    assert consumer._keeper._stopped.wait(SECONDS)
    consumer._keeper._watch.wake()
    go_on.set()
    ends.join(SECONDS)
    assert looks == [False]
    assert consumer.closed


def test_whoever_closes_first_closes_and_all_wait_for_it(disk, monkeypatch) -> None:
    begun = threading.Barrier(4)
    ended = keeper.Keeper.ended

    def meet(self: keeper.Keeper):
        begun.wait(SECONDS)
        return ended(self)

    monkeypatch.setattr(keeper.Keeper, "ended", meet)
    consumer = quiver.subscribe(disk.locate(""), "reader")
    threads = [threading.Thread(target=consumer.close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    assert not consumer._keeper._thread.is_alive()
