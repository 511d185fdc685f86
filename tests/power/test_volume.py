from __future__ import annotations

import os
from pathlib import Path

import pytest

from quiver.errors import StorageError
from quiver.testing.real import CrampedVolume, Power, Volume
from quiver.testing.real import volume as volumes

pytestmark = pytest.mark.root

DATA = b"d" * 10_000


def put(path: str, *, sync: bool) -> None:
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(file, DATA)
    if sync:
        os.fsync(file)
    os.close(file)


def sync_folder(path: str) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(folder)
    os.close(folder)


def sizes(folder: str) -> dict[str, int]:
    return {entry.name: entry.stat().st_size for entry in os.scandir(folder)}


@pytest.mark.parametrize(
    "power, left",
    [
        (Power.JOURNAL, {"synced": len(DATA), "named": 0}),
        (Power.NOTHING, {"synced": len(DATA)}),
    ],
)
def test_after_a_cut_there_is_what_was_synced_and_perhaps_what_was_in_the_journal(
    volume, power, left
):
    folder = volume.new_folder()
    os.mkdir(folder)
    sync_folder(volume.path)
    put(f"{folder}/synced", sync=True)
    sync_folder(folder)
    put(f"{folder}/named", sync=False)
    assert sizes(folder) == {"synced": len(DATA), "named": len(DATA)}
    volume.shut_down(power)
    volume.remount()
    assert sizes(folder) == left


def test_nothing_can_be_written_on_a_volume_without_power(volume):
    folder = volume.new_folder()
    os.mkdir(folder)
    volume.shut_down(Power.NOTHING)
    with pytest.raises(OSError, match="Input/output error"):
        put(f"{folder}/late", sync=True)


def test_a_volume_is_sound_after_many_cuts(volume):
    for number in range(20):
        folder = volume.new_folder()
        os.mkdir(folder)
        for file in range(5):
            put(f"{folder}/{file}", sync=(file + number) % 3 == 0)
        volume.shut_down(Power(1 + number % 2))
        volume.remount()
        volume.clear()
    assert sizes(volume.path).keys() <= {"lost+found"}


def test_nothing_is_written_where_nothing_is_mounted(volume):
    volume.close()
    with pytest.raises(StorageError, match="nothing is mounted"):
        volume.new_folder()


def leftovers_of(path: str, device: str) -> list[str]:
    mounted = [line for line in Path("/proc/mounts").read_text().splitlines() if path in line]
    backing = Path(f"/sys/block/{device}/loop/backing_file")
    used = [backing.read_text()] if backing.exists() else []
    return mounted + used + ([path] if os.path.exists(path) else [])


@pytest.mark.parametrize("cut", [True, False])
def test_nothing_is_left_of_a_volume_that_is_closed(volume, cut):
    device = os.path.basename(volume._loop.path)
    assert len(leftovers_of(volume.path, device)) == 3
    if cut:
        volume.shut_down(Power.NOTHING)
    volume.close()
    assert leftovers_of(volume.path, device) == []
    volume.close()


def test_a_file_that_is_still_open_is_told_and_does_not_keep_the_volume(volume):
    with open(f"{volume.path}/open", "wb"):
        with pytest.raises(StorageError, match="busy"):
            volume.close()
        assert not os.path.exists(volume.path)


def test_a_cramped_volume_leaves_nothing_either(cramped):
    places = [cramped._ram, cramped.volume.path]
    cramped.cramp()
    cramped.close()
    assert [place for place in places if os.path.exists(place)] == []


@pytest.mark.parametrize(
    "broken, reason",
    [
        (lambda patch: patch.setattr(os, "geteuid", lambda: 1000), "needs root"),
        (lambda patch: patch.setattr(volumes, "_PATHS", ""), "is not installed: apt-get install"),
        (
            lambda patch: patch.setattr(volumes, "mount", no_mount),
            "can be mounted here: cannot mount",
        ),
    ],
)
def test_what_stands_in_the_way_of_a_volume_is_told(broken, reason, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    if not os.path.exists("/dev/loop-control"):
        pytest.skip("there are no loop devices")
    broken(monkeypatch)
    assert reason in str(volumes.obstacle("ext4"))


def no_mount(*_: str, **__: str) -> None:
    raise StorageError("cannot mount: Operation not permitted")


def test_a_volume_that_cannot_be_made_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(volumes.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(volumes, "LoopDevice", no_mount)
    for kind in (Volume, CrampedVolume):
        with pytest.raises(StorageError):
            kind("ext4")
    assert list(tmp_path.iterdir()) == []
