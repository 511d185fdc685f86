"""A store with a number that nobody gave opens, says so, and never gives one that is not read."""

from __future__ import annotations

import dataclasses
import struct
import zlib

import pytest
from crc32c import crc32c
from store_kit import abandon, bundle, numbers, on_memory

from quiver.acks.format import encode_record
from quiver.acks.records import Floor
from quiver.errors import CapacityError
from quiver.payload import SEQ_MAX, EncodedBundle
from quiver.segment import format as fmt
from quiver.testing import MemoryDisk
from quiver.wal.format import Place, encode_bundle, encode_checkpoint

LOG = "core_0/wal/quiver.wal"
ACKS = "core_0/acks/ack.log"


def filled(count: int = 3) -> MemoryDisk:
    disk = MemoryDisk()
    store = on_memory(disk)
    for number in range(count):
        assert store.append(bundle(number)) == number
    abandon(store)
    return disk


def extend(disk: MemoryDisk, path: str, data: bytes) -> None:
    file = disk.open(path, writable=True)
    file.write(file.size(), data)
    file.close()


@pytest.mark.parametrize("kind", ["bundle", "checkpoint"])
@pytest.mark.parametrize("seq", [SEQ_MAX + 1, 2**64 - 2, 2**64 - 1])
def test_an_entry_of_the_log_with_an_impossible_number_is_set_aside(kind: str, seq: int) -> None:
    disk = filled()
    forged = encode_bundle(EncodedBundle(seq, 5, ()))
    extend(disk, LOG, forged if kind == "bundle" else encode_checkpoint(seq, Place(1, 30)))
    store = on_memory(disk)
    [error] = store.recovery.damage
    assert error.found == seq
    assert store.append(bundle(3)) == 4  # What is damaged had a number too.
    store.finalize()
    store.append(bundle(4))
    abandon(store)
    store = on_memory(disk)
    assert store.recovery.damage == []
    store.finalize()
    assert numbers(store) == [0, 1, 2, 3, 4]
    store.close()


@pytest.mark.parametrize("kind", ["bundle", "checkpoint"])
def test_behind_the_greatest_number_nothing_is_taken_and_nothing_is_lost(kind: str) -> None:
    disk = filled()
    last = encode_bundle(EncodedBundle(SEQ_MAX, 5, ()))
    extend(disk, LOG, last if kind == "bundle" else encode_checkpoint(SEQ_MAX, Place(1, 30)))
    for _ in range(2):
        store = on_memory(disk)
        for later in (False, True):
            with pytest.raises(CapacityError, match="used up") as caught:
                store.append(bundle(3), wait=not later)
            assert not caught.value.retryable
            assert caught.value.hint
        abandon(store)
    store = on_memory(disk)
    store.finalize()
    subscription = store.subscribe("reader")
    for number in range(3):
        with subscription.poll() as handle:
            assert handle["events"].column("n")[0].as_py() == number
    store.close()


def test_so_many_at_once_need_so_many_numbers() -> None:
    store = on_memory(MemoryDisk())
    store._core.next_wal_seq = SEQ_MAX - 1
    store._core.check_numbers()
    store._core.check_numbers(2)
    with pytest.raises(CapacityError, match=f"next bundle is {SEQ_MAX - 1}"):
        store._core.check_numbers(3)
    store._core.next_wal_seq = 0
    store.close()


def test_a_floor_that_leaves_no_number_is_damage() -> None:
    disk = filled()
    body = encode_record(Floor(1, 2), 2**40)[:-4]
    body = body[:24] + struct.pack("<QQ", 2**64 - 1, 2**64 - 1) + body[40:]
    extend(disk, ACKS, body + struct.pack("<I", crc32c(body)))
    store = on_memory(disk)
    assert any("floor is above" in str(error) for error in store.recovery.damage)
    assert store.append(bundle(3)) == 3
    store.finalize()
    assert numbers(store) == [0, 1, 2, 3]
    store.close()


def test_a_segment_that_covers_impossible_numbers_is_damaged() -> None:
    disk = filled()
    store = on_memory(disk)
    store.finalize()
    abandon(store)
    [path] = [f"core_0/segments/{entry.name}" for entry in disk.list_dir("core_0/segments")]
    with_greater_number(disk, path, 2**64 - 1)
    store = on_memory(disk)
    assert any("beyond all numbers" in str(error) for error in store.recovery.damage)
    assert store.append(bundle(3)) == 3
    store.finalize()
    assert (numbers(store), store.recovery.rebuilt_segments) == ([0, 1, 2, 3], 1)
    store.close()


def with_greater_number(disk: MemoryDisk, path: str, last: int) -> None:
    """Write the footer anew, as whoever forges one would."""
    file = disk.open(path, writable=True)
    data = file.read(0, file.size())
    trailer = fmt.decode_trailer(data[-fmt.TRAILER_BYTES :], file_bytes=len(data))
    start = len(data) - fmt.TRAILER_BYTES - trailer.footer_length
    footer = fmt.decode_footer(data[start : start + trailer.footer_length], offset=start)
    assert footer.extension is not None
    extension = dataclasses.replace(footer.extension, wal_seq_last=last)
    footer = dataclasses.replace(footer, extension=extension)
    file.write(start, fmt.encode_tail(footer, zlib.crc32(data[:start])))
    file.close()
