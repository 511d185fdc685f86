"""All files of a log opened as they are at one moment, while somebody changes which there are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from crc32c import crc32c
from open_kit import WatchedDisk
from wal_kit import SIZE, Folder, bundle

from quiver.errors import StorageError, VersionError
from quiver.wal.files import open_files
from quiver.wal.format import HEADER_BYTES, Place

ONE_IN_A_FILE = HEADER_BYTES + SIZE


def once(name: str, act: Callable[[], object]) -> Callable[[str], None]:
    """Act before the first look of a kind, and never again."""
    left = [act]

    def on_look(look: str) -> None:
        if look == name and left:
            left.pop()()

    return on_look


def test_files_are_given_in_order_and_the_active_one_last(place: Folder) -> None:
    place.fill(3, rotate_size=ONE_IN_A_FILE)
    with open_files(place.disk, "wal", newest=None) as files:
        assert [(f.generation, f.is_active) for f in files] == [(1, False), (2, False), (3, True)]


def test_a_file_that_goes_before_it_is_opened_is_not_waited_for(place: Folder) -> None:
    place.fill(3, rotate_size=ONE_IN_A_FILE)
    on_look = once("open", lambda: place.disk.unlink("wal/quiver.wal.1"))
    with open_files(WatchedDisk(place.disk, on_look), "wal", newest=None) as files:
        assert [f.generation for f in files] == [2, 3]


def test_a_rotation_between_listing_and_opening_leaves_nothing_out(place: Folder) -> None:
    log, _ = place.open(rotate_size=ONE_IN_A_FILE)
    log.append(bundle(0))
    on_look = once("open", lambda: log.append(bundle(1)))
    with open_files(WatchedDisk(place.disk, on_look), "wal", newest=None) as files:
        assert [f.generation for f in files] == [1, 2]
    log.close()


def test_files_that_never_stay_are_given_up_with_a_hint(place: Folder) -> None:
    log, _ = place.open(rotate_size=ONE_IN_A_FILE, max_chunks=99)
    numbers = iter(range(99))

    def on_look(look: str) -> None:
        if look == "list_dir":
            log.append(bundle(next(numbers)))

    disk = WatchedDisk(place.disk, on_look)
    with (
        pytest.raises(StorageError, match="faster") as caught,
        open_files(disk, "wal", newest=None),
    ):
        pass
    assert caught.value.hint == "try again"
    log.close()


def test_a_sidecar_of_a_newer_format_is_refused_by_name(place: Folder) -> None:
    place.fill(1)
    head = b"QUIVER\0T" + (2).to_bytes(2, "little") + bytes(2) + bytes(16)
    (place.root / "wal/truncate.offset").write_bytes(head + crc32c(head).to_bytes(4, "little"))
    with (
        pytest.raises(VersionError, match=r"wal/truncate\.offset: .*version 2"),
        open_files(place.disk, "wal", newest=Place(1, 30)),
    ):
        pass
