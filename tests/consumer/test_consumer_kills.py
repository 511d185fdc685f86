"""Consumers are killed at any moment, many in a row, while a writer appends and ticks.

``QUIVER_CONSUMER_KILLS`` says how many; the default is quick.
"""

from __future__ import annotations

import multiprocessing
import os
import random
from pathlib import Path

from beside_kit import number
from mortal import consume
from store_kit import SLOTS, bundle

import quiver

KILLS = int(os.environ.get("QUIVER_CONSUMER_KILLS", "15"))
PATIENCE = 60
SPAWN = multiprocessing.get_context("forkserver")


class Writer:
    """Appends, finalizes and ticks by lot, and never deletes what nobody was given."""

    def __init__(self, path: Path, lot: random.Random) -> None:
        self.store = quiver.open(path, slots=SLOTS, worker=False)
        self.store.subscribe("reader")
        self.lot = lot
        self.appended = 0
        self.deleted = 0

    def act(self) -> None:
        if self.lot.random() < 0.6:
            self.store.append(bundle(self.appended))
            self.appended += 1
        if self.lot.random() < 0.2:
            self.store.finalize()
        if self.lot.random() < 0.5:
            self.deleted += self.store.maintain()


class Heard:
    """What those who were killed had told."""

    def __init__(self) -> None:
        self.got: set[int] = set()
        self.safe: set[int] = set()

    def of_one(self, ear, writer: Writer, messages: int) -> None:
        """Listen to one for so many messages; what is safe before it comes stays away from it."""
        before = set(self.safe)
        for _ in range(messages):
            assert ear.poll(PATIENCE)
            word, about = ear.recv_bytes().split()
            self.note(word, int(about), before)
            writer.act()

    def note(self, word: bytes, about: int, before: set[int]) -> None:
        if word == b"got":
            assert about not in before
            self.got.add(about)
        elif word == b"safe":
            self.safe.add(about)

    def rest(self, ear) -> None:
        """Hear what was on its way when it was killed."""
        try:
            while ear.poll(0):
                word, about = ear.recv_bytes().split()
                self.note(word, int(about), set())
        except EOFError:
            pass


def test_whoever_is_killed_nothing_is_lost_and_nothing_safe_comes_again(tmp_path: Path) -> None:
    path, lot, heard = tmp_path / "store", random.Random(KILLS), Heard()
    SPAWN.set_forkserver_preload(["pyarrow", "quiver.consumer", "mortal"])
    writer = Writer(path, lot)
    for _ in range(10):
        writer.act()
    for _ in range(KILLS):
        ear, mouth = SPAWN.Pipe(duplex=False)
        options = {"step": lot.randint(1, 6), "keeps": lot.random() < 0.5}
        process = SPAWN.Process(target=consume, args=(str(path), mouth), kwargs=options)
        process.start()
        mouth.close()
        heard.of_one(ear, writer, lot.randint(1, 25))
        process.kill()
        process.join(PATIENCE)
        heard.rest(ear)
        ear.close()
        process.close()
    writer.store.finalize()
    with quiver.subscribe(path, "reader", worker=False) as consumer:
        while (handle := consumer.poll()) is not None:
            with handle:
                assert number(handle) not in heard.safe
                heard.got.add(number(handle))
        while handle := consumer.next("5s") if consumer.lags()[0].bundle_count else None:
            with handle:
                heard.got.add(number(handle))
    assert heard.got == set(range(writer.appended))
    writer.deleted += writer.store.maintain()
    assert writer.store.info().segments == 0
    assert writer.deleted > 0
    assert writer.store.refused_inboxes == {}
    writer.store.close()


def test_a_writer_that_is_killed_with_its_acks_unsynced_is_told_again(tmp_path: Path) -> None:
    path = tmp_path / "store"
    lot = random.Random(1)
    acked: set[int] = set()
    appended = 0
    consumer = None
    for _ in range(8):
        store = quiver.open(path, slots=SLOTS, worker=False)
        for _ in range(lot.randint(1, 5)):
            store.append(bundle(appended))
            appended += 1
        store.finalize()
        consumer = consumer or quiver.subscribe(path, "reader", worker=False)
        consumer.refresh()
        for _ in range(lot.randint(1, 5)):
            handle = consumer.poll()
            if handle is not None:
                with handle:
                    assert number(handle) not in acked
                    acked.add(number(handle))
        consumer.commit()
        if lot.random() < 0.5:
            store.maintain()
        store._core.held.release()  # As a kill does it.
        store._closed = True
    assert consumer is not None
    while (handle := consumer.poll()) is not None:
        with handle:
            acked.add(number(handle))
    consumer.close()
    assert acked == set(range(appended))
    with quiver.open(path, slots=SLOTS, worker=False) as store:
        assert store.lag("reader").bundle_count == 0
        store.maintain()
        assert store.info().segments == 0
