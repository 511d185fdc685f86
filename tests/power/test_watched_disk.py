from __future__ import annotations

import json
from pathlib import Path

import pytest

from quiver.disk import LocalDisk
from quiver.errors import MissingError, StorageError
from quiver.testing import Mark, MemoryDisk
from quiver.testing.lives import LIVES, lead
from quiver.testing.real import WatchedDisk
from quiver.testing.real.watched_disk import mark_from_json, mark_to_json
from quiver.testing.recorder import Killed

pytestmark = pytest.mark.filterwarnings("ignore:.*lost without an outcome:ResourceWarning")


def watched(folder: Path, **options) -> WatchedDisk:
    return WatchedDisk(LocalDisk(folder, create=True), **options)


def noting(notes: list[str]):
    def before(_: int, op: object) -> bool:
        notes.append(str(op))
        return False

    return before


ALONE = [
    life for life in LIVES if life not in ("beside the writer", "taken back", "come meanwhile")
]
"""Without other processes, which look at the times of files: a disk in RAM knows none."""


@pytest.mark.parametrize("life", [*ALONE, "seed 1", "seed 2", "seed 3"])
def test_acts_and_marks_come_in_the_order_of_a_disk_in_ram(life, tmp_path):
    memory, notes = MemoryDisk(), list[str]()
    disk = watched(tmp_path, before=noting(notes), note=lambda mark: notes.append(str(mark)))
    lead(life, disk)
    disk.close()
    lead(life, memory)
    assert notes == [str(op) for op in memory.history.ops]
    assert disk.act_count == memory.act_count


def test_what_is_refused_before_it_begins_is_no_act(tmp_path):
    memory, disk = MemoryDisk(), watched(tmp_path)
    for place in (memory, disk):
        place.make_dir("folder")
        place.make_dir("folder")
        place.create("file").close()
        with pytest.raises(StorageError):
            place.create("file")
        for attempt in (
            lambda place=place: place.unlink("nothing"),
            lambda place=place: place.rename("nothing", "other"),
            lambda place=place: place.sync_dir("nothing"),
        ):
            with pytest.raises(MissingError):
                attempt()
        place.rename("file", "file")
        file = place.open("file")
        with pytest.raises(StorageError):
            file.write(0, b"read only")
        file.close()
        with pytest.raises(StorageError):
            file.sync()
    assert disk.act_count == memory.act_count == 2


def test_nothing_is_done_and_nothing_is_noted_after_the_end(tmp_path):
    notes: list[Mark] = []
    disk = watched(tmp_path, before=lambda number, _: number == 2, note=notes.append)
    disk.mark("begins")
    file = disk.create("a")
    file.write(0, b"one")
    for act in (file.sync, lambda: file.write(3, b"two"), lambda: disk.unlink("a")):
        with pytest.raises(Killed):
            act()
    disk.mark("goes on")
    assert (tmp_path / "a").read_bytes() == b"one"
    assert [mark.label for mark in notes] == ["begins"]


def test_closing_lets_go_of_files_and_locks(tmp_path):
    disk = watched(tmp_path)
    file, _ = disk.create("a"), disk.lock("LOCK")
    disk.close()
    with pytest.raises(StorageError):
        file.sync()
    watched(tmp_path).lock("LOCK").release()


def test_marks_survive_a_line_of_json():
    mark = Mark("acked", (("number", 7), ("subscriber", "a\n")))
    line = mark_to_json(mark)
    assert "\n" not in line
    assert mark_from_json(json.loads(line)) == mark
