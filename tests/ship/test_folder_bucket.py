"""What a bucket in a folder keeps beyond what every bucket has to keep."""

from __future__ import annotations

import os
import pickle
import shutil
import stat

import pytest

from quiver.disk.aside import ASIDE, FORGOTTEN_NS
from quiver.errors import CapacityError, InputError, MissingError, QuiverError, StorageError
from quiver.ship.objects import Conflict, FolderBucket, UnclearError
from quiver.ship.objects.folder import WORK
from quiver.testing import ManualClock, MemoryDisk, crash_images


def test_reading_makes_nothing_and_a_put_makes_the_folder(tmp_path):
    folder = tmp_path / "a" / "b"
    bucket = FolderBucket(str(folder))
    assert list(bucket.list("")) == []
    assert bucket.delete(["x"]) == []
    with pytest.raises(MissingError, match="there is no x"):
        bucket.get("x")
    assert list(tmp_path.iterdir()) == []
    bucket.put("c/d.batch", [b"1", b"2"])
    assert (folder / "c" / "d.batch").read_bytes() == b"12"
    assert stat.S_IMODE((folder / "c" / "d.batch").stat().st_mode) == 0o600
    assert bytes(pickle.loads(pickle.dumps(bucket)).get("c/d.batch").data) == b"12"


def test_what_somebody_else_put_there_can_be_read_and_deleted(tmp_path):
    (tmp_path / "x").write_bytes(b"1")
    bucket = FolderBucket(str(tmp_path))
    assert [seen.key for seen in bucket.list("")] == ["x"]
    assert bytes(bucket.get("x").data) == b"1"
    assert bucket.delete(["x"]) == ["x"]  # There is no lock yet: nothing is changed without.
    with pytest.raises(Conflict):
        bucket.put_if("x", b"2", None)
    bucket.put_if("x", b"2", bucket.get("x").tag)
    assert bucket.delete(["x"]) == []


def test_a_change_behind_our_back_is_seen_though_time_and_size_are_the_same(tmp_path):
    bucket = FolderBucket(str(tmp_path))
    tag = bucket.put("x", b"1")
    before = (tmp_path / "x").stat()
    with (tmp_path / "x").open("r+b") as file:
        file.write(b"2")
    os.utime(tmp_path / "x", ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(Conflict):
        bucket.put_if("x", b"3", tag)
    assert bucket.get_if_changed("x", tag) is not None


@pytest.mark.parametrize(
    "key", [f"{WORK}/lock", WORK, f"/{WORK}/x", f"a/{ASIDE}1.tmp", "../x", "/../x", "a/../../x"]
)
def test_no_key_leads_out_of_the_folder_or_to_the_lock(tmp_path, key):
    bucket = FolderBucket(str(tmp_path / "q"))
    bucket.put("x", b"1")
    for act in (
        lambda: bucket.get(key),
        lambda: bucket.put(key, b""),
        lambda: bucket.put_if(key, b"", None),
        lambda: bucket.delete([key]),
    ):
        with pytest.raises(InputError):
            act()
    assert list((tmp_path / "q" / WORK).iterdir()) == [tmp_path / "q" / WORK / "lock"]


def test_links_are_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"s")
    root = tmp_path / "q"
    bucket = FolderBucket(str(root))
    bucket.put("x", b"1")
    (root / "way").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    for key in ("way/secret", "file"):
        for act in (
            lambda key=key: bucket.get(key),
            lambda key=key: bucket.put_if(key, b"", None),
        ):
            with pytest.raises(StorageError):
                act()
    with pytest.raises(StorageError):
        bucket.put("way/new", b"2")
    assert bucket.delete(["way/secret"]) == ["way/secret"]
    with pytest.raises(StorageError):
        list(bucket.list("way/"))
    assert [seen.key for seen in bucket.list("")] == ["x"]
    bucket.put("file", b"2")  # Takes the place of the link, and not of what it points to.
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]
    assert (outside / "secret").read_bytes() == b"s"
    assert bytes(bucket.get("file").data) == b"2"


def test_what_the_dead_left_is_not_listed_and_removed_after_a_day(tmp_path):
    clock = ManualClock()
    FolderBucket(str(tmp_path)).put("x", b"1")
    left = tmp_path / f"{ASIDE}0123.tmp"
    left.write_bytes(b"half")
    os.utime(left, ns=(clock.wall_ns(), clock.wall_ns()))
    assert [seen.key for seen in FolderBucket(str(tmp_path)).list("")] == ["x"]
    FolderBucket(str(tmp_path), clock=clock).put("y", b"1")
    assert left.exists()
    clock.jump_to(clock.wall_ns() + FORGOTTEN_NS + 1)
    FolderBucket(str(tmp_path), clock=clock).put("y", b"1")
    assert not left.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [WORK, "x", "y"]


def test_a_file_that_was_removed_under_its_writer_fails_the_put(tmp_path, monkeypatch):
    bucket = FolderBucket(str(tmp_path))
    bucket.put("x", b"1")
    locked = FolderBucket._locked

    def slow(self, disk):
        for file in tmp_path.glob(f"{ASIDE}*"):
            file.unlink()
        return locked(self, disk)

    monkeypatch.setattr(FolderBucket, "_locked", slow)
    with pytest.raises(StorageError, match="somebody removed") as refused:
        bucket.put("x", b"2")
    assert not isinstance(refused.value, MissingError)
    monkeypatch.undo()
    assert bytes(bucket.get("x").data) == b"1"
    bucket.put("x", b"2")


@pytest.mark.parametrize("act", ["put", "put_if"])
@pytest.mark.parametrize(
    ("gone", "is_remade"), [("q/a", False), ("q", False), ("q", True), (f"q/{WORK}", False)]
)
def test_a_folder_that_somebody_removed_fails_one_put_and_is_made_again(
    tmp_path, act, gone, is_remade
):
    bucket = FolderBucket(str(tmp_path / "q"))
    options = (None,) if act == "put_if" else ()
    bucket.put("a/before", b"1")
    shutil.rmtree(tmp_path / gone)
    if is_remade:
        (tmp_path / gone).mkdir()
    with pytest.raises(StorageError, match="somebody removed") as refused:
        getattr(bucket, act)("a/x", b"2", *options)
    assert not isinstance(refused.value, MissingError)
    getattr(bucket, act)("a/x", b"2", *options)
    assert (tmp_path / "q" / "a" / "x").read_bytes() == b"2"
    assert bytes(bucket.get("a/x").data) == b"2"


def test_who_reads_sees_a_folder_that_was_made_in_the_place_of_his(tmp_path):
    folder = tmp_path / "q"
    FolderBucket(str(folder)).put("x", b"1")
    bucket = FolderBucket(str(folder))
    assert bytes(bucket.get("x").data) == b"1"
    folder.rename(tmp_path / "old")
    (tmp_path / "old" / "x").unlink()
    FolderBucket(str(folder)).put("x", b"2")
    with pytest.raises(MissingError):
        bucket.get("x")
    assert bytes(bucket.get("x").data) == b"2"


def test_a_full_disk_leaves_the_old_object_and_nothing_else():
    disk = MemoryDisk()
    bucket = FolderBucket("/queue", disk=disk)
    tag = bucket.put("x", b"1")
    names = [entry.name for entry in disk.list_dir("")]
    real = disk.create

    def refuse(path, **named):
        raise CapacityError("full")

    disk.create = refuse
    for act in (lambda: bucket.put("x", b"2"), lambda: bucket.put_if("x", b"2", tag)):
        with pytest.raises(CapacityError):
            act()
    disk.create = real
    assert [entry.name for entry in disk.list_dir("")] == names
    assert bucket.get("x").tag == tag


def test_a_name_that_may_not_survive_is_unclear():
    disk = MemoryDisk()
    bucket = FolderBucket("/queue", disk=disk)
    tag = bucket.put("x", b"1")
    real = disk.sync_dir

    def refuse(path):
        raise StorageError("no sync")

    disk.sync_dir = refuse
    with pytest.raises(UnclearError):
        bucket.put_if("x", b"2", tag)
    with pytest.raises(QuiverError):  # Nor is it shown to who reads.
        bucket.get("x")
    disk.sync_dir = real
    assert bytes(bucket.get("x").data) == b"2"


def test_after_a_power_cut_there_is_what_was_acknowledged_or_what_came_after():
    disk = MemoryDisk()
    bucket = FolderBucket("/queue", disk=disk)
    promised = []  # How many acts there were, and what was promised then.
    tag = None
    for number in range(4):
        tag = bucket.put_if("deep/manifest", b"%d" % number * 5000, tag)
        bucket.put(f"deep/{number}.batch", b"b" * 5000)
        promised.append((len(disk.history.ops), number))
    seen = set()
    for image in crash_images(disk.history, model="posix", budget=1500):
        after = FolderBucket("/queue", disk=image.disk())
        least = max((number for ops, number in promised if ops <= image.point), default=-1)
        try:
            found = bytes(after.get("deep/manifest").data)
        except MissingError:
            assert least == -1
            number = -1
        else:
            number = int(found[:1])
            assert found == b"%d" % number * 5000
        assert least <= number <= least + 1
        for each in range(least + 1):
            assert bytes(after.get(f"deep/{each}.batch").data) == b"b" * 5000
        keys = {one.key for one in after.list("")}
        assert all(key.endswith((".batch", "manifest")) for key in keys)
        after.put_if("new", b"1", None)
        seen.add((least, number))
    assert {(-1, -1), (0, 0), (0, 1), (2, 2), (2, 3)} <= seen


def test_what_was_read_is_there_after_a_power_cut():
    """A reader sees a new name before its writer has synced it, and must not act on it alone."""
    disk = MemoryDisk()
    writer = FolderBucket("/queue", disk=disk)
    tag = writer.put("manifest", b"1")
    real = disk.sync_dir
    disk.sync_dir = lambda path: None  # The writer is killed before it comes to that.
    writer.put_if("manifest", b"2", tag)
    disk.sync_dir = real
    found = FolderBucket("/queue", disk=disk).get("manifest")
    assert bytes(found.data) == b"2"
    images = crash_images(disk.history, model="posix", points=[len(disk.history.ops)])
    for image in images:
        after = FolderBucket("/queue", disk=image.disk())
        assert bytes(after.get("manifest").data) == b"2"
