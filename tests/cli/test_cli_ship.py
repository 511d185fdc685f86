"""``ship`` and ``restore``: a store goes through a queue and comes back, each bundle once."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import quiver
from quiver.segment import segment_name
from quiver.ship.objects import FolderBucket, own_key
from quiver.ship.queue import Queue

SHIP = ("--subscriber", "ship")


@pytest.fixture
def store(store) -> Path:
    """All of it is in segments: what is in the log alone is not seen from outside."""
    quiver.open(store, worker=False).close()
    return store


@pytest.fixture
def queue(tmp_path) -> Path:
    return tmp_path / "queue"


def rows(run, store: Path, slot: str) -> str:
    return run("cat", store, "--slot", slot, "--format", "csv").out


def spoil(path: Path) -> None:
    path.chmod(0o600)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)


def fields(section: str) -> set[str]:
    """Read the fields of a report from the page."""
    page = (Path(quiver.__file__).parent / "cli" / "JSON.md").read_text()
    text = page.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)` \|[^|]*\|$", text, flags=re.MULTILINE))


def batches(queue: Path) -> list[Path]:
    entries = Queue(FolderBucket(str(queue))).read().entries()
    bucket = FolderBucket(str(queue))
    return [queue / own_key(bucket, entry.location) for entry in entries]


def test_a_store_is_shipped_and_restored(run, store, queue, tmp_path) -> None:
    first = run("ship", store, queue, *SHIP)
    assert first.code == 0
    line, summary = first.out.splitlines()
    assert "5 bundles in 2 segments" in line
    assert summary.startswith("5 bundles in 2 segments and 1 object, ")
    again = run("ship", store, queue, *SHIP)
    assert (again.code, again.out[:33]) == (0, "0 bundles in 0 segments and 0 obj")
    back = tmp_path / "back"
    found = run("restore", queue, back)
    assert found.code == 0
    assert "5 bundles in 2 segments" in found.out
    for slot in ("logs", "traces"):
        assert rows(run, back, slot) == rows(run, store, slot)
    found = run("restore", queue, back)
    assert "2 segments the store had already" in found.out
    assert run("check", back).code == run("check", store).code == 0
    found = run("restore", queue, back, "--consume")
    assert "1 of the queue dequeued" in found.out
    assert batches(queue) == []


def test_what_the_queue_has_is_told(run, store, queue) -> None:
    run("ship", store, queue, *SHIP)
    found = run("ship", store, queue, "--subscriber", "other")
    assert found.out.startswith("0 bundles")
    assert "5 bundles the queue had already" in found.out


def test_a_paused_subscriber_is_told_of(run, store, queue) -> None:
    with quiver.open(store, worker=False) as opened:
        opened.subscribe("ship").close()
        opened.pause("ship")
    found = run("ship", store, queue, *SHIP)
    assert (found.code, found.out[:9]) == (0, "0 bundles")
    assert "paused" in found.err


@pytest.mark.parametrize("verb", ["ship", "restore"])
def test_a_run_that_is_cut_short_is_exit_code_130(
    run, store, queue, tmp_path, monkeypatch, verb
) -> None:
    from quiver.ship.shipper import Restorer, Shipper

    if verb == "restore":
        run("ship", store, queue, *SHIP)
    kind = {"ship": Shipper, "restore": Restorer}[verb]
    begin = kind.run

    def cut_short(one, **options):
        one.stop()
        return begin(one, **options)

    monkeypatch.setattr(kind, "run", cut_short)
    arguments = [store, queue, *SHIP] if verb == "ship" else [queue, tmp_path / "back"]
    assert run(verb, *arguments).code == 130


def test_one_slot_compressed_and_small_objects(run, store, queue, tmp_path) -> None:
    arguments = ("--slot", "traces", "--compress", "zstd", "--size", "1B", "--uploads", 1)
    *objects, summary = run("ship", store, queue, *SHIP, *arguments, "--json").lines
    assert [each["kind"] for each in objects] == ["object"] * len(objects)
    assert summary["object_count"] == len(objects) == len(batches(queue))
    assert summary["bundle_count"] + summary["unwanted_bundle_count"] == 5
    assert summary["object_bytes"] < summary["record_bytes"]
    back = tmp_path / "back"
    run("restore", queue, back)
    assert rows(run, back, "traces") == rows(run, store, "traces")
    assert len(rows(run, back, "logs").splitlines()) <= 1


def test_damage_is_told_and_is_exit_code_9(run, store, queue, tmp_path) -> None:
    spoil(store / "core_0" / "segments" / segment_name(0))
    blocked = run("ship", store, queue, *SHIP, "--damaged", "block")
    assert blocked.code == 9
    assert "--damaged skip" in blocked.err
    found = run("ship", store, queue, *SHIP)
    assert found.code == 9
    assert "left out for good" in found.out
    assert "left out: " in found.err
    assert run("ship", store, queue, *SHIP).code == 0


def test_a_damaged_object_is_told_and_is_exit_code_9(run, store, queue, tmp_path) -> None:
    run("ship", store, queue, *SHIP, "--size", "1B")
    spoil(batches(queue)[0])
    back = tmp_path / "back"
    blocked = run("restore", queue, back)
    assert blocked.code == 9
    assert "--damaged skip" in blocked.err
    *_, summary = run("restore", queue, back, "--damaged", "skip", "--json").lines
    assert (summary["damaged_count"], summary["segment_count"]) == (1, 1)
    assert run("restore", queue, back, "--damaged", "skip").code == 9


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["ship", "STORE", "QUEUE"], 2, "--subscriber"),
        (["ship", "STORE", "QUEUE", "--subscriber", "no name"], 2, "not allowed"),
        (["ship", "STORE", "QUEUE", *SHIP, "--slot", "x"], 2, "no slot"),
        (["ship", "STORE", "QUEUE", *SHIP, "--size", "0"], 2, "batch_bytes"),
        (["ship", "NONE", "QUEUE", *SHIP], 3, "no folder"),
        (["ship", "STORE", "s4://bucket/q", *SHIP], 2, "s4"),
        (["ship", "STORE", "s3://bucket/q", *SHIP, "--option", "hidden"], 2, "KEY=VALUE"),
        (["ship", "STORE", "QUEUE", *SHIP, "--option", "a=1"], 2, "no options"),
        (["restore", "QUEUE", "BACK"], 3, "no queue"),
        (["restore", "QUEUE", "BACK", "--option", "region=x"], 2, "no options"),
    ],
)
def test_what_cannot_be_is_refused_with_its_code(
    run, store, queue, tmp_path, arguments, code, text
) -> None:
    places = {"STORE": store, "QUEUE": queue, "NONE": tmp_path / "none", "BACK": tmp_path / "back"}
    found = run(*(places.get(each, each) for each in arguments))
    assert found.code == code, found.err
    assert text in found.err
    assert "hidden" not in found.err


def test_another_slot_table_is_exit_code_5_and_changes_nothing(run, store, queue, tmp_path) -> None:
    run("ship", store, queue, *SHIP)
    with quiver.open(tmp_path / "back", slots=["else"], worker=False):
        pass
    found = run("restore", queue, tmp_path / "back")
    assert found.code == 5
    assert "asked for" in found.err
    assert (
        run("info", tmp_path / "back", "--json").document["cores"][0]["segments"]["segment_count"]
        == 0
    )


def test_a_store_is_not_restored_into_itself(run, store, queue) -> None:
    run("ship", store, queue, *SHIP)
    assert run("restore", queue, store).code == 2


def test_following_ends_with_what_is_under_way(store, queue) -> None:
    arguments = ["ship", str(store), str(queue), *SHIP, "--follow", "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "quiver", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(quiver.__file__).parents[1])},
    ) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert (first["kind"], first["bundle_count"]) == ("object", 5)
        with quiver.open(store, worker=False) as opened:
            opened.append({"logs": pa.record_batch({"n": [99]})})
            opened.finalize()
            second = json.loads(process.stdout.readline())
        assert second["bundle_count"] == 1
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait(60) == 0
    summary = json.loads(rest.splitlines()[-1])
    assert (summary["kind"], summary["bundle_count"]) == ("summary", 6)


def test_the_fields_are_those_on_the_page(run, store, queue, tmp_path, kit) -> None:
    spoil(store / "core_0" / "segments" / segment_name(0))
    found = run("ship", store, queue, *SHIP, "--size", "1B", "--json").lines
    assert {each["kind"] for each in found} == {"object", "left_out", "summary"}
    for each in found:
        assert set(kit.leaves(each)) == fields(f"ship: {each['kind']}")
    found = run("restore", queue, tmp_path / "back", "--json").lines
    spoil(batches(queue)[0])
    found += run("restore", queue, tmp_path / "b", "--damaged", "skip", "--json").lines
    assert {each["kind"] for each in found} == {"commit", "left_out", "summary"}
    for each in found:
        assert set(kit.leaves(each)) == fields(f"restore: {each['kind']}")
