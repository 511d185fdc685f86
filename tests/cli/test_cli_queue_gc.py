"""``quiver queue gc`` on a queue in a folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quiver.ship.batch import encode_batch, mint_name
from quiver.ship.objects import FolderBucket
from quiver.ship.queue import NewEntry, Queue
from quiver.units import SECOND

OLD = 1_700_000_000


@pytest.fixture
def queue(tmp_path) -> Path:
    """Two old batches: the queue names the younger one."""
    bucket = FolderBucket(str(tmp_path))
    keys = [mint_name((OLD + n) * SECOND, os.urandom) for n in range(2)]
    for n, key in enumerate(keys):
        bucket.put(key, encode_batch([b"x" * 100]).parts)
        os.utime(tmp_path / key, (OLD + n, OLD + n))
    Queue(bucket).append(NewEntry(keys[1]))
    return tmp_path


def batches(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.batch"))


def test_it_says_what_would_go_and_then_deletes_it(run, queue) -> None:
    orphan, named = batches(queue)
    dry = run("queue", "gc", queue, "--dry-run")
    assert (dry.code, dry.err) == (0, "")
    assert dry.out.splitlines() == [
        orphan,
        "1 object would be deleted (111B); 1 object named by the queue",
    ]
    assert batches(queue) == [orphan, named]
    done = run("queue", "gc", queue)
    assert done.out == "1 object deleted (111B); 1 object named by the queue\n"
    assert batches(queue) == [named]
    again = run("queue", "gc", queue, "--json").document
    assert (again["deleted_count"], again["named_count"], again["keys"]) == (0, 1, [])


def test_where_there_is_no_queue_nothing_is_made_or_deleted(run, queue, tmp_path) -> None:
    missing = run("queue", "gc", tmp_path / "nowhere")
    assert missing.code == 3
    assert "there is no queue at" in missing.err
    assert not (tmp_path / "nowhere").exists()
    (queue / "manifest").unlink()
    assert run("queue", "gc", queue).code == 3
    assert len(batches(queue)) == 2


@pytest.mark.parametrize(
    "arguments", [["--grace", "5m"], ["--grace", "soon"], ["--option", "SECRET"]]
)
def test_what_makes_no_sense_is_refused(run, queue, arguments) -> None:
    found = run("queue", "gc", queue, *arguments)
    assert found.code == 2
    assert "SECRET" not in found.err
    assert len(batches(queue)) == 2
