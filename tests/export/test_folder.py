"""A folder of exports belongs to one subscriber of one store, and one process at a time."""

from __future__ import annotations

import os

import pytest
from export_kit import NAME, STORE, FakeSource, export, exported, numbered

import quiver
from quiver.disk import LocalDisk, replace
from quiver.errors import InputError, LockedError
from quiver.export import ExportFolder
from quiver.testing import MemoryDisk

OWNER = ".quiver-export.json"


@pytest.fixture
def used() -> MemoryDisk:
    disk = MemoryDisk()
    export(disk, FakeSource(numbered(2)))
    return disk


def take(disk, store_id: str = STORE, subscriber: str = NAME) -> None:
    with ExportFolder.open(disk, store_id=store_id, subscriber=subscriber):
        pass


def test_a_second_exporter_is_told_who_has_the_folder(tmp_path) -> None:
    disk = LocalDisk(tmp_path)
    expected = f"{tmp_path} is being exported to by process {os.getpid()}"
    with (
        ExportFolder.open(disk, store_id=STORE, subscriber=NAME),
        pytest.raises(LockedError, match=expected) as caught,
    ):
        take(disk)
    assert caught.value.pid == os.getpid()
    assert "one exporter at a time" in caught.value.hint
    take(disk)


def test_what_another_store_or_subscriber_exported_is_no_sign_that_ours_is_done(used) -> None:
    with pytest.raises(InputError, match=f"has what 'lake' exported of store {STORE}, not"):
        take(used, store_id="another")
    with pytest.raises(InputError, match="not 'other' of"):
        take(used, subscriber="other")
    take(used)


def test_exports_without_an_owner_are_not_trusted(used) -> None:
    used.unlink(OWNER)
    with pytest.raises(InputError, match="of which store are they"):
        take(used)


@pytest.mark.parametrize("text", [b"", b"[]", b'"x"', b"{}", b"\xff", b'{"store_id": "a store"}'])
def test_an_owner_that_cannot_be_read_is_refused(used, text) -> None:
    replace(used, OWNER, text)
    with pytest.raises(InputError, match="does not say of which store"):
        take(used)


def test_a_store_is_no_folder_for_exports(tmp_path) -> None:
    quiver.open(tmp_path, slots=["logs"], worker=False).close()
    with pytest.raises(InputError, match="is a store"):
        take(LocalDisk(tmp_path))


def test_leftovers_go_and_files_of_others_stay(used) -> None:
    leftovers = [".quiver-export.rows.tmp", f"{OWNER}.tmp"]
    others = ["notes.txt", "rows.tmp", ".tmp", "logs.parquet"]
    for name in leftovers + others:
        replace(used, name, b"x")
    used.make_dir("folder")
    export(used, FakeSource(numbered(3)))
    names = {entry.name for entry in used.list_dir("")}
    assert {*others, "folder"} <= names
    assert not names & set(leftovers)
    assert len(exported(used)) == 2


def test_names_are_durable_before_they_are_trusted(used) -> None:
    before = used.act_count
    fault = used.fail(lambda act: type(act).__name__ == "SyncDir")
    with pytest.raises(OSError, match="cannot sync"):
        take(used)
    assert fault.hits == 1
    assert used.act_count > before
    take(used)
