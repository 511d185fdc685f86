"""A folder of the Rust Quiver is scanned as it is."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
import upstream_kit as kit

import quiver
from quiver.disk import LocalDisk
from quiver.errors import DamageError, InputError, MissingError


@pytest.fixture
def folder(tmp_path) -> kit.Folder:
    return kit.Folder(LocalDisk(tmp_path))


def bodies(scan: quiver.Scan) -> list[str]:
    return scan.to_table()["body"].to_pylist()


@pytest.mark.parametrize("slot", [30, "slot_30"])
def test_a_slot_is_read_by_its_id_in_order_of_segments(folder, tmp_path, slot) -> None:
    folder.add_segment(12, {30: kit.logs("c")})
    folder.add_segment(3, {31: kit.logs("other")}, {30: kit.logs("a", "b")})
    folder.add_log(kit.wal_entry(1, [(30, kit.logs("open"))]))
    scan = quiver.scan(tmp_path, slot=slot)
    assert bodies(scan) == ["a", "b", "c"]
    assert scan.count_rows() == 3
    assert [(ref.core, ref.segment_seq) for ref in scan.segments] == [(0, 3), (0, 12)]
    assert bodies(pickle.loads(pickle.dumps(scan))) == ["a", "b", "c"]
    folder.add_segment(13, {30: kit.logs("d")})
    assert bodies(scan.refresh()) == ["a", "b", "c", "d"]


def test_schemas_that_drift_are_united_and_columns_may_be_chosen(folder, tmp_path) -> None:
    more = kit.logs("b").append_column("extra", pa.array([1.5]))
    folder.add_segment(0, {30: kit.logs("a")}, {30: more})
    assert quiver.scan(tmp_path, slot=30).schema.names == ["body", "n", "extra"]
    chosen = quiver.scan(tmp_path, slot=30, columns=["extra"]).to_table()
    assert chosen.to_pydict() == {"extra": [None, 1.5]}


def test_all_cores_are_read_by_number(tmp_path) -> None:
    for number in (10, 2):
        disk = LocalDisk(tmp_path)
        kit.save(disk, f"core_{number}/quiver.sub.a", b"")
        kit.Folder(disk, f"core_{number}").add_segment(0, {30: kit.logs(f"core {number}")})
    assert bodies(quiver.scan(tmp_path, slot=30)) == ["core 2", "core 10"]


def test_what_is_no_slot_there_is_refused(folder, tmp_path) -> None:
    folder.add_segment(0, {30: kit.logs("a")})
    for slot in (64, "logs", None):
        with pytest.raises(InputError, match="is no slot of a folder that the Rust Quiver wrote"):
            quiver.scan(tmp_path, slot=slot)
    with pytest.raises(MissingError, match="no finalized segment"):
        quiver.scan(tmp_path, slot=5).to_table()


def test_a_torn_segment_is_told_with_its_path(folder, tmp_path) -> None:
    path = folder.add_segment(0, {30: kit.logs("a")})
    data = (tmp_path / path).read_bytes()
    (tmp_path / path).write_bytes(data[:-20])
    with pytest.raises(DamageError) as caught:
        quiver.scan(tmp_path, slot=30).to_table()
    assert caught.value.path == str(tmp_path / path)


def test_a_folder_that_is_neither_is_missing(tmp_path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MissingError, match="no Quiver store"):
        quiver.scan(tmp_path, slot="a")
    with pytest.raises(InputError, match="3 is no name"):
        quiver.scan(tmp_path, slot=3)


def test_nothing_is_changed_there(folder, tmp_path) -> None:
    folder.add_segment(0, {30: kit.logs("a")})
    before = {p: (p.stat().st_mtime_ns, p.stat().st_mode) for p in tmp_path.rglob("*")}
    bodies(quiver.scan(tmp_path, slot=30))
    assert {p: (p.stat().st_mtime_ns, p.stat().st_mode) for p in tmp_path.rglob("*")} == before


def test_what_is_only_in_the_log_there_is_read_if_asked_for(folder, tmp_path) -> None:
    folder.add_segment(0, {30: kit.logs("a")})
    folder.add_log(
        kit.wal_entry(1, [(30, kit.logs("b")), (31, kit.logs("x"))]),
        kit.wal_entry(2, [(31, kit.logs("y"))]),
        kit.wal_entry(3, [(30, kit.logs("c"))]),
    )
    assert bodies(quiver.scan(tmp_path, slot=30)) == ["a"]
    scan = quiver.scan(tmp_path, slot=30, include_open=True)
    assert bodies(scan) == ["a", "b", "c"]
    assert bodies(pickle.loads(pickle.dumps(scan))) == ["a", "b", "c"]
    assert len(scan.open_bundles) == 2
