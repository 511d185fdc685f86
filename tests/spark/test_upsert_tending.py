"""A collection tended behind the batches of a query, in a thread of the driver."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest
from upsert_frames import Query

from quiver.errors import DamagedEntry
from quiver.spark.upsert.preparing import Reading
from quiver.spark.upsert.splits import SplitPlan
from quiver.upsert.rows import Definition, Plan
from quiver.upsert.tending import Tender

TYPES = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("at", pa.int64())])
READING = Reading(TYPES, Plan(("k",), ("v",), ("at",)), SplitPlan((), ("at",), form="rows"))
DEFINITION = Definition(pa.schema([("k", pa.int64())]), pa.schema([("v", pa.int64())]), 3)


@pytest.fixture
def query(tmp_path) -> Query:
    return Query(str(tmp_path / "collection"), DEFINITION, READING)


def rows(first: int, count: int = 50) -> list[dict[str, Any]]:
    return [{"k": at % 40, "v": at, "at": at} for at in range(first, first + count)]


def test_a_batch_does_not_wait_and_the_next_append_does(query, monkeypatch) -> None:
    may_end, told = threading.Event(), []
    fold = Tender.fold

    def slow(tender: Tender, hands: Any = None) -> Any:
        assert may_end.wait(60)
        done = fold(tender, hands)
        told.append(query.snapshot().upper)
        return done

    monkeypatch.setattr(Tender, "fold", slow)
    query.batches(query.frame(rows(0)), 0)
    assert (query.snapshot().upper, told) == (2, [])
    frame = query.frame(rows(50))
    collect = type(frame).collect

    def collected(some: Any) -> Any:
        found = collect(some)
        may_end.set()  # The tasks of the next batch are done by now: it is to be appended.
        return found

    monkeypatch.setattr(type(frame), "collect", collected)
    query.batches(frame, 1)
    query.batches.wait()
    assert told == [2, 3]
    assert query.sums() == {(at % 40, at): 1 for at in range(60, 100)}


def test_what_goes_wrong_is_raised_before_the_next_append(query, monkeypatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise DamagedEntry("a file is damaged")

    with monkeypatch.context() as patched:
        patched.setattr(Tender, "fold", refuse)
        query.put(rows(0))
        with pytest.raises(DamagedEntry, match="a file is damaged"):
            query.put(rows(50))
        assert query.snapshot().upper == 2
    query.put(rows(50))
    assert query.sums() == {(at % 40, at): 1 for at in range(60, 100)}
