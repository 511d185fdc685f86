"""The operator on a collection in a folder: its own output is all that it knows of the past."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from crc32c import crc32c
from upsert_model import PLAN, Command, Model, definition, table

from quiver.errors import DamagedEntry, InputError
from quiver.ipc import encode_file
from quiver.ship.objects import FolderBucket
from quiver.upsert.operator import Step, Upsert
from quiver.upsert.persist import Collection, FileRef, Snapshot, WholeState, rows_as_of, write_run
from quiver.upsert.rows import HASH, buckets_of, prepare

KIND = definition()


class Place:
    """A collection in a folder, and one who appends to it what an operator gives out."""

    def __init__(self, path: Path) -> None:
        self.store = FolderBucket(str(path))
        self.collection = Collection.open(self.store, KIND, create=True)
        self.writer = self.collection.writer()

    @property
    def snapshot(self) -> Snapshot:
        return self.writer.snapshot()

    @property
    def state(self) -> WholeState:
        return WholeState(self.store, self.snapshot)

    def append(self, step: Step) -> None:
        assert step.time is not None
        refs = []
        for bucket in range(KIND.buckets if step.diffs else 0):
            diffs = pa.concat_tables(step.diffs)
            mine = buckets_of(diffs[HASH].to_numpy(), KIND.buckets) == bucket
            rows = diffs.filter(pa.array(mine))
            refs.append(write_run(self.store, self.snapshot, rows, bucket=bucket))
        self.writer.append(refs, step.time)

    def rows(self, epoch: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for bucket in range(KIND.buckets):
            for batch in rows_as_of(self.store, self.snapshot, bucket, epoch=epoch):
                for row in batch.to_pylist():
                    assert row["key"]["k"] not in found
                    found[row["key"]["k"]] = row["value"]["v"]
        return found


@pytest.mark.parametrize("seed", range(3))
def test_each_epoch_is_what_the_model_says(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    place, model = Place(tmp_path), Model()
    sent: list[list[Command]] = [[]]
    for time in range(1, 9):
        drawn = rng.integers(0, (25, 5, 6), (30, 3)).tolist()
        sent.append([Command(k, None if v == 0 else f"v{v}", time, at) for k, v, at in drawn])
        for command in sent[-1]:
            model.push(command)
    while place.snapshot.upper < 9:
        operator = Upsert(KIND, place.snapshot.upper, window_keys=int(rng.integers(1, 40)))
        for time in range(1, 9):  # A life that begins at the beginning of its source.
            operator.push(prepare(table(sent[time]), PLAN, KIND), time)
        for _ in range(int(rng.integers(1, 4))):
            step = operator.step(9, place.state)
            if step.time is not None:
                place.append(step)
    for epoch in range(1, 9):
        assert place.rows(epoch) == model.state(epoch)


def test_m7_a_key_with_two_values_in_the_collection_ends_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    first = prepare(table([Command(1, "a", 1), Command(2, "b", 1)]), PLAN, KIND)
    operator = Upsert(KIND, 1)
    operator.push(first, 1)
    place.append(operator.step(2, place.state))
    bucket = int(buckets_of(first.hashes, KIND.buckets)[0])
    (row, *_) = rows_as_of(place.store, place.snapshot, bucket)
    wrong = pa.Table.from_batches([row.slice(0, 1)] * 2).combine_chunks()
    data = encode_file(wrong.schema, wrong.to_batches())
    name = "bases/01ARZ3NDEKTSV4RRFFQ69G5FAV.arrow"
    place.store.put(name, data)  # Its checksum is right.
    ref = FileRef("base", bucket, name, 2, 0, data.size, crc32c(data), 1, 1)
    snapshot = replace(place.snapshot, manifest=replace(place.snapshot.manifest, files=(ref,)))
    operator.push(prepare(table([Command(1, "c", 2)]), PLAN, KIND), 2)
    with pytest.raises(DamagedEntry, match="two rows at once"):
        operator.step(3, WholeState(place.store, snapshot))
    assert (operator.waiting, operator.held) == (1, 2)
    step = operator.step(3, place.state)  # The true one has one value of it.
    assert step.counts["removed"] == step.counts["added"] == 1


def test_m7_two_values_of_a_key_in_one_epoch_are_not_written(tmp_path: Path) -> None:
    place = Place(tmp_path)
    operator = Upsert(KIND, 1)
    operator.push(prepare(table([Command(1, "a", 1)]), PLAN, KIND), 1)
    (diffs,) = operator.step(2, place.state).diffs
    bucket = int(buckets_of(diffs[HASH].to_numpy(), KIND.buckets)[0])
    with pytest.raises(InputError):
        write_run(place.store, place.snapshot, pa.concat_tables([diffs] * 2), bucket=bucket)
