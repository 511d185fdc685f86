"""``check``: each kind of damage is named with its file and offset; what is no damage is a note."""

from __future__ import annotations

import json
import shutil
import struct
import zlib

import pyarrow as pa
import pytest
from crc32c import crc32c

import quiver
from quiver.acks import AckLog, DeadLetter, Lease, Pause, Rename
from quiver.disk import LocalDisk

ACTIVE = "core_0/wal/quiver.wal"
SIDECAR = "core_0/wal/truncate.offset"
ACKS = "core_0/acks/ack.log"
CHECKPOINT = "core_0/acks/checkpoint"
SEGMENT = "core_0/segments/0000000000000000.qseg"


def entry_offsets(data: bytes) -> list[int]:
    offsets, at = [], 30
    while at < len(data):
        offsets.append(at)
        at += struct.unpack_from("<I", data, at)[0] + 8
    return offsets


def findings(run, store, kind="damage"):
    result = run("check", store, "--json")
    assert result.err == ""
    *found, summary = result.lines
    assert summary["kind"] == "summary"
    assert summary["damage_count"] == sum(f["kind"] == "damage" for f in found)
    assert summary["version_count"] == sum(f["kind"] == "version" for f in found)
    assert summary["note_count"] == sum(f["kind"] == "note" for f in found)
    assert result.code == (1 if summary["damage_count"] else 5 if summary["version_count"] else 0)
    return [f for f in found if f["kind"] == kind]


def test_a_sound_store_is_ok(run, filled) -> None:
    result = run("check", filled)
    assert result.code == 0
    assert result.out.startswith("OK: ")
    assert findings(run, filled) == findings(run, filled, "note") == []


def test_the_files_of_times_are_no_strangers(run, store) -> None:
    with quiver.open(store, worker=False, config={"segment": {"time": "writer"}}) as opened:
        opened.append({"logs": pa.table({"n": [9]})})
        opened.heartbeat()
    assert findings(run, store, "note") == []


def test_the_kinds_of_ack_log_that_came_later_are_sound(run, store) -> None:
    def lags():
        (core,) = run("info", store, "--json").document["cores"]
        return {s["subscriber_id"]: s["lag_bundle_count"] for s in core["subscribers"]}

    number = max(lags(), key=lags().get)
    log, _ = AckLog.open(LocalDisk(store), "core_0/acks", "core_0/quarantine")
    log.append([Pause(number, 1, paused=True), Lease(number, 3, 2), Rename(number, "other", 3)])
    log.append([DeadLetter(number, 0, 0, 3, 4, lease=3)])
    log.close()
    assert findings(run, store) == findings(run, store, "note") == []
    assert lags()[number] == 0


@pytest.mark.parametrize("index", range(5))
def test_each_damaged_entry_of_the_log_is_named(run, store, kit, index) -> None:
    offsets = entry_offsets((store / ACTIVE).read_bytes())
    kit.flip(store / ACTIVE, offsets[index] + 100)
    (found,) = findings(run, store)
    assert found["station"] == "wal"
    assert found["path"] == str(store / ACTIVE)
    assert found["offset"] == offsets[index]
    assert "checksum" in found["message"]
    # The segment holds bundles 0 to 2, so that what rotted there is lost to nobody.
    assert ("should be in segments" in found["message"]) == (index < 3)
    result = run("check", store)
    assert result.code == 1
    assert f"damage  {store / ACTIVE} at byte {offsets[index]:,}: " in result.out
    assert result.out.splitlines()[-1] == f"1 damaged item in {store}"


def test_a_damaged_header_of_the_log_is_named(run, store, kit) -> None:
    kit.flip(store / ACTIVE, 3)
    (found,) = findings(run, store)
    assert (found["path"], found["offset"]) == (str(store / ACTIVE), 0)


def test_a_log_of_another_layout_is_named_and_the_rest_is_still_checked(run, store, kit) -> None:
    with (store / ACTIVE).open("r+b") as file:
        file.seek(14)
        file.write(bytes(16))
    (found,) = findings(run, store, "version")
    assert (found["station"], found["path"]) == ("wal", str(store / ACTIVE))
    kit.flip(store / ACKS, 80)
    assert [found["station"] for found in findings(run, store)] == ["acks"]


def make_newer(run, path) -> None:
    """Make the file one of format 9, its checksum right again."""
    footer = run("dump", path, "--json").lines[0] if path.suffix == ".qseg" else {"offset": 8}
    path.chmod(0o600)
    data = bytearray(path.read_bytes())
    copies = 2 if path.name == "checkpoint" else 1
    del data[len(data) // copies :]
    if path.name == "quiver.wal":
        data[10:30] = struct.pack("<HH16x", 9, 0)  # A header has no checksum, but a digest.
    else:
        data[footer["offset"]] = 9
        end = {".qseg": footer["offset"] + footer.get("byte_count", 0) - 16, ".log": 64}
        sum_at = end.get(path.suffix, len(data)) - 4
        start = footer["offset"] if path.suffix == ".qseg" else 0
        struct.pack_into("<I", data, sum_at, crc32c(bytes(data[start:sum_at])))
    if path.suffix == ".qseg":
        struct.pack_into("<I", data, len(data) - 4, zlib.crc32(data[:-4]))
    path.write_bytes(data * copies)


@pytest.mark.parametrize("name", [ACTIVE, SIDECAR, ACKS, CHECKPOINT, SEGMENT])
def test_a_newer_file_is_exit_code_5_in_check_as_in_other_verbs_and_named(run, store, name) -> None:
    checkpointed(store)
    path = store / name
    make_newer(run, path)
    (found,) = findings(run, store, "version")
    assert found["path"] == str(path)
    assert "9" in found["message"]
    shown = run("check", store)
    assert shown.code == 5
    assert f"version {path}: " in shown.out
    assert f"1 file of another version in {store}" in shown.out
    other = run("info", store)
    assert (other.code, other.out) == (5, "")
    assert f"{path}: " in other.err


def test_an_unfinished_append_is_a_note(run, store) -> None:
    size = (store / ACTIVE).stat().st_size
    with (store / ACTIVE).open("ab") as file:
        file.write(b"\x40\0\0\0\0")
    (note,) = findings(run, store, "note")
    assert (note["path"], note["offset"]) == (str(store / ACTIVE), size)
    assert "5 bytes" in note["message"]


def test_an_unfinished_end_of_a_rotated_file_is_damage(run, store) -> None:
    rotated = store / f"{ACTIVE}.1"
    shutil.copy(store / ACTIVE, rotated)
    (store / ACTIVE).write_bytes(rotated.read_bytes()[:30])
    size = rotated.stat().st_size
    with rotated.open("ab") as file:
        file.write(b"\x40\0\0\0\0")
    (found,) = findings(run, store)
    assert (found["path"], found["offset"]) == (str(rotated), size)


def test_a_bundle_that_is_no_arrow_data_is_damage_though_its_checksum_is_right(run, store) -> None:
    from quiver.payload import EncodedBundle, Payload
    from quiver.wal.format import encode_bundle

    size = (store / ACTIVE).stat().st_size
    after = run("dump", store / ACTIVE, "--json").lines[-1]["wal_seq"] + 1
    bad = EncodedBundle(after, 0, (Payload(0, 0, bytes(32), 1, b"no arrow"),))
    odd = EncodedBundle(after + 1, 0, (Payload(7, 7, bytes(32), 1, b"x"),))
    none = EncodedBundle(after + 2, 0, ())
    with (store / ACTIVE).open("ab") as file:
        for bundle in (bad, odd, none):
            file.write(encode_bundle(bundle))
    found = findings(run, store)
    assert found[0]["offset"] == size
    assert [
        "Arrow" in found[0]["message"],
        found[1]["found"],
        "no slot" in found[2]["message"],
    ] == [
        True,
        "7",
        True,
    ]


def test_bundles_that_are_nowhere_are_told_as_recovery_does(run, store) -> None:
    rotated = store / f"{ACTIVE}.1"
    data = (store / ACTIVE).read_bytes()
    starts = entry_offsets(data)
    assert len(starts) >= 3
    rotated.write_bytes(data[: starts[-2]])
    (store / ACTIVE).write_bytes(data[:30] + data[starts[-1] :])
    (found,) = findings(run, store)
    assert (found["path"], found["offset"]) == (str(store / ACTIVE), 30)
    assert "1 bundles are missing" in found["message"]
    rotated.unlink()
    (found,) = findings(run, store)
    assert "are missing" in found["message"]
    (told,) = run("finalize", store, "--json").document["cores"][0]["damage"]
    assert (told["message"], told["offset"]) == (found["message"], found["offset"])


def test_a_damaged_sidecar_is_named(run, store, kit) -> None:
    kit.flip(store / SIDECAR, 20)
    (found,) = findings(run, store)
    assert found["path"] == str(store / SIDECAR)


@pytest.mark.parametrize("part", ["stream", "directory", "manifest", "footer", "trailer"])
def test_each_part_of_a_segment_is_checked(run, store, kit, part) -> None:
    path = store / SEGMENT
    size = path.stat().st_size
    footer = run("dump", path, "--json").lines[0]
    offset = {
        "stream": 200,
        "directory": footer["directory_offset"] + 100,
        "manifest": footer["manifest_offset"] + 100,
        "footer": footer["offset"] + 40,
        "trailer": size - 1,
    }[part]
    kit.flip(path, offset)
    (found,) = findings(run, store)
    assert (found["station"], found["path"]) == ("segments", str(path))
    assert 0 <= found["offset"] <= offset


def test_a_segment_cut_short_is_named(run, store) -> None:
    path = store / SEGMENT
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:20])
    (found,) = findings(run, store)
    assert found["path"] == str(path)


def test_segments_that_hold_the_same_bundles_are_damage(run, store) -> None:
    from contextlib import closing

    from quiver.disk import LocalDisk
    from quiver.manifest import StoreManifest
    from quiver.segment import SegmentLabel, SegmentReader, write_segment
    from quiver.wal import Replay

    with closing(LocalDisk(store)) as disk:
        manifest = StoreManifest.read(disk)
        replay = Replay(
            disk,
            "core_0/wal",
            digest=manifest.layout_digest,
            entry_bytes_max=1 << 28,
            quarantine="core_0/quarantine",
        )
        bundles = [bundle for bundle, _ in replay][:2]
        with SegmentReader.open(disk, SEGMENT) as reader:
            assert reader.info.wal_seq_last == 2
        for seq, store_id in ((1, manifest.store_id), (2, "f" * 32)):
            label = SegmentLabel(
                segment_seq=seq,
                store_id=store_id,
                core=0,
                slots=manifest.slots,
                wal_generation=1,
                wal_offset=30,
            )
            write_segment(disk, "core_0/segments", bundles, label=label)
    overlap, foreign = findings(run, store)
    assert "segments 0 and 1 overlap" in overlap["message"]
    assert overlap["path"].endswith("0000000000000001.qseg")
    assert "another store" in foreign["message"]


def test_each_damaged_record_of_ack_log_is_named(run, store, kit) -> None:
    kit.flip(store / ACKS, 64 * 2 + 9)
    (found,) = findings(run, store)
    assert (found["station"], found["path"], found["offset"]) == ("acks", str(store / ACKS), 128)


def test_an_unfinished_record_is_a_note(run, store) -> None:
    size = (store / ACKS).stat().st_size
    with (store / ACKS).open("ab") as file:
        file.write(b"\1" * 20)
    (note,) = findings(run, store, "note")
    assert (note["path"], note["offset"]) == (str(store / ACKS), size)


def checkpointed(store) -> None:
    with quiver.open(store, worker=False, config={"acks": {"max_size": 1}}) as opened:
        opened.append({"logs": pa.table({"n": [9]})})
        opened.finalize()
        opened.maintain()
    assert (store / CHECKPOINT).exists()


def test_a_damaged_or_lost_checkpoint_is_named(run, store, kit) -> None:
    checkpointed(store)
    assert findings(run, store) == []
    kit.flip(store / CHECKPOINT, 70)
    (found,) = findings(run, store)
    assert found["path"] == str(store / CHECKPOINT)
    (store / CHECKPOINT).unlink()
    (found,) = findings(run, store)
    assert found["path"] == str(store / CHECKPOINT)
    assert found["found"] == "none"


def test_a_lost_ack_log_is_named(run, store) -> None:
    checkpointed(store)
    (store / ACKS).unlink()
    (found,) = findings(run, store)
    assert found["path"] == str(store / ACKS)


def test_a_damaged_manifest_is_named_and_the_rest_is_still_checked(run, store, kit) -> None:
    kit.flip(store / "quiver.json", 0)
    kit.flip(store / ACKS, 80)
    assert [found["station"] for found in findings(run, store)] == ["store", "acks"]


def test_a_lost_manifest_of_a_store_with_data_is_damage(run, store) -> None:
    (store / "quiver.json").unlink()
    (found,) = findings(run, store)
    assert found["path"] == str(store / "quiver.json")


def test_what_is_not_of_the_store_is_a_note(run, store) -> None:
    for name in ("README", "core_0/x", "core_0/wal/y", "core_0/segments/z.qseg", "core_0/acks/w"):
        (store / name).write_text("")
    (store / "core_0/segments/0000000000000005.qseg.tmp").write_text("")
    notes = findings(run, store, "note")
    assert sorted(n["path"].removeprefix(f"{store}/") for n in notes) == [
        "README",
        "core_0/acks/w",
        "core_0/segments/0000000000000005.qseg.tmp",
        "core_0/segments/z.qseg",
        "core_0/wal/y",
        "core_0/x",
    ]
    (half,) = [note for note in notes if note["path"].endswith(".tmp")]
    assert "not finished" in half["message"]


def test_what_is_in_quarantine_is_noted_with_its_reason(run, store, kit) -> None:
    offsets = entry_offsets((store / ACTIVE).read_bytes())
    kit.flip(store / ACTIVE, offsets[3] + 100)
    kit.flip(store / ACKS, 80)
    with quiver.open(store, worker=False):
        pass
    notes = [n for n in findings(run, store, "note") if n["station"] == "quarantine"]
    assert len(notes) == 2
    texts = " ".join(note["message"] for note in notes)
    assert "the checksum of an entry is wrong" in texts
    assert "the frame fails its checksum" in texts


def test_check_changes_nothing_in_a_store_full_of_damage(run, store, kit) -> None:
    kit.flip(store / ACTIVE, 100)
    kit.flip(store / ACKS, 80)
    kit.flip(store / SEGMENT, 200)
    kit.flip(store / SIDECAR, 20)
    with (store / ACTIVE).open("ab") as file:
        file.write(b"torn")
    before = kit.tree_digest(store)
    assert run("check", store).code == 1
    assert run("check", store, "--json").code == 1
    assert kit.tree_digest(store) == before


def test_the_lines_for_people_say_what_the_json_says(run, store, kit) -> None:
    kit.flip(store / ACTIVE, 100)
    kit.flip(store / ACKS, 80)
    found = findings(run, store)
    lines = run("check", store).out.splitlines()
    assert len(lines) == len(found) + 1
    for line, finding in zip(lines, found, strict=False):
        assert line.startswith(f"damage  {finding['path']} at byte {finding['offset']:,}: ")
        assert finding["message"] in line
        assert json.dumps(finding["expected"]).strip('"') in line
