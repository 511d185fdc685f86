"""The thread of a consumer: it is done with the consumer before that ends, and gone behind it."""

from __future__ import annotations

import gc
import shutil
import subprocess
import sys
import textwrap
import threading

import pyarrow as pa
import pytest
from held_files import held

import quiver
from quiver.consumer import Consumer, keeper
from quiver.disk import LocalDisk, Watch
from quiver.errors import CapacityError

SECONDS = 60
LEFT_OPEN = """
    import sys, quiver

    def bundles():
        with quiver.subscribe(sys.argv[1], "reader") as consumer:
            yield from consumer

    left = bundles()
    print(next(left)["events"].num_rows)
"""
FORKED = """
    import os, select, signal, sys, quiver

    consumer = quiver.subscribe(sys.argv[1], "reader")
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        consumer.close()
        os._exit(0)
    ended = os.waitpid(child, 0)[1]
    heard = select.select([consumer._keeper._watch._ear], [], [], 0)[0]
    print(ended, heard, consumer.closed, flush=True)
    os._exit(0)
"""


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


def run(program: str, path: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(path)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_one_that_is_left_open_keeps_no_process_from_its_end(tmp_path) -> None:
    with quiver.open(tmp_path, slots=["events"], worker=False) as store:
        store.append({"events": pa.record_batch({"n": [1, 2, 3]})})
        store.finalize()
    assert run(LEFT_OPEN, tmp_path) == "3\n"


def test_what_a_thread_leaves_behind_that_ended_anyhow_is_not_waited_for(disk, monkeypatch) -> None:
    """As daemon threads do, when the interpreter has ended: nothing of them runs any more."""
    monkeypatch.setattr(keeper.Keeper, "_run", lambda _: None)
    consumer = quiver.subscribe(disk.locate(""), "reader")
    consumer._keeper._thread.join(SECONDS)
    consumer.close()
    consumer._keeper._watch.close()
    assert consumer.closed


def test_a_forked_child_closes_nothing_of_its_parent_with_cores_or_without(tmp_path) -> None:
    with quiver.open(tmp_path, slots=["events"], worker=False):
        pass
    assert run(FORKED, tmp_path) == "0 [] False\n"
    shutil.rmtree(tmp_path / "core_0")
    assert run(FORKED, tmp_path) == "0 [] False\n"


def test_close_out_of_the_midst_of_a_call_is_refused_and_may_be_repeated(disk) -> None:
    """The thread may be waiting for what the call has, and would be waited for."""
    with quiver.subscribe(disk.locate(""), "reader") as consumer:
        with consumer._lock, pytest.raises(CapacityError, match="in the middle of another call"):
            consumer.close()
        assert not consumer.closed
    assert consumer.closed


def test_a_watch_that_cannot_be_made_is_made_later_and_all_else_goes_on(
    tmp_path, monkeypatch
) -> None:
    with quiver.open(tmp_path, slots=["events"], worker=False):
        pass
    refused, begin = threading.Event(), keeper.Keeper._begin

    def refuse(self: keeper.Keeper, numbers):
        if not refused.is_set():
            refused.set()
            raise OSError(24, "Too many open files")
        return begin(self, numbers)

    with quiver.subscribe(tmp_path, "reader", commit_interval="1ms") as consumer:
        kept = consumer._keeper
        monkeypatch.setattr(keeper.Keeper, "_begin", refuse)
        for core in (1, 2):
            with quiver.open(tmp_path, core=core, worker=False) as store:
                store.append({"events": pa.record_batch({"n": [core]})})
                store.finalize()
            assert refused.wait(SECONDS)
            handle = consumer.next(timeout=SECONDS)
            assert handle is not None
            handle.ack()
        while consumer.is_dirty or kept._cores != [0, 1, 2]:
            assert kept._thread.is_alive()


def test_a_watch_that_could_not_be_made_is_made_though_nothing_else_happens(
    tmp_path, monkeypatch
) -> None:
    """All that there is to hear of a new core came while it could not be watched."""
    with quiver.open(tmp_path, slots=["events"], worker=False):
        pass
    refused, may_go_on = threading.Event(), threading.Event()
    begin, is_quiet = keeper.Keeper._begin, threading.Event()

    def refuse(self: keeper.Keeper, numbers):
        if not may_go_on.is_set():
            refused.set()
            raise OSError(24, "Too many open files")
        return begin(self, numbers)

    def hear_nothing(_seconds: float) -> bool:
        is_quiet.set()
        may_go_on.wait(SECONDS)
        return False

    with quiver.subscribe(tmp_path, "reader") as consumer:
        monkeypatch.setattr(keeper.Keeper, "_begin", refuse)
        with quiver.open(tmp_path, core=1, worker=False) as store:
            store.append({"events": pa.record_batch({"n": [1]})})
            store.finalize()
            assert refused.wait(SECONDS)
            consumer._keeper._watch.wait = hear_nothing
            (tmp_path / "stirred").touch()
            assert is_quiet.wait(SECONDS)
            may_go_on.set()
            while consumer._keeper._cores != [0, 1]:
                assert consumer._keeper._thread.is_alive()
            handle = consumer.next(timeout=SECONDS)
            assert handle is not None
            handle.ack()


def test_without_a_thread_to_be_had_a_consumer_keeps_nothing(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"
    quiver.open(path, slots=["events"]).close()
    before = held(path)

    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(CapacityError, match="no more threads"):
            quiver.subscribe(path, "reader")
    gc.collect()
    assert not held(path) - before
    with quiver.subscribe(path, "reader") as consumer:
        assert consumer.poll() is None
