"""The real program, killed by SIGKILL at its steps: in the end each bundle is there once.

``QUIVER_SHIP=all`` takes every step, before and behind; otherwise those that decide something.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ship_child import taking_orders
from shipper_kit import arrived
from store_kit import SLOTS, bundle

import quiver
from quiver.ship.objects import FolderBucket

COUNT = 6


@pytest.fixture
def store(tmp_path) -> Path:
    with quiver.open(tmp_path / "store", slots=SLOTS, worker=False) as opened:
        for number in range(COUNT):
            opened.append(bundle(number))
            if number % 2:
                opened.finalize()
    return tmp_path / "store"


@pytest.fixture(scope="module")
def run() -> Iterator[Callable[..., int]]:
    with taking_orders() as one:
        yield one


def numbers(store: Path) -> list[int]:
    found = []
    with quiver.subscribe(store, "reader", worker=False) as reader:
        while (handle := reader.poll()) is not None:
            found.append(handle["events"].column("n")[0].as_py())
            handle.ack()
    return found


def ship(run, store: Path, queue: Path, **death: object) -> int:
    verb = ["ship", store, queue, "--subscriber", queue.name, "--size", "1B", "--uploads", 1]
    return run(verb, **death)


def restore(run, queue: Path, back: Path, **death: object) -> int:
    return run(["restore", queue, back, "--consume"], **death)


@pytest.mark.parametrize(
    ("step", "behind"),
    [
        ("write", True),
        ("put_if", False),
        ("put_if", True),
        ("ack", False),
        ("ack", True),
        ("commit", True),
    ],
)
def test_ship_is_killed_where_it_decides(run, store, tmp_path, step, behind) -> None:
    queue = tmp_path / "queue"
    assert ship(run, store, queue, step=step, at=2, behind=behind) == -signal.SIGKILL
    assert ship(run, store, queue) == 0
    assert arrived(FolderBucket(str(queue))) == list(range(COUNT))


@pytest.mark.parametrize(
    ("step", "at", "behind"),
    [("write_new", 2, True), ("commit", 1, False), ("commit", 1, True), ("put_if", 2, True)],
)
def test_restore_is_killed_where_it_decides(run, store, tmp_path, step, at, behind) -> None:
    queue, back = tmp_path / "queue", tmp_path / "back"
    assert ship(run, store, queue) == 0
    assert restore(run, queue, back, step=step, at=at, behind=behind) == -signal.SIGKILL
    assert restore(run, queue, back) == 0
    assert numbers(back) == list(range(COUNT))
    assert arrived(FolderBucket(str(queue))) == []


every_step = pytest.mark.skipif(
    os.environ.get("QUIVER_SHIP") != "all", reason="QUIVER_SHIP=all takes every step"
)


@every_step
@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
def test_ship_is_killed_at_each_step(run, store, tmp_path, behind) -> None:
    for at in itertools.count(1):
        assert at < 60
        queue = tmp_path / f"queue-{at}"
        code = ship(run, store, queue, at=at, behind=behind)
        if code == 0:
            assert at > 12
            break
        assert code == -signal.SIGKILL
        assert ship(run, store, queue) == 0
        assert arrived(FolderBucket(str(queue))) == list(range(COUNT))


@every_step
@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
def test_restore_is_killed_at_each_step(run, store, tmp_path, behind) -> None:
    for at in itertools.count(1):
        assert at < 60
        queue, back = tmp_path / f"queue-{at}", tmp_path / f"back-{at}"
        assert ship(run, store, queue) == 0
        code = restore(run, queue, back, at=at, behind=behind)
        if code == 0:
            assert at > 6
            break
        assert code == -signal.SIGKILL
        assert restore(run, queue, back) == 0
        assert numbers(back) == list(range(COUNT))
        assert arrived(FolderBucket(str(queue))) == []
