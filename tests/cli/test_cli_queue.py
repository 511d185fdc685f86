"""``quiver queue stat`` and ``quiver queue dump`` on queues in a folder, and on files."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

import pytest

from quiver.ship.objects import FolderBucket
from quiver.ship.queue import Batch, Item, NewEntry, Queue, QueueOptions, Span

GOLDEN = Path(__file__).parents[1] / "golden" / "v1" / "queue"
STORE_ID = bytes(range(16))
TIME_MS = 1_700_000_000_000


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "queue"


@pytest.fixture
def queue(folder) -> Queue:
    folder.mkdir()
    return Queue(FolderBucket(str(folder)), options=QueueOptions(page_entries=8))


def fill(queue: Queue, count: int) -> None:
    for number in range(count):
        items = (Item(0, TIME_MS + number, b"\xff\0"),)
        span = Span(STORE_ID, 3, number, number)
        queue.append(NewEntry(f"q/{number}.batch", items, Batch(1000, 0xABC), (span,)))


def test_stat_tells_people_how_much_waits(run, queue, folder) -> None:
    fill(queue, 3)
    queue.start(0)
    found = run("queue", "stat", folder)
    assert (found.code, found.err) == (0, "")
    lines = [line.split(None, 1) for line in found.out.splitlines()]
    assert ["place", str(folder)] in lines
    assert ["waiting", "2 entries; batches 2kB"] in lines
    assert ["epoch", "1"] in lines
    assert ["next", "number  3"] in lines
    assert found.out.split()[-3:] == [STORE_ID.hex(), "3", "2"]
    assert "2023-11-14T22:13:20.001Z" in found.out


def test_stat_of_an_empty_queue_and_of_a_long_one(run, queue, folder) -> None:
    queue.start()
    empty = run("queue", "stat", folder, "--json").document
    assert (empty["entry_count"], empty["oldest_time"], empty["marks"]) == (0, None, [])
    assert "waiting      0 entries" in run("queue", "stat", folder).out
    fill(queue, 30)
    found = run("queue", "stat", folder, "--json").document
    assert (found["entry_count"], found["page_count"], found["version"]) == (30, 4, 2)
    assert (found["batch_bytes"], found["page_entry_count"]) == (30_000, 24)
    assert found["oldest_time"] == "2023-11-14T22:13:20.000000000Z"
    assert found["oldest_age_seconds"] > 1e6
    assert "30 entries, 24 of them in 4 pages" in run("queue", "stat", folder).out
    assert queue.read().epoch == 1


def test_dump_gives_the_fields_of_the_reference_and_ours(run, queue, folder) -> None:
    fill(queue, 30)
    found = run("queue", "dump", folder).document
    assert run("queue", "dump", folder, "--json").document == found
    assert (found["version"], found["epoch"], found["next_sequence"]) == (2, 0, 30)
    assert [entry["sequence"] for entry in found["entries"]] == list(range(30))
    first = found["entries"][0]
    assert first["location"] == "q/0.batch"
    (item,) = first["metadata"]
    assert (item["start_index"], item["ingestion_time_ms"]) == (0, TIME_MS)
    assert base64.b64decode(item["payload_base64"]) == b"\xff\0"
    assert (first["batch_bytes"], first["batch_crc32c"]) == (1000, "00000abc")
    assert found["marks"] == [{"store_id": STORE_ID.hex(), "core": 3, "segment_seq": 29}]
    assert len(found["pages"]) == 4
    short = run("queue", "dump", folder, "--limit", 2).document
    assert [entry["sequence"] for entry in short["entries"]] == [0, 1]


def test_dump_reads_a_manifest_that_is_a_file(run, queue, folder, tmp_path) -> None:
    found = run("queue", "dump", GOLDEN / "reference.manifest").document
    assert found["entries"][0]["location"] == "d/x.batch"
    assert (found["version"], found["epoch"], found["next_sequence"]) == (1, 3, 8)
    kept = run("queue", "dump", GOLDEN / "kept.manifest").document
    assert [entry["is_acked"] for entry in kept["entries"]] == [True]
    assert len(run("queue", "dump", GOLDEN / "floor.manifest").document["entries"]) == 2
    alone = shutil.copy(GOLDEN / "floor.manifest", tmp_path)
    missing = run("queue", "dump", alone)
    assert missing.code == 9
    assert ".page" in missing.document["damage"]


def test_dump_shows_what_is_in_front_of_damage(run, tmp_path) -> None:
    data = (GOLDEN / "reference.manifest").read_bytes()
    path = tmp_path / "manifest"
    path.write_bytes(data[:-22] + b"junk" + data[-22:])
    found = run("queue", "dump", path)
    assert found.code == 9
    assert len(found.document["entries"]) == 1
    assert "belong to no entry" in found.document["damage"]
    path.write_bytes(b"short")
    short = run("queue", "dump", path)
    assert (short.code, short.out) == (9, "")
    assert str(path) in short.err
    path.write_bytes(data[:-2] + b"\x09\0")
    assert run("queue", "dump", path).code == 5


@pytest.mark.parametrize("verb", ["stat", "dump"])
def test_where_there_is_no_queue_that_is_said_and_nothing_is_made(run, verb, tmp_path) -> None:
    found = run("queue", verb, tmp_path / "nowhere")
    assert (found.code, found.out) == (3, "")
    assert "there is no queue at" in found.err
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("verb", ["stat", "dump"])
def test_no_credential_is_ever_shown(run, verb, folder, queue, monkeypatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    for arguments in (
        ("s3://bucket/queue", "--option", "hunter2"),
        ("s3://bucket/queue", "--option", "secret_access_kay=hunter2"),
        ("s3://user:hunter2@bucket/queue",),
        (folder, "--option", "secret_access_key=hunter2"),
    ):
        found = run("queue", verb, *arguments)
        assert found.code == 2
        assert "hunter2" not in found.out + found.err


def test_an_option_means_nothing_to_a_file(run) -> None:
    found = run("queue", "dump", GOLDEN / "kept.manifest", "--option", "region=x")
    assert (found.code, found.out) == (2, "")
    assert "has no meaning for a file" in found.err
