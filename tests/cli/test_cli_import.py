"""``import``: a folder of the Rust Quiver becomes a store, rehearsed first, and never changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import upstream_kit

import quiver
from quiver.disk import LocalDisk


def entry(number: int) -> bytes:
    rows = [(30, upstream_kit.logs(f"row {number}")), (31, upstream_kit.logs(f"attrs {number}"))]
    return upstream_kit.wal_entry(number, rows, at=number)


def write(path: Path, core: str = "") -> upstream_kit.Folder:
    folder = upstream_kit.Folder(LocalDisk(path, create=True), core)
    if core:
        folder.disk.make_dir(core)
    folder.add_segment(0, {30: upstream_kit.logs("a", "b")}, {30: upstream_kit.logs("c")})
    folder.add_log(entry(1), entry(2))
    folder.set_cursor(len(entry(1)))
    folder.set_progress("durable-buffer", (0, 2, {0}))
    return folder


def taken(store: quiver.Store, slot: str) -> list[list[str]]:
    found = []
    uploads = store.subscribe("durable-buffer")
    while (handle := uploads.poll()) is not None:
        with handle:
            found.append(handle[slot]["body"].to_pylist())
    return found


@pytest.fixture
def source(tmp_path) -> Path:
    write(tmp_path / "source")
    return tmp_path / "source"


def test_a_rehearsal_says_what_there_is_and_changes_nothing(run, source, kit) -> None:
    before = kit.tree_digest(source.parent)
    result = run("import", source, source.parent / "store")
    assert result.code == 0
    assert result.out.splitlines() == [
        "slots       slot_30 (id 30), slot_31 (id 31)",
        "segments    1 segment, 2 bundles, 3 rows",
        "log         1 bundle in no segment, 2 rows",
        "subscriber  durable-buffer: 1 resolved, 2 open",
        f"nothing was changed: --apply makes {source.parent / 'store'}",
    ]
    assert "the time at which their file was written" in result.err
    assert kit.tree_digest(source.parent) == before


def test_apply_makes_a_store_that_check_scan_and_subscribers_find_right(run, source, kit) -> None:
    before = kit.tree_digest(source)
    store = source.parent / "new" / "store"
    result = run("import", source, store, "--slot", "logs=30", "--apply", "-q")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[-1] == f"imported into {store}"
    assert kit.tree_digest(source) == before
    assert run("check", store).out.startswith("OK: ")
    logs = quiver.scan(store, slot="logs").to_table()
    assert logs["body"].to_pylist() == ["a", "b", "c", "row 2"]
    assert quiver.scan(store, slot="slot_31").count_rows() == 1
    with quiver.open(store, worker=False) as opened:
        assert taken(opened, "logs") == [["c"], ["row 2"]]


def test_several_cores_stay_several_cores(run, tmp_path) -> None:
    for number in (0, 3):
        write(tmp_path / "source", f"core_{number}")
    result = run("import", tmp_path / "source", tmp_path / "store", "--apply")
    assert result.code == 0
    assert [line.split()[1] for line in result.out.splitlines() if line.startswith("core")] == [
        "0",
        "3",
    ]
    assert run("check", tmp_path / "store").code == 0
    assert quiver.scan(tmp_path / "store", slot="slot_30").count_rows() == 8
    with quiver.open(tmp_path / "store", core=3, worker=False) as opened:
        assert taken(opened, "slot_30") == [["c"], ["row 2"]]


def test_damage_is_told_and_the_rest_is_taken_unless_that_is_refused(run, source, kit) -> None:
    kit.flip(source / "segments/0000000000000000.qseg", 77)
    store = source.parent / "store"
    result = run("import", source, store, "--strict", "--apply")
    assert (result.code, result.out) == (9, "")
    assert "0000000000000000.qseg" in result.err
    assert not store.exists()
    result = run("import", source, store, "--apply")
    assert result.code == 9
    assert "damaged     a segment's checksum is wrong in" in result.out
    assert run("check", store).code == 0
    assert (store / "core_0/quarantine/0000000000000000.qseg").exists()
    assert quiver.scan(store, slot="slot_30").count_rows() == 1


def test_what_may_come_twice_is_told(run, source) -> None:
    (source / "wal/quiver.wal.cursor").write_bytes(upstream_kit.cursor(3))
    result = run("import", source, source.parent / "store")
    assert result.code == 0
    assert "perhaps twice  the cursor names no place where an entry begins" in result.out
    log = source / "wal/quiver.wal"
    log.write_bytes(log.read_bytes()[:-1])
    assert "cut off        an append that was not finished" in (
        run("import", source, source.parent / "store").out
    )


def test_another_name_of_a_subscriber_is_told(run, source) -> None:
    (source / "quiver.sub._x").write_bytes(upstream_kit.progress([]))
    result = run("import", source, source.parent / "store")
    assert "subscriber  _x, from now on upstream_x: 0 resolved, 3 open" in result.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--slot", "logs"], "--slot 'logs' lacks the id of the slot"),
        (["--slot", "logs=x"], "--slot 'logs=x' lacks the id of the slot"),
        (["--slot", "a=30", "--slot", "b=30"], "--slot names the id 30 twice"),
        (["--slot", "a=30", "--slot", "a=31"], "is in the table twice"),
        (["--slot", "slot_31=30"], "is in the table twice"),
        (["--slot", "two words=30"], "slot name 'two words' is not allowed"),
        (["--slot", "a=64"], "is not within 0..63"),
        (["--slot", "a=" + "9" * 5000], "is not within 0..63"),
    ],
)
def test_options_that_cannot_be_are_exit_code_2(run, source, kit, options, message) -> None:
    before = kit.tree_digest(source.parent)
    result = run("import", source, source.parent / "store", *options, "--apply")
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert kit.tree_digest(source.parent) == before


def test_what_is_no_such_folder_or_no_new_store_is_refused(run, source, store, tmp_path) -> None:
    (tmp_path / "nothing").mkdir()
    for other, code, text in (
        (tmp_path / "absent", 3, "there is no folder"),
        (tmp_path / "nothing", 3, "nothing in"),
        (store, 2, "is a store of Quiver's own"),
        (source / "wal/quiver.wal", 3, "is not a folder"),
    ):
        result = run("import", other, tmp_path / "new", "--apply")
        assert (result.code, result.out) == (code, "")
        assert text in result.err
    for target, text in (
        (store, "is a Quiver store already"),
        (tmp_path, "is not empty"),
        (source, "where nothing is ever changed"),
        (source / "store", "where nothing is ever changed"),
    ):
        result = run("import", source, target)
        assert (result.code, result.out) == (2, "")
        assert text in result.err
    assert sorted(os.listdir(source)) == ["quiver.sub.durable-buffer", "segments", "wal"]


def test_a_link_into_the_source_is_seen_through(run, source, tmp_path) -> None:
    (tmp_path / "link").symlink_to(source)
    result = run("import", source, tmp_path / "link" / "store", "--apply")
    assert result.code == 2
    assert "where nothing is ever changed" in result.err


def test_without_a_slot_that_was_ever_filled_one_must_be_named(run, tmp_path) -> None:
    folder = upstream_kit.Folder(LocalDisk(tmp_path / "source", create=True))
    folder.add_log()
    result = run("import", tmp_path / "source", tmp_path / "store", "--apply")
    assert result.code == 2
    assert "hint: name them: --slot logs=30" in result.err
    result = run("import", tmp_path / "source", tmp_path / "store", "--slot", "logs=30", "--apply")
    assert result.code == 0
    with quiver.open(tmp_path / "store", slots={"logs": 30}, worker=False) as opened:
        assert opened.append({"logs": upstream_kit.logs("first")}) == 0


def test_a_newer_format_is_exit_code_5(run, source) -> None:
    (source / "wal/quiver.wal").write_bytes(upstream_kit.wal_header(version=2))
    result = run("import", source, source.parent / "store")
    assert result.code == 5
    assert str(source / "wal/quiver.wal") in result.err
