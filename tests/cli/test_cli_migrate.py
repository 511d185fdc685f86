"""``migrate``: another slot table, rehearsed first; data stays under the id it has."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import quiver
from quiver.manifest import StoreManifest
from quiver.slots import SlotTable

MANIFEST = "quiver.json"


def contents(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != "LOCK")
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def slots(store: Path) -> dict[str, tuple[int, int]]:
    items = json.loads((store / MANIFEST).read_text())["slots"]
    return {item["name"]: (item["id"], item["payload_type_id"]) for item in items}


def test_a_rehearsal_changes_nothing_and_says_what_would_be(run, store, kit) -> None:
    before = kit.tree_digest(store)
    result = run("migrate", store, "--slot", "metrics", "--rename", "logs=events")
    assert result.code == 0
    assert result.out.splitlines() == [
        "changed  logs (id 0) becomes events (id 0)",
        "added    metrics (id 2)",
        f"nothing was changed: --apply gives {store} the slots events, traces, metrics",
    ]
    document = run("migrate", store, "--slot", "metrics", "--json").document
    assert not document["is_applied"]
    assert document["layout_digest_before"] == SlotTable.of(["logs", "traces"]).digest().hex()
    wanted = SlotTable.of(["logs", "traces", "metrics"]).digest().hex()
    assert document["layout_digest_after"] == wanted
    assert [slot["name"] for slot in document["slots_after"]] == ["logs", "traces", "metrics"]
    assert kit.tree_digest(store) == before


def test_what_was_there_is_there_under_its_new_name(run, store) -> None:
    before = quiver.scan(store, slot="logs").count_rows()
    options = ("--rename", "logs=events", "--slot", "metrics=9", "--type", "metrics=300")
    result = run("migrate", store, *options, "--apply")
    assert result.code == 0
    assert result.out.splitlines()[-1] == f"migrated {store}; its slots: events, traces, metrics"
    assert slots(store) == {"events": (0, 0), "traces": (1, 1), "metrics": (9, 300)}
    # The log held one more row of it, which is in a segment now.
    assert quiver.scan(store, slot="events").count_rows() == before + 1
    assert run("check", store).code == 0
    assert run("cat", store, "--slot", "events", "--format", "csv").code == 0
    assert "events" in run("ls", store, "bundles").out
    with quiver.open(store, worker=False) as opened:
        opened.append({"metrics": pa.table({"m": [1]})})
        handle = opened.subscribe("spark").poll()
        assert tuple(handle) == ("events",)
        handle.defer()
    assert quiver.scan(store, slot="metrics").count_rows() == 1


def test_a_slot_without_data_can_be_dropped_and_one_with_data_cannot(run, store) -> None:
    assert run("migrate", store, "--slot", "metrics", "--apply").code == 0
    before = contents(store)
    for options in (["--drop", "logs"], ["--drop", "logs", "--slot", "other=0"]):
        result = run("migrate", store, *options, "--apply")
        assert (result.code, result.out) == (2, "")
        assert "slot id 0 cannot be dropped as 'logs'" in result.err
        assert "rows under it" in result.err
    assert contents(store) == before
    assert run("migrate", store, "--drop", "metrics", "--slot", "other=2", "--apply").code == 0
    assert slots(store) == {"logs": (0, 0), "traces": (1, 1), "other": (2, 2)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--drop", "nothing"], "no slot 'nothing' in this store"),
        (["--rename", "logs"], "--rename 'logs' lacks its second part"),
        (["--type", "logs"], "--type 'logs' lacks its second part"),
        (["--slot", "a=b"], "the id of slot 'a' is 'b', no number"),
        (["--slot", "a=-1"], "the id of slot 'a' is '-1', no number"),
        (["--slot", "a", "--slot", "a=3"], "--slot 'a' is given twice"),
        (["--slot", "logs"], "slot 'logs' (id 2) is in the table twice"),
        (["--slot", "a=" + "9" * 5000], "is not within 0..63"),
        (["--rename", "logs=two words"], "slot name 'two words' is not allowed"),
    ],
)
def test_options_that_cannot_be_are_exit_code_2_and_change_nothing(
    run, store, kit, options, message
) -> None:
    before = kit.tree_digest(store)
    result = run("migrate", store, *options)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert "Traceback" not in result.err
    assert kit.tree_digest(store) == before


def test_a_damaged_store_is_exit_code_9_and_stays_as_it_is(run, store, kit) -> None:
    last = run("dump", store / "core_0/wal/quiver.wal", "--json").lines[-1]
    kit.flip(store / "core_0/wal/quiver.wal", last["offset"] + 100)
    before = contents(store)
    for options in ([], ["--apply"]):
        assert run("migrate", store, "--slot", "metrics", *options).code == 9
    assert contents(store) == before
    assert run("repair", store, "--apply").code == 0
    assert run("migrate", store, "--slot", "metrics", "--apply").code == 0


def test_a_store_that_is_being_written_is_exit_code_4(run, store) -> None:
    hold = "import quiver, sys; s = quiver.open(sys.argv[1]); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        holder.stdout.readline()
        before = contents(store)
        for options in ([], ["--apply"]):
            result = run("migrate", store, "--slot", "metrics", *options)
            assert (result.code, result.out) == (4, "")
            assert f"written by process {holder.pid}" in result.err
        assert contents(store) == before
        holder.stdin.close()
        holder.wait()


def test_without_an_option_there_is_nothing_to_change(run, store) -> None:
    before = contents(store)
    result = run("migrate", store, "--apply")
    assert (result.code, result.out) == (0, f"OK: nothing to change in {store}\n")
    assert contents(store) == before


@pytest.fixture
def broken_off(run, store) -> Path:
    """A store whose migration was killed right behind its decision."""
    run("finalize", store)
    manifest = json.loads((store / MANIFEST).read_text())
    old = SlotTable.of(["logs", "traces"])
    log = store / "core_0/wal/quiver.wal"
    log.write_bytes(log.read_bytes()[:14] + old.digest())
    from quiver.disk import LocalDisk

    disk = LocalDisk(store)
    table = SlotTable.of(["logs", "traces", "metrics"])
    StoreManifest(manifest["store_id"], table, replaces=old.digest()).write(disk)
    disk.close()
    return store


def test_a_migration_that_was_broken_off_is_a_note_and_finished_by_the_next_opening(
    run, broken_off
) -> None:
    for verb in ("info", "ls"):
        assert run(verb, broken_off).code == 0
    *notes, summary = run("check", broken_off, "--json").lines
    assert summary["damage_count"] == summary["version_count"] == 0
    assert "a migration was not finished" in notes[0]["message"]
    item = run("dump", broken_off / MANIFEST, "--json").lines[0]
    assert item["replaces"] == SlotTable.of(["logs", "traces"]).digest().hex()
    twin = shutil.copytree(broken_off, broken_off.with_name("twin"))
    assert run("finalize", broken_off).code == 0
    (summary,) = run("check", broken_off, "--json").lines
    assert summary["note_count"] == 0
    assert run("migrate", twin, "--apply").code == 0
    assert "replaces" not in json.loads((twin / MANIFEST).read_text())
    assert run("check", twin).code == 0


def test_asking_for_other_slots_names_the_migration_that_leads_there(run, store) -> None:
    wanted = quiver.SlotTable.of(["logs", "spans", "metrics"])
    with pytest.raises(quiver.VersionError) as caught:
        quiver.open(store, slots=wanted)
    text = str(caught.value)
    assert "only asked for: metrics (id 2)" in text
    assert "different: traces (id 1) in the store is spans (id 1)" in text
    _, _, options = caught.value.hint.partition("quiver migrate DIR ")
    assert run("migrate", store, *options.split(), "--apply").code == 0
    with quiver.open(store, slots=wanted, worker=False) as opened:
        assert opened.slots == wanted
