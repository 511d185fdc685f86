"""``quiver.json``: which formats are taken, which are too new, and which are no format at all."""

from __future__ import annotations

import json

import pytest

from quiver.disk import LocalDisk
from quiver.errors import DamagedEntry, MissingError, VersionError
from quiver.manifest import FORMAT_VERSION, StoreManifest
from quiver.slots import SlotTable


@pytest.fixture
def disk(tmp_path):
    made = LocalDisk(tmp_path)
    StoreManifest.new(SlotTable.of(["a"])).write(made)
    yield made
    made.close()


def set_format(disk, value: object) -> None:
    path = f"{disk.root}/quiver.json"
    with open(path, encoding="utf-8") as file:
        fields = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**fields, "format": value}, file)


def test_what_was_written_is_read(disk) -> None:
    set_format(disk, FORMAT_VERSION)
    assert [slot.name for slot in StoreManifest.read(disk).slots] == ["a"]


@pytest.mark.parametrize("value", [0, -1, True, False, "1", "2", 1.0, None, [1]])
def test_what_is_no_format_is_damage_of_the_file(disk, value) -> None:
    set_format(disk, value)
    with pytest.raises(DamagedEntry) as caught:
        StoreManifest.read(disk)
    assert f"its format is {json.dumps(value)}, which is no number above 0" in str(caught.value)
    assert caught.value.path == f"{disk.root}/quiver.json"
    assert "restore quiver.json" in caught.value.hint


def test_a_newer_format_is_a_version_error(disk) -> None:
    set_format(disk, FORMAT_VERSION + 1)
    with pytest.raises(VersionError, match="the store has format 2, this Quiver reads 1"):
        StoreManifest.read(disk)


def test_without_a_manifest_both_ways_to_make_a_store_are_named(tmp_path) -> None:
    with pytest.raises(MissingError) as caught:
        StoreManifest.read(LocalDisk(tmp_path))
    assert "quiver.open(path, slots=[...])" in caught.value.hint
    assert "quiver ingest" in caught.value.hint


def test_what_a_migration_replaces_is_kept_with_the_new_table(disk) -> None:
    old, new = SlotTable.of(["a"]), SlotTable.of(["a", "b"])
    manifest = StoreManifest("0" * 32, new, replaces=old.digest())
    manifest.write(disk)
    assert StoreManifest.read(disk) == manifest
    StoreManifest("0" * 32, new).write(disk)
    assert StoreManifest.read(disk).replaces is None


@pytest.mark.parametrize("value", ["", "0" * 31, "G" * 32, 7, ["0" * 32]])
def test_what_replaces_no_layout_is_damage(disk, value) -> None:
    path = f"{disk.root}/quiver.json"
    with open(path, encoding="utf-8") as file:
        fields = json.load(file)
    del fields["crc32c"]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**fields, "replaces": value}, file)
    with pytest.raises(DamagedEntry, match="what it replaces is not 32 hexadecimal digits"):
        StoreManifest.read(disk)


def test_other_slots_are_refused_with_a_comparison_and_the_way_to_them(disk) -> None:
    with pytest.raises(VersionError) as caught:
        StoreManifest.read(disk).check_slots(SlotTable.of(["a", "b"]))
    assert caught.value.message.endswith("; only asked for: b (id 1)")
    assert caught.value.hint.endswith("change the store first: quiver migrate DIR --slot b=1")
    with pytest.raises(VersionError) as caught:
        StoreManifest.read(disk).check_slots(SlotTable.of({"a": 3}))
    assert caught.value.hint == "leave slots= out to open it as it is"
