"""What views show stays the same while a collection is folded, merged and forgotten."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from view_kit import Board, batch, between, rows_of, source, stream, total

from quiver.ship.objects import FolderBucket
from quiver.upsert.tending import Limits, tend

EPOCHS = 24
HISTORY = 8
KEYS = 12
SOON = Limits(history=HISTORY, live_runs_max=2, past_runs_max=2, fold_rows_min=1)
ALL = ReadAllAvailable()


def some(chance: random.Random, number: int) -> dict[int, Any]:
    keys = chance.sample(range(KEYS), chance.randint(1, 6))
    return {key: chance.choice([None, ("x", number), ("same", 1)]) for key in keys}


@pytest.mark.parametrize("seed", range(3))
def test_states_and_streams_are_the_same_however_it_is_tended(tmp_path: Path, seed: int) -> None:
    chance, place = random.Random(seed), str(tmp_path)
    board = Board(FolderBucket(place), buckets=2)
    board.put(some(chance, 0))
    offset = stream(place).initialOffset()
    rows: list[Any] = []
    loads: list[tuple[int, Any]] = []
    for number in range(1, EPOCHS):
        board.put(some(chance, number))
        if chance.random() < 0.5:
            tend(board.writer, SOON, clock=board.clock)
        if chance.random() < 0.3:
            loads.append((number + 1, source(place)))
        if number % (HISTORY // 2) == 0:
            reader = stream(place)
            end = reader.latestOffset(offset, ALL)
            found = between(reader, offset, end)
            tend(board.writer, SOON, clock=board.clock)
            assert between(stream(place), offset, end) == found
            rows += found
            offset = end
    at = board.snapshot
    assert at.since > 0
    assert any(ref.kind == "base" for ref in at.files)
    for epoch in range(at.since, at.upper):
        expected = sorted(((key, *value) for key, value in board.states[epoch].items()), key=repr)
        assert batch(place, asOf=str(epoch)) == expected
    for epoch, load in loads:  # No grace has passed: what they named is there.
        assert {row[0]: row[1:] for row in rows_of(load)} == board.states[epoch]
    kept = batch(place, changes="true")
    assert total(kept) == board.states[-1]
    for epoch in range(1, offset["epoch"]):
        assert total(rows, through=epoch) == board.states[epoch]
