"""A folder of the Rust Quiver is recognised, listed and read; a store of our own is none."""

from __future__ import annotations

from pathlib import Path

import pytest
import upstream_kit as kit
from store_kit import SLOTS, bundle, on_memory

import quiver
from quiver.disk import LocalDisk
from quiver.errors import DamagedEntry, InputError, TornEntry, VersionError
from quiver.testing import MemoryDisk
from quiver.upstream import UpstreamFolder, find
from quiver.upstream import folder as folder_module

GOLDEN = Path(__file__).parents[1] / "golden" / "v1" / "upstream"


def found(disk) -> UpstreamFolder:
    folder = find(disk)
    assert folder is not None
    return folder


def test_a_data_folder_is_its_one_core(disk, folder) -> None:
    folder.add_segment(3, {30: kit.logs("a")})
    folder.add_segment(12, {30: kit.logs("b")})
    folder.save("segments/0000000000000013.qseg.tmp", b"")
    folder.save("segments/13.qseg", b"")
    core, *others = found(disk).cores
    assert (core.number, core.path, others) == (0, "", [])
    assert [(s.core, s.segment_seq, s.path) for s in found(disk).segments] == [
        (0, 3, "segments/0000000000000003.qseg"),
        (0, 12, "segments/0000000000000012.qseg"),
    ]
    assert all(s.file_bytes == disk.stat(s.path).size for s in found(disk).segments)


def test_cores_of_a_durable_buffer_are_read_in_order_of_their_numbers(disk) -> None:
    for number in (0, 10, 2):
        core = kit.Folder(disk, f"core_{number}")
        core.add_segment(7, {30: kit.logs(f"of {number}")})
        core.add_log(kit.wal_entry(1, [(30, kit.logs("open"))]))
        core.set_cursor(0)
    kit.save(disk, "core_07/segments/0000000000000000.qseg", b"")
    kit.save(disk, "notes/segments/0000000000000000.qseg", b"")
    kit.save(disk, "core_5/README", b"")
    kit.save(disk, "core_6", b"")
    folder = found(disk)
    assert [core.number for core in folder.cores] == [0, 2, 10]
    assert [(s.core, s.path.split("/")[0]) for s in folder.segments] == [
        (0, "core_0"),
        (2, "core_2"),
        (10, "core_10"),
    ]
    assert [number for number, _ in folder.open_bundles()] == [0, 2, 10]


@pytest.mark.parametrize(
    "name",
    [
        "wal/quiver.wal",
        "wal/quiver.wal.3",
        "wal/quiver.wal.cursor",
        "segments/0000000000000000.qseg",
        "quiver.sub.spark",
    ],
)
def test_one_file_in_its_place_is_enough_whatever_is_in_it(disk, name) -> None:
    kit.save(disk, name, b"")
    assert found(disk).cores[0].path == ""
    inside = MemoryDisk()
    kit.save(inside, f"core_4/{name}", b"")
    assert [core.number for core in found(inside).cores] == [4]


@pytest.mark.parametrize(
    "name",
    [
        "quiver.wal",
        "wal/other",
        "wal",
        "segments/0.qseg",
        "quiver.sub.two words",
        "quiver.sub.a.tmp",
        "core_1/file",
    ],
)
def test_anything_else_is_no_such_folder(disk, name) -> None:
    assert find(disk) is None
    kit.save(disk, name, b"")
    assert find(disk) is None


@pytest.mark.parametrize("gone", ["", "quiver.json"])
def test_a_store_of_our_own_is_none_and_neither_is_a_core_of_one(tmp_path, gone) -> None:
    with quiver.open(tmp_path / "store", slots=SLOTS, worker=False) as store:
        store.append(bundle(0))
    if gone:
        (tmp_path / "store" / gone).unlink()
    for path in (tmp_path / "store", tmp_path / "store" / "core_0"):
        assert find(LocalDisk(path)) is None


def test_a_half_store_of_our_own_is_none(disk) -> None:
    store = on_memory(disk)
    store.append(bundle(0))
    disk.unlink("quiver.json")
    disk.unlink("quiver.json.lock")
    assert find(disk) is None


def test_links_are_not_followed(tmp_path) -> None:
    disk = LocalDisk(tmp_path)
    kit.save(disk, "elsewhere/0000000000000000.qseg", b"")
    (tmp_path / "segments").symlink_to("elsewhere")
    assert find(disk) is None


@pytest.mark.parametrize(
    ("slot", "slot_id"), [(30, 30), ("slot_30", 30), ("slot_0", 0), (63, 63), ("slot_63", 63)]
)
def test_a_slot_is_an_id_or_a_name_made_of_it(slot, slot_id) -> None:
    assert UpstreamFolder.slot_id(slot) == slot_id


@pytest.mark.parametrize("slot", [64, -1, "slot_64", "slot_030", "logs", "30", True, None, 1.0, ""])
def test_anything_else_is_no_slot(slot) -> None:
    with pytest.raises(
        InputError, match="no slot of a folder that the Rust Quiver wrote"
    ) as caught:
        UpstreamFolder.slot_id(slot)
    assert 'slot="slot_30"' in caught.value.hint


def test_subscribers_are_read_or_told_why_not(disk, folder) -> None:
    folder.set_progress("spark-1", (0, 3, {0, 2}))
    folder.save("quiver.sub.broken", kit.progress([])[:-1] + b"\0")
    folder.save("quiver.sub.torn", b"QUIV")
    folder.save("quiver.sub.spark-1.tmp", b"")
    broken, spark, torn = found(disk).cores[0].subscribers()
    assert (broken.name, broken.progress, type(broken.damage)) == ("broken", None, DamagedEntry)
    assert broken.damage.path == "memory:/quiver.sub.broken"
    assert (torn.name, type(torn.damage)) == ("torn", TornEntry)
    assert (spark.name, spark.path, spark.damage) == ("spark-1", "quiver.sub.spark-1", None)
    assert spark.progress.segments == ((0, 3, ((0, 1), (2, 1))),)


def test_a_progress_file_beyond_the_limit_is_not_read(disk, folder, monkeypatch) -> None:
    data = kit.progress([(0, 64, ())])
    folder.save("quiver.sub.a", data)
    monkeypatch.setattr(folder_module, "PROGRESS_BYTES_MAX", len(data) - 1)
    (subscriber,) = found(disk).cores[0].subscribers()
    assert "longer than one can be" in subscriber.damage.message
    monkeypatch.setattr(folder_module, "PROGRESS_BYTES_MAX", len(data))
    assert found(disk).cores[0].subscribers()[0].damage is None


def test_progress_of_another_version_is_refused_with_its_path(disk, folder) -> None:
    folder.save("quiver.sub.a", kit.progress([], version=3))
    with pytest.raises(VersionError, match=r"memory:/quiver\.sub\.a: the progress file"):
        found(disk).cores[0].subscribers()


def test_whoever_writes_meanwhile_shows(tmp_path) -> None:
    disk = LocalDisk(tmp_path)
    folder = kit.Folder(disk)
    folder.add_segment(0, {30: kit.logs("a")})
    folder.add_log()
    (core,) = found(disk).cores
    before = core.state()
    assert core.state() == before
    with (tmp_path / "wal/quiver.wal").open("ab") as file:
        file.write(b"more")
    assert core.state() != before
    (segment,) = core.segments()
    assert segment.modified_ns == (tmp_path / segment.path).stat().st_mtime_ns


def test_the_golden_folder_reads_as_the_page_says() -> None:
    folder = found(LocalDisk(GOLDEN))
    (core,) = folder.cores
    ((number, logged),) = folder.open_bundles()
    assert (number, logged.offset) == (0, 0x81)
    assert [payload.slot_id for payload in logged.bundle.payloads] == [30, 31]
    log = core.log()
    assert (log.damage, log.may_repeat, log.torn) == ([], "", None)
    (spark,) = core.subscribers()
    assert spark.name == "spark"
    assert spark.progress.segments == ((5, 65, ((0, 2), (64, 1))),)
    assert spark.progress.oldest_incomplete == 5
    assert core.segments() == ()
