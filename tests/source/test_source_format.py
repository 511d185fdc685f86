"""The files of a source: golden bytes, round trips, each flipped bit; and power cuts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from quiver.errors import DamagedEntry, DamageError, InputError, TornEntry, VersionError
from quiver.source import Snapshots, SplitState
from quiver.source.files.register import REGISTER_NAME, Register
from quiver.source.format import (
    Epochs,
    EpochStates,
    FileEntry,
    Head,
    decode_epochs,
    decode_group,
    decode_head,
    decode_line,
    encode_epochs,
    encode_head,
    encode_line,
)
from quiver.testing import ManualClock, MemoryDisk, crash_images

GOLDEN = Path(__file__).parents[1] / "golden"
FOLDER = GOLDEN / "v1" / "source"


@pytest.fixture(scope="module")
def golden():
    sys.path.insert(0, str(GOLDEN))
    yield __import__("make_v1_source")
    sys.path.remove(str(GOLDEN))


def test_the_golden_files_are_what_is_written_and_are_read_as_it(golden) -> None:
    epochs = (FOLDER / "epochs").read_bytes()
    assert encode_epochs(golden.EPOCHS) == epochs
    assert decode_epochs(epochs) == golden.EPOCHS
    register = (FOLDER / "register").read_bytes()
    assert golden.register() == register
    head, first, second = register.splitlines(keepends=True)
    assert decode_head(head) == golden.HEAD
    assert decode_group(first, 0) == golden.FIRST
    assert decode_group(second, 2) == golden.SECOND


def test_no_flipped_bit_is_taken_for_what_was_written() -> None:
    data = (FOLDER / "epochs").read_bytes()
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        with pytest.raises(DamageError):
            decode_epochs(bytes(flipped))
    for end in range(len(data)):
        with pytest.raises(TornEntry):
            decode_epochs(data[:end])


LINE = {"epoch": 1, "splits": {}}
HEADER = {"committed": 0, "connector": "x", "format": "quiver source epochs", "version": 1}


def test_an_epoch_without_splits_is_read_as_it_was_written() -> None:
    epochs = Epochs("x", 0, (EpochStates(1, {}),))
    assert decode_epochs(encode_epochs(epochs)) == epochs


def file_of(*values: object) -> bytes:
    return b"".join(map(encode_line, values))


@pytest.mark.parametrize(
    "data",
    [
        file_of(HEADER | {"committed": -1}, {"end": 0}),
        file_of(HEADER | {"connector": 3}, {"end": 0}),
        file_of(HEADER | {"more": 3}, {"end": 0}),
        file_of(HEADER | {"format": "another"}, {"end": 0}),
        file_of(HEADER | {"version": 0}, {"end": 0}),
        file_of(HEADER, LINE, {"end": 0}),
        file_of(HEADER, {"end": False}),
        file_of(HEADER, LINE, LINE, {"end": 2}),
        file_of(HEADER, LINE | {"epoch": True}, {"end": 1}),
        file_of(HEADER, LINE | {"splits": {"a": ["x", 1]}}, {"end": 1}),
        file_of(HEADER, LINE | {"splits": {"a": ["x", 1, 1]}}, {"end": 1}),
        file_of(HEADER, LINE | {"splits": {"a": [1, 1, True]}}, {"end": 1}),
        file_of(HEADER, LINE | {"splits": []}, {"end": 1}),
    ],
)
def test_sound_lines_that_make_no_sense_are_damage(data: bytes) -> None:
    with pytest.raises(DamagedEntry):
        decode_epochs(data)


def test_what_is_not_canonical_and_what_is_newer() -> None:
    from crc32c import crc32c

    for body in (b'{"b":1,"a":2}', b'{"a": 1}', b"[1]", b"{", b'{"a":NaN}', "{'ä'}".encode()):
        with pytest.raises(DamagedEntry):
            decode_line(b"%08x %b\n" % (crc32c(body), body))
    with pytest.raises(VersionError, match="version 2"):
        decode_epochs(file_of(HEADER | {"version": 2}, {"end": 0}))
    with pytest.raises(VersionError, match="version 7"):
        decode_head(
            encode_line({"format": "quiver source register", "id": "", "splits": 1, "version": 7})
        )


@pytest.mark.parametrize(
    "value",
    [
        {"files": [], "first": 0},
        {"files": [["a", 1, 1]], "first": 1},
        {"files": [["a", 1, 1]], "first": False},
        {"files": [["a", 1]], "first": 0},
        {"files": [["", 1, 1]], "first": 0},
        {"files": [["a", -1, 1]], "first": 0},
        {"files": [["a", 1, 1]] * 1001, "first": 0},
        {"files": [["a", 1, 1]]},
    ],
)
def test_a_line_of_a_register_that_names_no_files_is_damage(value) -> None:
    with pytest.raises(DamagedEntry):
        decode_group(encode_line(value), 0)


@pytest.mark.parametrize("splits", [0, 1025, True, "2"])
def test_a_register_is_for_some_splits(splits) -> None:
    line = {"format": "quiver source register", "id": "a", "splits": splits, "version": 1}
    with pytest.raises(DamagedEntry):
        decode_head(encode_line(line))
    assert decode_head(encode_head(Head("a", 1024))) == Head("a", 1024)


@pytest.mark.parametrize("change", [{"id": 7}, {"more": 1}])
def test_a_register_says_no_more_than_it_has_to(change) -> None:
    line = {"format": "quiver source register", "id": "a", "splits": 3, "version": 1}
    with pytest.raises(DamagedEntry, match="head of the register"):
        decode_head(encode_line(line | change))


@pytest.mark.parametrize("model", ["posix", "journaled"])
def test_no_power_cut_loses_an_epoch_that_was_let_through(model) -> None:
    disk = MemoryDisk()
    snapshots = Snapshots(disk, connector="toy", history=2)
    for epoch in range(1, 6):
        snapshots.save(epoch, {"a": SplitState(str(epoch), epoch, held=True)})
        snapshots.commit(epoch)
        disk.mark(str(epoch))
    images = 0
    for image in crash_images(disk.history, model=model, budget=400):
        images += 1
        known = Snapshots(MemoryDisk(image.tree), connector="toy").epochs
        for told in image.marks[-1:]:
            assert int(told.label) in known
    assert images > 20


def test_a_file_of_epochs_says_what_is_wrong_with_it() -> None:
    disk = MemoryDisk()
    Snapshots(disk, connector="toy").save(1, {})
    with pytest.raises(InputError, match="of connector 'toy', not of 'nats'"):
        Snapshots(disk, connector="nats")
    with disk_file(disk, "epochs") as file:
        file.write(30, b"\xff")
    with pytest.raises(DamagedEntry, match="in memory:/epochs at byte 0"):
        Snapshots(disk, connector="toy")
    with pytest.raises(InputError, match="at least one"):
        Snapshots(disk, connector="toy", history=0)


def disk_file(disk: MemoryDisk, path: str):
    from contextlib import closing

    return closing(disk.open(path, writable=True))


def test_no_power_cut_loses_or_renumbers_a_registered_file() -> None:
    disk = MemoryDisk()
    register = Register(disk)
    register.open_to_extend(2, ManualClock())
    for number in range(5):
        register.extend([FileEntry(f"{number}", 1, number), FileEntry(f"{number}b", 1, number)])
        disk.mark(str(number))
    images = 0
    for image in crash_images(disk.history, model="posix", budget=400):
        images += 1
        again = Register(MemoryDisk(image.tree))
        again.open_to_extend(2, ManualClock())
        found = list(again.known())
        whole = [f"{n}{b}" for n in range(5) for b in ("", "b")]
        assert found == whole[: len(found)]
        assert len(found) >= 2 * len(image.marks)
        again.extend([FileEntry("later", 1, 1)])
        again.close()
    assert images > 20


FILES = [FileEntry(f"{number}", 1, number) for number in range(6)]
COPY_NAME = f"{REGISTER_NAME}.copy"


def registered() -> tuple[MemoryDisk, int, int]:
    """Make a register of three lines of two files; gives where the second and the last begin."""
    disk = MemoryDisk()
    register = Register(disk)
    register.open_to_extend(2, ManualClock())
    places = []
    for first in range(0, 6, 2):
        places.append(disk.stat(REGISTER_NAME).size)
        register.extend(FILES[first : first + 2])
    register.close()
    assert bytes_of(disk, REGISTER_NAME) == bytes_of(disk, COPY_NAME)
    return disk, places[1], places[2]


def bytes_of(disk: MemoryDisk, path: str) -> bytes:
    with disk_file(disk, path) as file:
        return file.read(0, file.size())


def entries_of(register: Register) -> list[FileEntry | None]:
    return [register.entry(number) for number in range(7)]


@pytest.mark.parametrize("name", [REGISTER_NAME, COPY_NAME])
def test_whichever_byte_rots_in_one_copy_every_file_keeps_its_number(name) -> None:
    disk, _, _ = registered()
    good = bytes_of(disk, name)
    for place in range(len(good)):
        with disk_file(disk, name) as file:
            file.write(place, bytes([good[place] ^ 1 << place % 8]))
        reader = Register(disk)
        reader.refresh()
        assert entries_of(reader) == [*FILES, None]
        again = Register(disk)
        again.open_to_extend(2, ManualClock())
        again.close()
        assert entries_of(again) == [*FILES, None]
        assert bytes_of(disk, name) == good


@pytest.mark.parametrize("name", [REGISTER_NAME, COPY_NAME])
def test_a_copy_that_is_lost_or_cut_is_made_again(name) -> None:
    disk, second, last = registered()
    good = bytes_of(disk, name)
    for end in (0, 10, second, last - 1, last, len(good) - 1, None):
        if end is None:
            disk.unlink(name)
        else:
            with disk_file(disk, name) as file:
                file.truncate(end)
        again = Register(disk)
        again.open_to_extend(2, ManualClock())
        again.close()
        assert entries_of(again) == [*FILES, None]
        assert bytes_of(disk, name) == good


def test_lines_that_rot_in_different_places_of_both_are_all_there() -> None:
    disk, second, last = registered()
    for name, place in ((REGISTER_NAME, second), (COPY_NAME, last)):
        with disk_file(disk, name) as file:
            file.write(place + 12, b"\xff")
    again = Register(disk)
    again.open_to_extend(2, ManualClock())
    assert entries_of(again) == [*FILES, None]


def test_damage_in_both_copies_is_never_passed_over() -> None:
    disk, second, _ = registered()
    for name in (REGISTER_NAME, COPY_NAME):
        with disk_file(disk, name) as file:
            file.write(second + 12, b"\xff")
    with pytest.raises(DamageError, match=f"in memory:/register at byte {second}") as caught:
        Register(disk).open_to_extend(2, ManualClock())
    assert "copy" in caught.value.hint


def test_copies_of_two_registers_are_refused() -> None:
    disk, _, _ = registered()
    other = MemoryDisk()
    register = Register(other)
    register.open_to_extend(3, ManualClock())
    register.close()
    with disk_file(disk, COPY_NAME) as file:
        file.truncate(0)
        file.write(0, bytes_of(other, REGISTER_NAME))
    with pytest.raises(DamageError, match="two registers"):
        Register(disk).open_to_extend(2, ManualClock())


def test_a_line_that_says_nonsense_with_a_right_checksum_is_not_written_over() -> None:
    disk, second, _ = registered()
    nonsense = encode_line({"files": [["b.csv", 1, 1 << 70]], "first": 0})
    data = bytes_of(disk, REGISTER_NAME)
    lie = data[:second] + nonsense + data[second:]
    for name in (REGISTER_NAME, COPY_NAME):
        with disk_file(disk, name) as file:
            file.write(0, lie)
    register = Register(disk)
    with pytest.raises(DamageError, match="files"):
        register.open_to_extend(2, ManualClock())
    assert bytes_of(disk, REGISTER_NAME) == lie


def test_a_register_with_nothing_in_it_is_no_register() -> None:
    disk, _, _ = registered()
    for name in (REGISTER_NAME, COPY_NAME):
        with disk_file(disk, name) as file:
            file.truncate(0)
    with pytest.raises(TornEntry, match="empty"):
        Register(disk).open_to_extend(2, ManualClock())
