"""Files of inboxes: what is written is read, and what somebody else left there is refused."""

import dataclasses
import os

import pytest
from crc32c import crc32c

from quiver.acks.inbox import INBOX_BYTES_MAX, Inbox, encode_inbox
from quiver.acks.letterbox import holding, list_inbox, read_inbox, remove_inbox, write_inbox
from quiver.acks.states import SegmentState
from quiver.errors import (
    CapacityError,
    DamagedEntry,
    InputError,
    LockedError,
    MissingError,
    StorageError,
    TornEntry,
    VersionError,
)
from quiver.testing import MemoryDisk

FOLDER = "core_0/acks/inbox"
STORE = "0123456789abcdef" * 2
SPARK = Inbox(STORE, "spark", 1, 2, segments=(SegmentState(3, 4, ((0, 2),)),))


@pytest.fixture
def acks(disk):
    disk.make_dir("core_0/acks")
    return disk


@pytest.fixture
def box(acks):
    write_inbox(acks, FOLDER, SPARK)
    return acks


def read(disk, name="spark"):
    return read_inbox(disk, FOLDER, name, store_id=STORE)


def put(disk, name, data):
    file = disk.create(f"{FOLDER}/{name}")
    file.write(0, data)
    file.close()


def place(disk, name):
    return disk.locate(f"{FOLDER}/{name}")


def test_what_is_written_is_listed_and_read(acks):
    assert list_inbox(acks, FOLDER) == []
    other = dataclasses.replace(SPARK, name="a.b-c_d", lease=7)
    write_inbox(acks, FOLDER, SPARK)
    write_inbox(acks, FOLDER, other)
    assert [entry.name for entry in list_inbox(acks, FOLDER)] == ["a.b-c_d", "spark"]
    assert (read(acks), read(acks, "a.b-c_d")) == (SPARK, other)
    newer = dataclasses.replace(SPARK, lease=2)
    write_inbox(acks, FOLDER, newer)
    assert read(acks) == newer
    assert os.stat(place(acks, "spark")).st_mode & 0o777 == 0o600


def test_what_is_removed_is_gone_and_may_be_removed_again(box):
    remove_inbox(box, FOLDER, "spark")
    remove_inbox(box, FOLDER, "spark")
    assert list_inbox(box, FOLDER) == []
    with pytest.raises(MissingError):
        read(box)


def test_where_there_is_no_folder_there_is_nothing(acks):
    remove_inbox(acks, FOLDER, "spark")
    with pytest.raises(MissingError) as caught:
        read(acks)
    assert caught.value.path == place(acks, "spark")


def test_a_replacement_that_fails_leaves_the_old_one(box):
    for act in ("create", "write", "sync", "rename"):
        box.plan.add(act)
        with pytest.raises((StorageError, CapacityError)):
            write_inbox(box, FOLDER, dataclasses.replace(SPARK, lease=2))
        box.plan.clear()
        assert read(box) == SPARK
        assert [entry.name for entry in list_inbox(box, FOLDER)] == ["spark"]


@pytest.mark.parametrize("name", ["", ".", "..", "../spark", "a/b", ".hidden", "a b", "n" * 129])
def test_names_that_no_subscriber_has_are_refused(box, name):
    for act in (
        lambda: read(box, name),
        lambda: remove_inbox(box, FOLDER, name),
        lambda: holding(box, FOLDER, name).__enter__(),
        lambda: write_inbox(box, FOLDER, dataclasses.replace(SPARK, name=name)),
    ):
        with pytest.raises(InputError):
            act()


def test_a_name_of_an_unfinished_file_is_no_inbox(box):
    put(box, "other.tmp", encode_inbox(dataclasses.replace(SPARK, name="other.tmp")))
    assert [entry.name for entry in list_inbox(box, FOLDER)] == ["spark"]
    with pytest.raises(InputError, match="unfinished"):
        read(box, "other.tmp")
    with pytest.raises(InputError, match="unfinished"):
        write_inbox(box, FOLDER, dataclasses.replace(SPARK, name="other.tmp"))


def test_links_are_not_followed(box, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(encode_inbox(dataclasses.replace(SPARK, name="link")))
    os.symlink(secret, place(box, "link"))
    os.symlink("nowhere", place(box, "dangling"))
    assert [entry.name for entry in list_inbox(box, FOLDER)] == ["spark"]
    for name in ("link", "dangling"):
        with pytest.raises(StorageError, match="links are not followed") as caught:
            read(box, name)
        assert caught.value.path == place(box, name)


def test_a_link_that_comes_between_the_look_and_the_opening_is_not_followed(box, monkeypatch):
    before = box.stat(f"{FOLDER}/spark")
    os.rename(place(box, "spark"), place(box, "real"))
    os.symlink("real", place(box, "spark"))
    real = box.stat
    monkeypatch.setattr(box, "stat", lambda p: before if p.endswith("spark") else real(p))
    with pytest.raises(StorageError, match="links are not followed"):
        read(box)


def test_a_link_is_replaced_and_what_it_points_to_is_not(box, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"precious")
    for name in ("spark", "spark.tmp"):
        if os.path.lexists(place(box, name)):
            os.unlink(place(box, name))
        os.symlink(other, place(box, name))
    write_inbox(box, FOLDER, SPARK)
    assert read(box) == SPARK
    assert other.read_bytes() == b"precious"


def test_a_folder_that_is_a_link_is_refused(acks, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "spark").write_bytes(encode_inbox(SPARK))
    os.symlink(elsewhere, acks.locate(FOLDER))
    for act in (
        lambda: list_inbox(acks, FOLDER),
        lambda: read(acks),
        lambda: write_inbox(acks, FOLDER, SPARK),
        lambda: remove_inbox(acks, FOLDER, "spark"),
        lambda: holding(acks, FOLDER, "spark").__enter__(),
    ):
        with pytest.raises(StorageError, match="links are not followed"):
            act()
    assert os.listdir(elsewhere) == ["spark"]


def test_a_file_where_the_folder_should_be_is_refused(acks):
    acks.create(FOLDER).close()
    with pytest.raises(StorageError, match="not a folder"):
        list_inbox(acks, FOLDER)


def test_what_is_no_regular_file_is_refused(box):
    box.make_dir(f"{FOLDER}/folder")
    os.mkfifo(place(box, "pipe"))
    assert [entry.name for entry in list_inbox(box, FOLDER)] == ["spark"]
    for name in ("folder", "pipe"):
        with pytest.raises(StorageError, match="not a regular file"):
            read(box, name)


def test_a_file_that_is_too_large_is_refused(box):
    file = box.open(f"{FOLDER}/spark", writable=True)
    file.truncate(INBOX_BYTES_MAX + 1)
    file.close()
    with pytest.raises(DamagedEntry, match="larger than any") as caught:
        read(box)
    assert caught.value.found == f"{INBOX_BYTES_MAX + 1:,}"
    assert caught.value.path == place(box, "spark")


def test_a_file_of_another_subscriber_or_store_is_refused(box):
    put(box, "mallory", encode_inbox(SPARK))
    with pytest.raises(DamagedEntry, match="another subscriber's") as caught:
        read(box, "mallory")
    assert (caught.value.expected, caught.value.found) == ("mallory", "spark")
    with pytest.raises(DamagedEntry, match="another store") as caught:
        read_inbox(box, FOLDER, "spark", store_id="f" * 32)
    assert (caught.value.expected, caught.value.found) == ("f" * 32, STORE)


def test_damage_is_told_with_its_file(box):
    data = encode_inbox(SPARK)
    newer = b"\2".join((data[:8], data[9:-4]))
    newer += crc32c(newer).to_bytes(4, "little")
    for bad, error in (
        (b"", TornEntry),
        (data[:-1], TornEntry),
        (data[:-1] + bytes([data[-1] ^ 1]), DamagedEntry),
        (newer, VersionError),
    ):
        box.unlink(f"{FOLDER}/spark")
        put(box, "spark", bad)
        with pytest.raises(error) as caught:
            read(box)
        if error is not VersionError:
            assert caught.value.path == place(box, "spark")


def test_who_holds_a_name_keeps_out_others_of_that_name(box):
    with holding(box, FOLDER, "spark"):
        with pytest.raises(LockedError) as caught, holding(box, FOLDER, "spark", seconds=0):
            pass
        assert caught.value.pid == os.getpid()
        assert place(box, ".spark.lock") in str(caught.value)
        with holding(box, FOLDER, "other", seconds=0):
            pass
        write_inbox(box, FOLDER, dataclasses.replace(read(box), lease=2))
    with holding(box, FOLDER, "spark", seconds=0):
        assert read(box).lease == 2
    assert [entry.name for entry in list_inbox(box, FOLDER)] == ["spark"]


def test_the_name_is_free_again_after_an_error(acks):
    with pytest.raises(ZeroDivisionError), holding(acks, FOLDER, "spark"):
        raise ZeroDivisionError
    with holding(acks, FOLDER, "spark", seconds=0):
        pass


def test_a_lock_that_is_a_link_is_refused(box, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"precious")
    os.symlink(other, place(box, ".spark.lock"))
    with pytest.raises(StorageError, match="links are not followed"):
        holding(box, FOLDER, "spark", seconds=0).__enter__()
    assert other.read_bytes() == b"precious"


def test_a_disk_in_memory_does_as_well():
    disk = MemoryDisk()
    disk.make_dir("acks")
    with holding(disk, "acks/inbox", "spark"):
        write_inbox(disk, "acks/inbox", SPARK)
    assert [entry.name for entry in list_inbox(disk, "acks/inbox")] == ["spark"]
    assert read_inbox(disk, "acks/inbox", "spark", store_id=STORE) == SPARK
    remove_inbox(disk, "acks/inbox", "spark")
    assert list_inbox(disk, "acks/inbox") == []
