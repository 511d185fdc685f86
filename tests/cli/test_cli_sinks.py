"""What the verbs say of what sinks have staged, decided and got in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sink_kit import CLOCK, batch, let_in, stage

import quiver
from quiver.cli.live.board import Board
from quiver.cli.live.looking import Looker
from quiver.cli.live.words import used_words
from quiver.config_file import config_of
from quiver.disk import LocalDisk
from quiver.engine import intake
from quiver.engine.recovery import open_core
from quiver.sink import Job
from tests.cli.test_cli_json import fields


@pytest.fixture
def disk(tmp_path) -> LocalDisk:
    with quiver.open(tmp_path / "s", slots=["events"], worker=False) as store:
        store.append({"events": batch(0)})
    disk = LocalDisk(tmp_path / "s")
    yield disk
    disk.close()


def test_what_is_staged_is_told_and_old_files_go(run, disk) -> None:
    assert run("gc", disk.root, "--json").document["staging"]["left_count"] == 0
    part = stage(disk, Job("run", "sink", 3), "a", [1, 2])
    size = disk.stat(part.files[0]).size
    found = run("info", disk.root, "--json").document["staging"]
    assert found == {"file_count": 1, "file_bytes": size}
    assert "1 file" in run("info", disk.root).out
    done = run("check", disk.root)
    assert "staged by jobs that are under way, or dead" in done.out
    assert "OK" in done.out
    staging = run("gc", disk.root, "--json").document["staging"]
    assert (staging["left_count"], staging["removed_count"]) == (1, 0)
    file = disk.root + "/" + part.files[0]
    os.utime(file, (1, 1))
    assert "1 file" in run("gc", disk.root).out
    assert run("info", disk.root, "--json").document["staging"]["file_count"] == 0


def test_a_record_that_is_damaged_is_found(run, disk) -> None:
    job = Job("run", "sink", 3)
    let_in(disk, job, stage(disk, job, "a", [1]))
    assert run("check", disk.root, "--json").lines[-1]["note_count"] == 0
    file = disk.open("sinks/sink.json", writable=True)
    file.write(5, b"?")
    finding, summary = run("check", disk.root, "--json").lines
    assert "the other one is sound" in finding["hint"]
    file.write(5 + file.size() // 2, b"?")
    file.close()
    finding, summary = run("check", disk.root, "--json").lines
    assert finding["path"].endswith("sinks/sink.json")
    assert "may come twice" in finding["hint"]
    assert summary["damage_count"] == 1


def test_an_intake_that_is_not_finished_is_a_note_and_the_next_open_finishes_it(
    run, disk, monkeypatch
) -> None:
    part = stage(disk, Job("run"), "a", [1])
    core = open_core(disk, 0, slots=None, config=config_of({}), clock=CLOCK)
    with monkeypatch.context() as patch, core.lock:
        patch.setattr(intake, "settle_intake", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            intake.take_in(core, part.files)
    core.held.release()
    done = run("check", disk.root)
    assert "1 segment was decided to be taken in" in done.out
    assert "the next open clears it" in done.out
    assert run("gc", disk.root, "--json").document["cores"][0]["segment_count"] == 2
    assert run("check", disk.root, "--json").lines[-1]["note_count"] == 0
    assert quiver.scan(disk.root, slot="events").to_table()["n"].to_pylist() == [0, 1]


def test_what_belongs_to_no_core_is_shown_where_there_is_any(run, disk, kit) -> None:
    assert "\nsources" not in run("ls", disk.root).out + run("info", disk.root).out
    assert "none is followed" in run("ls", disk.root, "sources").out
    for sink in ("calm", "lost", "rotten"):
        job = Job("run", sink, 3)
        let_in(disk, job, stage(disk, job, "a", [1, 2]))
    (Path(disk.root) / "sinks/rotten.json").write_text("{")
    (Path(disk.root) / "sinks/lost.doubt").touch()
    with quiver.open(disk.root, core=0, worker=False) as store, store.follow("in") as follower:
        for n in range(2):
            store.append({"events": batch(n)}, progress=follower.at({"a": str(n), "b": "gone"}))
        store.append({"events": batch(2)}, progress=follower.at({"b": None}))
    (item,) = run("ls", disk.root, "sources", "--json").lines
    assert set(kit.leaves(item)) == fields("ls: source")
    assert (item["source"], item["split"], item["state"], item["epoch"]) == ("in", "a", "1", 1)
    sinks = run("ls", disk.root, "sinks", "--json").lines
    assert all(set(kit.leaves(sink)) == fields("ls: sink") for sink in sinks)
    known = {sink["sink"]: (sink["batch_id"], sink["is_known"]) for sink in sinks}
    assert known == {"calm": (3, True), "lost": (3, False), "rotten": (None, False)}
    shown = run("ls", disk.root).out
    assert "calm" in shown
    assert "in" in shown
    assert "3 sinks, 2 of them in doubt" in run("info", disk.root).out
    assert "1 source, 1 split" in run("info", disk.root).out
    assert "staged" not in run("stats", disk.root).out
    stage(disk, Job("next", "calm", 4), "a", [1])
    size = run("stats", disk.root, "--json").document["staged_bytes"]
    assert size > 0
    assert "for sinks to commit" in run("stats", disk.root).out
    board = Board(disk.root, interval_ns=1, cap=1 << 20)
    board.look = Looker(disk.root).look()
    words, share = used_words(board)
    assert "of it staged" in words
    assert share * (1 << 20) > size


def test_what_is_lost_of_sources_does_not_keep_them_from_being_shown(run, disk) -> None:
    (Path(disk.root) / "core_0/progress").write_bytes(b"rot")
    assert "how far they were read is lost in 1 core" in run("info", disk.root).out
    assert run("ls", disk.root, "sources").code == 0
