"""The crash model tells legal states from illegal ones; each rule is shown on a few acts."""

from __future__ import annotations

import pytest

from quiver.disk import LocalDisk, replace
from quiver.errors import StorageError
from quiver.testing import Image, MemoryDisk, Model, crash_images
from quiver.testing.acts import Sync, Write

MODELS: list[Model] = ["posix", "journaled"]


def started() -> MemoryDisk:
    disk = MemoryDisk()
    disk.create("old").close()
    disk.sync_dir("")
    return MemoryDisk(disk.tree)


def contents(image: Image) -> dict[str, bytes]:
    disk = image.disk()
    return {entry.name: bytes(disk.map(entry.name)) for entry in disk.list_dir("")}


def at_end(disk: MemoryDisk, model: Model, *, budget: int = 10_000) -> list[dict[str, bytes]]:
    history = disk.history
    points = [len(history.ops)]
    return [
        contents(image)
        for image in crash_images(history, model=model, budget=budget, points=points)
    ]


def write(disk: MemoryDisk, path: str, data: bytes, *, sync: bool) -> None:
    file = disk.create(path)
    file.write(0, data)
    if sync:
        file.sync()
    file.close()


@pytest.mark.parametrize("model", MODELS)
def test_all_synced_leaves_exactly_one_image(model: Model) -> None:
    disk = MemoryDisk()
    disk.make_dir("a")
    disk.sync_dir("")
    replace(disk, "a/x", b"content")
    history = disk.history
    images = list(crash_images(history, model=model, points=[len(history.ops)]))
    assert len(images) == 1
    assert images[0].pending == ()
    assert bytes(images[0].disk().map("a/x")) == b"content"


def test_temporary_and_rename_without_sync_may_leave_an_empty_file() -> None:
    disk = started()
    write(disk, "x.tmp", b"content", sync=False)
    disk.rename("x.tmp", "x")
    disk.sync_dir("")
    states = at_end(disk, "posix")
    assert {"old": b"", "x": b""} in states
    assert {"old": b"", "x": b"content"} in states
    assert all("x" in state for state in states)
    assert {"old": b"", "x": b""} in at_end(disk, "journaled")


def test_synced_file_may_lose_its_name_only_where_names_need_a_folder_sync() -> None:
    disk = started()
    write(disk, "x", b"content", sync=True)
    assert at_end(disk, "posix") == [{"old": b""}, {"old": b"", "x": b"content"}]
    assert at_end(disk, "journaled") == [{"old": b"", "x": b"content"}]


def test_journal_keeps_names_in_order_and_posix_does_not() -> None:
    disk = started()
    for name in "ab":
        disk.create(name).close()
    assert {"old": b"", "b": b""} in at_end(disk, "posix")
    ordered = at_end(disk, "journaled")
    assert {"old": b"", "b": b""} not in ordered
    assert ordered == [{"old": b""}, {"old": b"", "a": b"", "b": b""}, {"old": b"", "a": b""}]


def test_sync_of_one_file_persists_earlier_names_of_others_in_the_journal_only() -> None:
    disk = started()
    disk.rename("old", "new")
    write(disk, "x", b"1", sync=True)
    assert at_end(disk, "journaled") == [{"new": b"", "x": b"1"}]
    assert {"old": b""} in at_end(disk, "posix")


def test_later_write_may_arrive_without_the_earlier_one() -> None:
    disk = started()
    file = disk.open("old", writable=True)
    file.write(0, b"aa")
    file.write(2, b"bb")
    assert {"old": b"\0\0bb"} in at_end(disk, "posix")


def test_synced_bytes_are_in_every_image() -> None:
    disk = started()
    file = disk.open("old", writable=True)
    file.write(0, b"sure")
    file.sync()
    file.write(4, b"maybe")
    states = at_end(disk, "posix")
    assert all(state["old"].startswith(b"sure") for state in states)
    assert {"old": b"sure"} in states
    assert {"old": b"suremaybe"} in states


def test_torn_writes_appear_in_all_their_kinds() -> None:
    disk = started()
    data = bytes(range(1, 256)) * 40
    file = disk.open("old", writable=True)
    file.write(0, data)
    found = [state["old"] for state in at_end(disk, "posix")]
    size = len(data)
    for head in (0, 1, size // 2, size - 1, size, 512, 4096):
        assert data[:head] in found
    assert bytes(size) in found
    assert bytes(size // 2) + data[size // 2 :] in found
    assert data[: size // 2] + bytes(size - size // 2) in found
    garbage = [
        state
        for state in found
        if len(state) == size and 0 < sum(a != b for a, b in zip(state, data, strict=True)) <= 512
    ]
    assert len(garbage) == 1


def test_no_torn_write_touches_what_was_durable_around_it() -> None:
    disk = started()
    file = disk.open("old", writable=True)
    file.write(0, b"A" * 600)
    file.sync()
    file.write(200, b"B" * 100)
    for state in at_end(disk, "posix"):
        assert state["old"][:200] == b"A" * 200
        assert state["old"][300:] == b"A" * 300


def test_failed_sync_forces_nothing_even_when_a_second_one_succeeds() -> None:
    disk = started()
    file = disk.open("old", writable=True)
    file.write(0, b"lost?")
    disk.fail(lambda op: isinstance(op, Sync))
    with pytest.raises(StorageError):
        file.sync()
    file.sync()
    assert {"old": b""} in at_end(disk, "posix")
    assert {"old": b"lost?"} in at_end(disk, "posix")


def test_sync_before_a_failed_one_still_counts() -> None:
    disk = started()
    file = disk.open("old", writable=True)
    file.write(0, b"sure")
    file.sync()
    disk.fail(lambda op: isinstance(op, Sync))
    with pytest.raises(StorageError):
        file.sync()
    assert at_end(disk, "posix") == [{"old": b"sure"}]


def test_folder_of_lost_name_takes_its_files_along() -> None:
    disk = started()
    disk.make_dir("a")
    write(disk, "a/x", b"1", sync=True)
    disk.sync_dir("a")
    history = disk.history
    images = crash_images(history, model="posix", points=[len(history.ops)])
    assert {image.disk().stat("a/x") is not None for image in images} == {True, False}


def test_equal_bytes_come_once_for_each_number_of_marks() -> None:
    disk = started()
    file = disk.open("old", writable=True)
    file.write(0, b"x")
    disk.mark("acknowledged", wal_seq=1)
    images = list(crash_images(disk.history, model="posix"))
    assert [(len(image.marks), contents(image)["old"]) for image in images] == [
        (0, b""),
        (0, b"x"),
        (0, b"\0"),
        (0, images[3].disk().map("old")),
        (1, b""),
        (1, b"x"),
        (1, b"\0"),
        (1, images[7].disk().map("old")),
    ]
    assert images[-1].marks[0]["wal_seq"] == 1


def busy_disk() -> MemoryDisk:
    disk = started()
    file = disk.open("old", writable=True)
    for number in range(12):
        file.write(number * 1000, bytes([number + 1]) * 1000)
        disk.create(f"n{number}").close()
    return disk


@pytest.mark.parametrize("model", MODELS)
def test_same_seed_gives_the_same_images_and_another_seed_others(model: Model) -> None:
    history = busy_disk().history

    def run(seed: int) -> list[bytes]:
        return [i.digest for i in crash_images(history, model=model, seed=seed, budget=500)]

    assert run(7) == run(7)
    assert set(run(7)) != set(run(8))


def test_budget_bounds_the_images_and_reaches_the_last_crash_point() -> None:
    history = busy_disk().history
    images = list(crash_images(history, model="posix", budget=200))
    assert 150 <= len(images) <= 200
    assert images[-1].point == len(history.ops)


def test_every_subset_of_few_pending_acts_is_tried() -> None:
    disk = MemoryDisk()
    for name in "abcdef":
        disk.create(name).close()
    states = {"".join(state) for state in at_end(disk, "posix")}
    assert len(states) == 2**6
    ordered = {"".join(state) for state in at_end(disk, "journaled")}
    assert ordered == {"", "a", "ab", "abc", "abcd", "abcde", "abcdef"}


def test_image_tells_what_was_lost_kept_and_torn() -> None:
    disk = started()
    file = disk.open("old", writable=True)
    file.write(0, b"0123456789")
    disk.create("new").close()
    texts = [image.describe() for image in crash_images(disk.history, model="posix")]
    assert texts[0] == "power cut after act 0 of 2, model posix"
    assert any("torn     0: write old [0, 10), left: head [0, 5)" in text for text in texts)
    assert any(
        "lost     0: write old [0, 10)\n  kept     1: create new mode 0600" in text
        for text in texts
    )


def test_crash_of_a_crash_starts_from_the_image() -> None:
    disk = started()
    write(disk, "x", b"1", sync=True)
    image = next(i for i in crash_images(disk.history, model="posix") if "x" in contents(i))
    again = image.disk()
    assert again.history.ops == ()
    again.rename("x", "y")
    nested = {tuple(contents(i)) for i in crash_images(again.history, model="posix")}
    assert nested == {("old", "x"), ("old", "y")}


def test_image_disk_does_not_change_the_image() -> None:
    disk = started()
    write(disk, "x", b"1", sync=True)
    image = next(crash_images(disk.history, model="journaled", points=[len(disk.history.ops)]))
    image.disk().open("x", writable=True).write(0, b"2")
    assert contents(image)["x"] == b"1"


def test_export_writes_the_image_to_a_real_folder(tmp_path) -> None:
    disk = MemoryDisk()
    disk.make_dir("a")
    file = disk.create("a/x", mode=0o440)
    file.write(10_000, b"end")
    image = list(crash_images(disk.history, model="posix"))[1]
    assert image.disk().stat("a") is not None
    full = next(i for i in crash_images(disk.history, model="posix") if i.kept >= {0, 1, 2})
    full.export(str(tmp_path / "out"))
    path = tmp_path / "out" / "a" / "x"
    assert path.read_bytes() == bytes(10_000) + b"end"
    assert path.stat().st_mode & 0o777 == 0o440
    local = LocalDisk(tmp_path / "out")
    assert local.stat("a/x").allocated <= 4096
    local.close()


def test_forced_acts_are_those_that_a_sync_followed() -> None:
    disk = started()
    file = disk.open("old", writable=True)
    file.write(0, b"1")
    file.sync()
    file.write(1, b"2")
    image = list(crash_images(disk.history, model="posix"))[-1]
    assert [type(disk.history.ops[index]) for index in image.forced] == [Write]
    assert image.pending == (2,)


def test_what_a_settled_file_shows_is_what_every_later_cut_leaves() -> None:
    disk = MemoryDisk()
    file = disk.create("file")
    disk.sync_dir("")
    file.write(0, b"good")
    file.sync()
    file.write(0, b"lies")
    disk.fail(lambda op: isinstance(op, Sync))
    with pytest.raises(StorageError):
        file.sync()
    assert file.read(0, 9) == b"lies"
    before = len(disk.history.ops)
    file.settle()
    assert file.read(0, 9) == b"good"
    after = range(before + 1, len(disk.history.ops) + 1)
    for model in ("posix", "journaled"):
        for points, wanted in ((range(before, before + 1), {b"good", b"lies"}), (after, {b"good"})):
            images = crash_images(disk.history, model=model, points=points)
            whole = [image for image in images if image.torn is None]
            assert {bytes(image.disk().map("file")) for image in whole} == wanted
