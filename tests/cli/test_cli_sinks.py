"""What the verbs say of what sinks have staged, decided and got in."""

from __future__ import annotations

import os

import pytest
from sink_kit import CLOCK, batch, let_in, stage

import quiver
from quiver.config_file import config_of
from quiver.disk import LocalDisk
from quiver.engine import intake
from quiver.engine.recovery import open_core
from quiver.sink import Job


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
