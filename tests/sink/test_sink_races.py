"""Two that stage or commit for one sink at once: the batch is in once, and the other is told."""

from __future__ import annotations

import threading

import pytest
from sink_kit import batch, let_in, opened, rows, stage

import quiver
from quiver.disk import LocalDisk
from quiver.errors import MissingError
from quiver.sink import Job
from quiver.testing import MemoryDisk


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    with opened(disk) as store:
        store.append({"events": batch(0)})
    return disk


def test_many_commit_the_same_batch_at_once(tmp_path) -> None:
    with quiver.open(tmp_path, slots=["events"], worker=False):
        pass
    disk, results, lock = LocalDisk(tmp_path), [], threading.Lock()
    all_staged = threading.Barrier(4)

    def run(name: str) -> None:
        own = LocalDisk(tmp_path)
        job = Job(name, "sink", 0)
        staged = stage(own, job, "a", [1, 2, 3])
        all_staged.wait()
        made = let_in(own, job, staged)
        with lock:
            results.append(made.is_repeated)
        own.close()

    threads = [threading.Thread(target=run, args=(f"driver-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Who comes last may find that its files went as those of a dead run, and that the batch is in.
    assert sorted(results) == [False, True, True, True]
    assert rows(disk) == [1, 2, 3]
    disk.close()


def test_a_commit_takes_what_another_run_of_the_sink_is_just_writing(disk, monkeypatch) -> None:
    early, late = Job("early", "sink", 0), Job("late", "sink", 0)
    staged, rename = stage(disk, early, "a", [1, 2, 3]), disk.rename

    def overtaken(source: str, target: str) -> None:
        if "late" in source:
            let_in(disk, early, staged)
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "rename", overtaken)
        with pytest.raises(MissingError, match="removed since") as error:
            stage(disk, late, "a", [1, 2, 3])
    assert "repeat the job" in str(error.value)
    assert let_in(disk, late, stage(disk, late, "b", [1, 2, 3])).is_repeated
    assert rows(disk) == [0, 1, 2, 3]
