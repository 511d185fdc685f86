"""What the judge of killed collections finds in logs, manifests and files that are made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.kills.log import Log
from bench.upsert_kills.judge import Judge, judge_collection, leftovers, look
from bench.upsert_kills.model import Model, digest_of, rows_of
from bench.upsert_kills.reading import state_as_of
from bench.upsert_kills.setup import LIMITS, SOURCE, SPLIT, Setup, commands
from bench.upsert_kills.witness import Witness
from bench.upsert_kills.writing import open_collection, runs_of
from quiver.ship.objects import MemoryBucket
from quiver.upsert.persist import Dropped, Source, Writer, close_all
from quiver.upsert.persist.format import decode_manifest, encode_manifest
from quiver.upsert.tending import sweep, tend

LIVES = [0, 0, 1, 1, 1, 2, 2, 3]


class Played:
    """A collection that some lives of a writer appended to, and what they said."""

    def __init__(self, folder: Path) -> None:
        self.store = MemoryBucket()
        self.setup = Setup(str(folder))
        self.witness = Witness()
        (folder / "stderr.txt").touch()
        self.log = Log(self.setup.log("writer"))
        self.model = Model()
        for life in LIVES:
            self.append(life)

    def append(self, life: int) -> None:
        writer = open_collection(self.store).writer()
        snapshot = writer.snapshot()
        epoch = snapshot.upper
        source = Source(f"{life} {writer.fence}", epoch, {SPLIT: epoch + 1})
        writer.append(runs_of(self.store, snapshot, life), epoch, sources={SOURCE: source})
        self.log.say("appended", epoch, life, writer.fence)
        self.model.append(life)
        self.writer: Writer = writer
        self.witness.see(bytes(self.store.get("manifest").data))

    def problems(self) -> str:
        return " ".join(Judge(self.setup).judge().problems)

    def collected(self) -> list[str]:
        close_all()
        return list(judge_collection(self.store, self.writer.snapshot(), self.model))


@pytest.fixture
def played(tmp_path: Path) -> Played:
    return Played(tmp_path)


def say(played: Played, name: str, *words: Any) -> str:
    Log(played.setup.log(name)).say(*words)
    return played.problems()


def test_commands_are_the_same_each_time_and_hold_what_a_collection_has_to_bear() -> None:
    assert commands(3, 7) == commands(3, 7)
    every = [commands(life, epoch) for life in range(4) for epoch in range(40)]
    rows = [row for table in every for row in table.to_pylist()]
    assert {table.num_rows for table in every} >= {0, 1, 400}
    assert any(row["gone"] for row in rows)
    assert any(row["part"] is None and not row["gone"] for row in rows)
    assert any(row["text"] is None for row in rows)
    big = next(table for table in every if table.num_rows == 400)
    assert len({(row["id"], row["part"]) for row in big.to_pylist()}) < 300


def test_a_play_in_which_nothing_is_wrong_has_no_problem_and_its_figures(played: Played) -> None:
    digests = Model()
    for epoch, life in enumerate(LIVES, 1):
        digests.append(life)
        Log(played.setup.log("reader")).say("state", epoch, digests.digests[epoch])
        Log(played.setup.log("follower")).say("state", epoch, digests.digests[epoch])
    Log(played.setup.log("reader")).say("state", 99, "of an epoch that nobody knows of yet")
    say(played, "writer", "tended", 2, 3, 4, 5)
    say(played, "writer", "error", "UnclearError", "no answer")
    found = Judge(played.setup).judge()
    assert found.problems == []
    assert (found.epochs, found.reads, found.steps) == (8, 16, 8)
    assert (found.folded, found.merged, found.unsaid, found.fenced) == (2, 3, 0, 0)
    assert played.collected() == []
    assert played.witness.problems == []
    assert played.witness.changes == len(LIVES)


def test_an_epoch_whose_writer_died_before_he_could_say_so_is_known_by_the_next(tmp_path) -> None:
    played = Played(tmp_path)
    log = Path(played.setup.log("writer"))
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:-1]))
    judge = Judge(played.setup)
    assert judge.judge().epochs == 7
    judge.close(played.writer.snapshot())
    found = judge.judge()
    assert (found.epochs, found.unsaid, found.problems) == (8, 1, [])
    log.write_text("".join(lines[:3] + lines[4:]))
    assert "nobody knows who appended epoch 4" in played.problems()


def test_whatever_is_wrong_in_the_logs_is_found(played: Played) -> None:
    assert "epoch 3 was appended twice" in say(played, "writer", "found", 3, 9, 9)
    fresh = Setup(played.setup.folder + "-2")
    Path(fresh.folder).mkdir()
    (Path(fresh.folder) / "stderr.txt").write_text("Traceback")
    played.setup = fresh
    say(played, "writer", "appended", 1, 0, 5)
    for problem in (
        ("writer", "appended", 2, 0, 4),
        ("reader", "state", 1, "wrong"),
        ("follower", "wrong", "it loses what it does not have"),
        ("reader", "error", "DamagedEntry", "a file"),
    ):
        said = say(played, *problem)
    for problem in ("an older writer", "1 states that never were, as of 1", "it loses", "Damaged"):
        assert problem in said
    assert "Traceback" in said


def test_a_state_that_lacks_a_key_or_has_another_value_is_another_number() -> None:
    state = {(1, "a"): (1, "x", None), (2, "b"): (2, None, None)}
    assert digest_of(state) == digest_of(dict(reversed(state.items())))
    others = [{**state, (1, "a"): (1, "y", None)}, {(1, "a"): (1, "x", None)}, {}]
    assert len({digest_of(each) for each in (state, *others)}) == 4


def test_a_collection_that_does_not_hold_what_was_appended_is_found(played: Played) -> None:
    key = next(iter(played.model.state))
    played.model.state[key] = (7, "never", None)
    played.model.digests[-1] = digest_of(played.model.state)
    assert played.collected() == [
        "the state as of 8 is not what was appended",
        "differences do not add up to one row for each living key",
        "a look-up does not find what was appended",
    ]
    played.model.append(0)
    assert played.collected() == ["there are 9 epochs, 10 were appended"]


def test_rows_of_a_collection_are_read_with_errors_and_nulls(played: Played) -> None:
    found = state_as_of(played.store, played.writer.snapshot(), 8)
    assert found == played.model.state
    assert any(error for _, _, error in found.values())
    assert rows_of([]) == []


def test_a_file_that_went_too_early_or_is_left_over_is_found(played: Played) -> None:
    assert look(played.store) == []
    for _ in range(9):
        tend(played.writer, LIMITS, grace="0s")
    sweep(played.writer, grace="0s")
    assert leftovers(played.store, played.writer.snapshot()) == []
    played.store.put("runs/orphan", b"x")
    assert leftovers(played.store, played.writer.snapshot()) == [
        "1 objects are left, as runs/orphan"
    ]
    name = played.writer.snapshot().files[0].name
    played.store.delete([name])
    assert look(played.store) == [f"{name} is gone and is named"]


def test_a_manifest_that_goes_back_or_comes_twice_is_found(played: Played) -> None:
    data = bytes(played.store.get("manifest").data)
    manifest = decode_manifest(data)
    played.witness.see(data)
    assert played.witness.problems == []
    played.witness.see(encode_manifest(replace(manifest, writer=99)))
    assert played.witness.problems.pop() == (
        f"change {manifest.change} was made twice, and not alike"
    )
    later = manifest.change + 1
    played.witness.see(encode_manifest(replace(manifest, change=later, writer=0)))
    assert "writer goes back from" in played.witness.problems.pop()
    name = manifest.files[0].name
    gone = manifest.dropped, (Dropped(name, 1, 0),)
    for change, (dropped, files) in enumerate(
        [(gone[1], manifest.files[1:]), (gone[0], manifest.files)], later + 1
    ):
        wanted = replace(manifest, change=change, dropped=dropped, files=files, upper=9)
        played.witness.see(encode_manifest(wanted))
    assert played.witness.problems.pop() == f"{name} was dropped and is named again"
    played.witness.see(b"torn")
    assert "cannot be read" in played.witness.problems.pop()
