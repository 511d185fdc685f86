"""A store that gets no thread, or cannot begin, leaves nothing behind."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from held_files import held
from store_kit import SLOTS, bundle

import quiver
from quiver.engine.neighbours import Neighbours


def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)


def test_without_a_thread_to_be_had_nothing_is_opened_and_nothing_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = held(path)
    with monkeypatch.context() as patch:
        no_threads(patch)
        for _ in range(3):
            with pytest.raises(quiver.CapacityError, match="no more threads"):
                quiver.open(path, slots=SLOTS)
    assert not path.exists()
    assert not held(path) - before
    with quiver.open(path, slots=SLOTS) as store:
        assert store.info().core == 0


def test_a_store_that_cannot_begin_lets_go_of_its_core(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, threads = held(path), set(threading.enumerate())

    def fail(_core: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("quiver.engine.maintenance.seal_if_due", fail)
        with pytest.raises(KeyboardInterrupt):
            quiver.open(path, slots=SLOTS)
    assert not held(path) - before
    assert not set(threading.enumerate()) - threads
    with quiver.open(path, core=0) as store:
        assert store.append(bundle(0)) == 0


def test_a_neighbour_for_whom_there_is_no_thread_does_not_keep_a_store_from_closing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with quiver.open(path, slots=SLOTS, worker=False) as store:
        looking = Neighbours(store._core)
        monkeypatch.setattr("quiver.engine.neighbours.core_numbers", lambda _: [0, 1])
        monkeypatch.setattr(Neighbours, "_is_due", lambda _self, _number: True)
        monkeypatch.setattr(Neighbours, "_signs", lambda _self, _number: None)
        with monkeypatch.context() as patch:
            no_threads(patch)
            looking.look()
        looking.stop()
