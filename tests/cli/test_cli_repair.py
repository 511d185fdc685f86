"""``repair``: a rehearsal that changes nothing, and a repair that does what the rehearsal said."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import quiver

ACTIVE = "core_0/wal/quiver.wal"
ACKS = "core_0/acks/ack.log"
SEGMENT = "core_0/segments/0000000000000000.qseg"


@pytest.fixture
def wrecked(run, store, kit) -> Path:
    """A store whose segment, log and ack.log are damaged."""
    last = run("dump", store / ACTIVE, "--json").lines[-1]
    kit.flip(store / SEGMENT, 200)
    kit.flip(store / ACTIVE, last["offset"] + 100)
    kit.flip(store / ACKS, 64 * 2 + 9)
    return store


def contents(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != "LOCK")
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def parts(result) -> tuple[list, list, list, dict]:
    *found, summary = result.lines
    kinds = {
        kind: [f for f in found if f["kind"] == kind] for kind in ("damage", "lost", "remains")
    }
    assert sum(len(items) for items in kinds.values()) == len(found)
    assert summary["kind"] == "summary"
    return kinds["damage"], kinds["lost"], kinds["remains"], summary


def test_a_sound_store_has_nothing_to_repair(run, store) -> None:
    before = contents(store)
    for options in ([], ["--apply"]):
        result = run("repair", store, *options)
        assert (result.code, result.out) == (0, f"OK: nothing is damaged in {store}\n")
    (summary,) = run("repair", store, "--json").lines
    assert (summary["damage_count"], summary["is_applied"]) == (0, False)
    assert contents(store) == before
    assert os.listdir(store.parent) == [store.name]


def test_a_rehearsal_changes_nothing_and_exit_code_1_says_that_there_is_work(
    run, wrecked, kit
) -> None:
    before = kit.tree_digest(wrecked)
    for options in ([], ["--json"]):
        assert run("repair", wrecked, *options).code == 1
    assert kit.tree_digest(wrecked) == before
    assert os.listdir(wrecked.parent) == [wrecked.name]


def test_a_rehearsal_says_what_becomes_of_each_finding_and_what_is_lost(run, wrecked) -> None:
    checked = [f for f in run("check", wrecked, "--json").lines if f["kind"] == "damage"]
    damage, lost, remains, summary = parts(run("repair", wrecked, "--json"))
    assert [{k: f[k] for k in checked[0]} for f in damage] == checked
    assert [f["file_state"] for f in damage] == ["rewritten", "rewritten", "rewritten"]
    assert [len(f["quarantine"]) for f in damage] == [1, 1, 1]
    assert [(item["what"], item["wal_seq_ranges"]) for item in lost] == [
        ("bundles", [[4, 4]]),
        ("records", []),
    ]
    assert remains == []
    assert (summary["lost_bundle_count"], summary["lost_record_count"]) == (1, 1)
    assert summary["is_exact"]
    assert summary["backup_path"] is None
    text = run("repair", wrecked).out
    assert "lost    1 bundle, wal_seq 4, rows not known (core 0, " in text
    assert "lost    1 record of subscribers: what they resolved is delivered again" in text
    assert "3 damaged items" in text
    assert "a repair loses 1 bundle and 1 record" in text
    copied = f"--apply copies {summary['changed_file_count']} files"
    assert f"nothing was changed: {copied}" in text


def test_a_repair_does_what_the_rehearsal_said_and_check_finds_nothing_more(run, wrecked) -> None:
    before = contents(wrecked)
    rehearsed = parts(run("repair", wrecked, "--json"))
    result = run("repair", wrecked, "--apply", "--json")
    assert result.code == 0
    damage, lost, remains, summary = parts(result)
    assert (damage, lost, remains) == rehearsed[:3]
    assert summary["is_applied"]
    assert summary["changed_file_count"] == rehearsed[3]["changed_file_count"]
    checked = run("check", wrecked, "--json")
    assert checked.code == 0
    assert {line["station"] for line in checked.lines[:-1]} == {"quarantine"}
    backup = Path(summary["backup_path"])
    assert backup == wrecked.with_name("store.before-repair-1")
    copies, after = contents(backup), contents(wrecked)
    assert copies == {name: before[name] for name in copies}
    gone = {name for name, data in before.items() if after.get(name) != data}
    assert gone <= copies.keys()
    assert sum(map(len, copies.values())) == summary["changed_bytes"]
    for item in damage:
        for name in item["quarantine"]:
            assert after[name]
    assert run("repair", wrecked).code == 0
    assert quiver.scan(wrecked, slot="logs").to_table()["n"].to_pylist() == [
        *(value for number in range(3) for value in (number, None)),
        3,
    ]


def test_a_slot_that_is_lost_is_named_with_its_rows(run, store, kit) -> None:
    with quiver.open(store, worker=False, config={"wal": {"reclaim_size": 1}}):
        pass
    kit.flip(store / "core_0/segments/0000000000000001.qseg", 200)
    (damage,), (loss,), _, summary = parts(run("repair", store, "--json"))
    assert damage["station"] == "segments"
    assert (loss["what"], loss["slot"], loss["row_count"]) == ("slot", "logs", 1)
    assert loss["wal_seq_ranges"] == [[3, 3]]
    assert summary["lost_bundle_count"] == 1
    result = run("repair", store, "--apply")
    assert result.code == 0
    assert "lost    slot logs of 1 bundle, wal_seq 3, 1 row (core 0, " in result.out
    notes = [n["message"] for n in run("check", store, "--json").lines if n["kind"] == "note"]
    assert any("1 of its bundles lost slots to damage" in note for note in notes)
    assert quiver.scan(store, slot="traces").to_table()["t"].to_pylist() == ["x", "y", "z"]


def test_copies_go_to_a_folder_of_ones_own_or_beside_the_store(run, wrecked, tmp_path, kit) -> None:
    for name in ("store.before-repair-1", "full"):
        (tmp_path / name).mkdir()
    (tmp_path / "full/file").write_text("mine")
    before = contents(wrecked)
    refused = run("repair", wrecked, "--apply", "--backup", tmp_path / "full")
    assert refused.code == 2
    assert "is not empty" in refused.err
    assert contents(wrecked) == before
    twin = shutil.copytree(wrecked, tmp_path / "twin")
    assert run("repair", wrecked, "--apply").code == 0
    assert (tmp_path / "store.before-repair-2" / ACTIVE).read_bytes() == before[ACTIVE]
    assert run("repair", twin, "--apply", "--backup", tmp_path / "own/copies").code == 0
    assert (tmp_path / "own/copies" / ACTIVE).read_bytes() == before[ACTIVE]


def test_a_lost_manifest_comes_back(run, store) -> None:
    path = store / "quiver.json"
    before = quiver.scan(store, slot="logs").count_rows()
    path.unlink()
    (finding,), _, _, _ = parts(run("repair", store, "--json"))
    assert (finding["path"], finding["file_state"]) == (str(path), "rewritten")
    assert run("repair", store, "--apply").code == 0
    assert run("check", store).code == 0
    assert quiver.scan(store, slot="logs").count_rows() >= before


def test_what_nothing_can_mend_remains_and_is_named(run, store, kit) -> None:
    kit.flip(store / "quiver.json", 0)
    (store / SEGMENT).unlink()
    before = contents(store)
    text = run("repair", store)
    assert text.code == 1
    assert "nothing can mend it" in text.out
    assert "1 damaged item" in text.out
    result = run("repair", store, "--apply", "--json")
    assert result.code == 1
    (damage,), lost, (left,), summary = parts(result)
    assert lost == []
    assert (damage["path"], left["path"]) == (str(store / "quiver.json"),) * 2
    assert (summary["is_applied"], summary["remaining_count"]) == (False, 1)
    assert contents(store) == before
    assert not list(store.parent.glob("*before-repair*"))


def test_a_segment_of_another_store_remains_and_the_rest_is_repaired(
    run, store, kit, tmp_path
) -> None:
    with quiver.open(tmp_path / "other", slots=["logs", "traces"], worker=False) as other:
        for _ in range(2):
            other.append({"logs": pa.table({"n": [1]})})
            other.finalize()
    alien = store / "core_0/segments/0000000000000001.qseg"
    shutil.copy(tmp_path / "other/core_0/segments/0000000000000001.qseg", alien)
    kit.flip(store / ACKS, 64 * 2 + 9)
    rehearsed = run("repair", store)
    assert rehearsed.code == 1
    result = run("repair", store, "--apply")
    assert result.code == 1
    assert f"remains {alien}" in result.out
    assert "left as they are" in result.out
    checked = [f for f in run("check", store, "--json").lines if f["kind"] == "damage"]
    assert {finding["path"] for finding in checked} == {str(alien)}


def test_a_file_of_another_version_is_exit_code_5_and_nothing_is_changed(run, wrecked, kit) -> None:
    with (wrecked / ACTIVE).open("r+b") as file:
        file.seek(14)
        file.write(bytes(16))
    before = contents(wrecked)
    for options in ([], ["--apply"]):
        result = run("repair", wrecked, *options)
        assert (result.code, result.out) == (5, "")
        assert str(wrecked / ACTIVE) in result.err
    assert contents(wrecked) == before


@pytest.mark.parametrize("options", [[], ["--apply"]])
def test_a_store_that_is_being_written_is_exit_code_4(run, wrecked, options) -> None:
    hold = "import quiver, sys; s = quiver.open(sys.argv[1]); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(wrecked)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        holder.stdout.readline()
        before = contents(wrecked)
        result = run("repair", wrecked, *options)
        assert (result.code, result.out) == (4, "")
        assert f"written by process {holder.pid}" in result.err
        assert contents(wrecked) == before
        holder.stdin.close()
        holder.wait()


def test_no_store_is_exit_code_3(run, tmp_path) -> None:
    assert run("repair", tmp_path / "none").code == 3
    assert run("repair", tmp_path).code == 3


def test_copies_are_told_when_the_repair_itself_is_refused(run, wrecked, monkeypatch) -> None:
    from quiver.cli import repair
    from quiver.errors import StorageError

    honest, calls = repair._treat, []

    def second_time(*arguments: object, **named: object) -> object:
        calls.append(arguments)
        if len(calls) == 2:
            raise StorageError("no more", path="x", errno=5)
        return honest(*arguments, **named)

    monkeypatch.setattr(repair, "_treat", second_time)
    result = run("repair", wrecked, "--apply")
    assert result.code == 8
    assert f"copies of what it was to change are in {wrecked}.before-repair-1" in result.err


def test_a_rehearsal_finds_a_damaged_store_of_several_cores(run, store, kit) -> None:
    with quiver.open(store, core=2, worker=False) as second:
        second.append({"logs": pa.table({"n": [1]})})
    kit.flip(store / "core_2/segments/0000000000000000.qseg", 200)
    _, lost, _, _ = parts(run("repair", store, "--json"))
    assert lost == []  # The log of core 2 still has the bundle.
    assert run("repair", store, "--apply").code == 0
    assert run("check", store).code == 0


def test_a_bundle_that_is_no_arrow_data_is_lost_with_the_rows_that_it_claimed(run, store) -> None:
    from quiver.payload import EncodedBundle, Payload
    from quiver.wal.format import encode_bundle

    odd = EncodedBundle(5, 0, (Payload(0, 0, bytes(32), 7, b"no arrow"),))
    with (store / ACTIVE).open("ab") as file:
        file.write(encode_bundle(odd))
    (damage,), (loss,), _, _ = rehearsed = parts(run("repair", store, "--json"))
    assert damage["quarantine"] == ["core_0/quarantine/bundle-5.bin"]
    assert (loss["wal_seq_ranges"], loss["row_count"], loss["is_exact"]) == ([[5, 5]], 7, True)
    assert parts(run("repair", store, "--apply", "--json"))[:3] == rehearsed[:3]
    assert run("check", store).code == 0


def test_a_log_that_is_gone_may_have_held_anything(run, store) -> None:
    (store / ACTIVE).unlink()
    (damage,), (loss,), _, summary = parts(run("repair", store, "--json"))
    assert damage["message"] == "the log is missing"
    assert (loss["bundle_count"], loss["is_exact"]) == (None, False)
    assert not summary["is_exact"]
    text = run("repair", store).out
    assert "all bundles that were in no segment yet, nobody knows how many" in text
    assert "a repair loses at most what was in no segment yet" in text
    assert run("repair", store, "--apply").code == 0
    assert run("check", store).code == 0


def test_an_ack_log_that_is_gone_is_damage_and_made_anew(run, store) -> None:
    (store / ACKS).unlink()
    (damage,), (loss,), _, _ = parts(run("repair", store, "--json"))
    assert damage["message"] == "ack.log is missing"
    assert (loss["what"], loss["record_count"]) == ("records", None)
    assert "a repair loses records of subscribers" in run("repair", store).out
    assert run("repair", store, "--apply").code == 0
    assert run("check", store).code == 0
