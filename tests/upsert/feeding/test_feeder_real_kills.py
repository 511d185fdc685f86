"""The real program, killed by SIGKILL at its steps: in the end each row is in once.

``QUIVER_UPSERT=all`` takes every step, before and behind; otherwise those that decide something.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from feeding_kit import check, commands, table
from ship_child import taking_orders

import quiver
from quiver.ship.objects import FolderBucket

COUNT = 6
BUNDLES = [commands(number) for number in range(COUNT)]


@pytest.fixture
def store(tmp_path) -> Path:
    with quiver.open(tmp_path / "store", slots=["users"], worker=False) as opened:
        opened.subscribe("keeper")  # So that another subscriber finds all of it.
        for number, rows in enumerate(BUNDLES):
            opened.append({"users": table(rows)})
            if number % 2:
                opened.finalize()
    return tmp_path / "store"


@pytest.fixture(scope="module")
def run() -> Iterator[Callable[..., int]]:
    with taking_orders() as one:
        yield one


def upsert(run, store: Path, into: Path, *, subscriber: str = "upsert", **death: object) -> int:
    how = ["--subscriber", subscriber, "--rows", 4, "--buckets", 2, "--history", 50]
    return run(["upsert", store, "--slot", "users", "--key", "k", "--into", into, *how], **death)


def settle(run, store: Path, into: Path, *, subscriber: str = "upsert") -> None:
    assert upsert(run, store, into, subscriber=subscriber) == 0
    check(FolderBucket(str(into)), BUNDLES)


@pytest.mark.parametrize(
    ("step", "at", "behind"),
    [
        ("write", 2, True),
        ("put_if", 1, True),
        ("put_if", 3, False),
        ("put_if", 3, True),
        ("put_if", 4, True),
        ("ack", 1, False),
        ("ack", 2, True),
        ("_commit", 1, False),
    ],
)
def test_it_is_killed_where_it_decides(run, store, tmp_path, step, at, behind) -> None:
    into = tmp_path / "users"
    assert upsert(run, store, into, step=step, at=at, behind=behind) == -signal.SIGKILL
    settle(run, store, into)


def test_another_subscriber_goes_on_behind_what_is_in(run, store, tmp_path) -> None:
    into = tmp_path / "users"
    assert upsert(run, store, into, step="put_if", at=4, behind=True) == -signal.SIGKILL
    settle(run, store, into, subscriber="another")
    settle(run, store, into, subscriber="upsert")


every_step = pytest.mark.skipif(
    os.environ.get("QUIVER_UPSERT") != "all", reason="QUIVER_UPSERT=all takes every step"
)


@every_step
@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
def test_it_is_killed_at_each_step(run, store, tmp_path, behind) -> None:
    for at in itertools.count(1):
        assert at < 100
        into = tmp_path / f"users-{at}"
        code = upsert(run, store, into, at=at, behind=behind, subscriber=f"s-{at}")
        if code == 0:
            assert at > 15
            break
        assert code == -signal.SIGKILL
        settle(run, store, into, subscriber=f"s-{at}")
