"""Driver and JVM of an upserting query are killed, and its checkpoint is lost in between.

It reads files, whose rows Spark moves, and a store, whose segments are read by the driver, by each
task, or in shares, in turn. Each JVM that has to be started takes its time, so this is done if
QUIVER_UPSERT_SPARK_KILLS says how often: ``make crash`` does.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import quiver
from bench.demo_stream.stage import Stage
from bench.demo_stream.upserting_store import WAYS
from quiver.errors import MissingError
from quiver.ship.objects import FolderBucket
from quiver.upsert.persist import Collection, Snapshot, changes, rows_as_of

KILLS = int(os.environ.get("QUIVER_UPSERT_SPARK_KILLS", "0"))
FILES, SEGMENTS, ROWS, KEYS = 20, 12, 50, 40
SLOT = "quiver:commands"

pytestmark = pytest.mark.spark


def fill(folder: Path, rng: random.Random) -> list[dict[str, Any]]:
    """Write files of commands, each a micro-batch; gives all commands in order."""
    folder.mkdir()
    found = []
    for number in range(FILES):
        rows = [
            {
                "at": number * ROWS + row,
                "id": f"key {rng.randrange(KEYS)}",
                "n": rng.randrange(3),
                "op": rng.choice("uuud"),
            }
            for row in range(ROWS)
        ]
        # By name the files come in the order in which they were written.
        path = folder / f"{number:03}.json"
        path.write_text("\n".join(json.dumps(row) for row in rows))
        os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
        found += rows
    return found


def look(store: FolderBucket) -> Snapshot | None:
    try:
        return Collection.open(store).snapshot()
    except MissingError:
        return None


def come_to(store: FolderBucket) -> int:
    """Say how many commands are in: of files by number, of a store a segment has a file's."""
    found = look(store)
    if found is None:
        return 0
    if SLOT in found.sources:
        (place,) = found.sources[SLOT].splits.values() or (0,)
        return ((place >> 32) + (place & 0xFFFF_FFFF)) * ROWS
    source = found.sources.get("spark")
    return 0 if source is None else source.splits.get("rows", 0)


def put(folder: Path, commands: list[dict[str, Any]]) -> None:
    """Write a store of these commands, each of whose segments is a micro-batch."""
    with quiver.open(folder, slots=["commands"], worker=False) as store:
        for first in range(0, len(commands), ROWS):
            store.append({"commands": pa.Table.from_pylist(commands[first : first + ROWS])})
            store.finalize()


@pytest.mark.slow
@pytest.mark.skipif(not KILLS, reason="make crash does it: it sets QUIVER_UPSERT_SPARK_KILLS")
@pytest.mark.timeout(max(300, 60 * KILLS))
@pytest.mark.parametrize("of", ["files", "store"])
def test_whenever_it_is_killed_each_command_is_in_once(tmp_path, of) -> None:
    rng = random.Random(11)
    commands = fill(tmp_path / "in", rng)
    checkpoint, store = tmp_path / "checkpoint", FolderBucket(str(tmp_path / "collection"))
    stage = Stage(str(tmp_path), print)
    places = [str(tmp_path / "in"), str(checkpoint), str(tmp_path / "collection")]
    if of == "files":
        queries = [stage.actor("query", "bench.demo_stream.upserting", places)]
    else:
        places[0] = str(tmp_path / "store")
        commands = commands[: SEGMENTS * ROWS]
        put(tmp_path / "store", commands)
        module = "bench.demo_stream.upserting_store"
        queries = [stage.actor(way, module, [*places, way]) for way in WAYS]
    went = set[str]()
    try:
        for number in range(KILLS + 1):
            query = queries[number % len(queries)]
            before = min(come_to(store) + ROWS * rng.randrange(3), len(commands) - ROWS)
            stage.start(query, "running")
            if number == KILLS:
                break
            stage.await_that("a batch", lambda least=before: come_to(store) > least)
            query.kill()
            went.update(query.lines)
            stage.note(f"driver and JVM, behind {come_to(store):,} commands")
            if number == KILLS // 2:
                shutil.rmtree(checkpoint)
        stage.await_that("the end", lambda: come_to(store) == len(commands))
        if of == "store":
            stage.await_that("its word", lambda: query.has_said("way"))
    finally:
        stage.close()
    went.update(query.lines)
    ways = {line.removeprefix("way ") for line in went if line.startswith("way ")}
    assert ways <= {*WAYS[: KILLS + 1]}
    assert (of == "store") == (query.name in ways)
    model: dict[str, int] = {}
    for row in commands:
        model.pop(row["id"], None)
        if row["op"] != "d":
            model[row["id"]] = row["n"]
    assert stage.kills == KILLS
    check(store, model)


def check(store: FolderBucket, model: dict[str, int]) -> None:
    """Hold the state, and all that changed since the first epoch, against the model."""
    snapshot = look(store)
    assert snapshot is not None
    assert snapshot.since == 0
    state: dict[str, int] = {}
    sums: dict[tuple[str, int], int] = {}
    for bucket in range(snapshot.buckets):
        for batch in rows_as_of(store, snapshot, bucket):
            state |= {row["key"]["id"]: row["value"]["n"] for row in batch.to_pylist()}
        for batch in changes(store, snapshot, bucket, after=0):
            for row in batch.to_pylist():
                at = row["key"]["id"], row["value"]["n"]
                sums[at] = sums.get(at, 0) + row["diff"]
    assert state == model
    assert {at: count for at, count in sums.items() if count} == dict.fromkeys(model.items(), 1)
