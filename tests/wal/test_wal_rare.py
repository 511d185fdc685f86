"""Turns of the log that no other test takes: races of a rotation, files that change, odd marks."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from typing import Any

import pytest
from reuse_kit import ACTIVE, bytes_of, gone_round, opened, with_bytes
from wal_kit import LIMIT, bundle, replay_of

from quiver.errors import DamagedEntry, StorageError
from quiver.payload import EncodedBundle, Payload
from quiver.stored_run import StoredRun
from quiver.testing.acts import Write
from quiver.testing.memory_disk import MemoryDisk
from quiver.wal import format as wal
from quiver.wal.content import Content
from quiver.wal.reader import Tail, walk
from quiver.wal.reuse import FIRST, MARK_BYTES, encode_mark, mask_of, split


def test_an_entry_that_is_completed_in_place_is_the_one_that_is_encoded() -> None:
    payloads = (
        Payload(0, 1, bytes(32), 2, b"data"),
        Payload(63, 0xFFFF, b"\1" * 32, 3, b"and more"),
    )
    for count in range(3):
        encoded = EncodedBundle(7, 9, payloads[:count])
        wanted = wal.encode_bundle(encoded)
        memory, at = bytearray(b"\xff" * len(wanted)), wal.BEGIN_BYTES
        for payload in encoded.payloads:
            at += wal.BLOCK.size
            memory[at : at + len(payload.data)] = payload.data
            at += len(payload.data)
        wal.complete_entry(memoryview(memory), encoded)
        assert memory == wanted


def test_what_looks_like_a_mark_and_is_none_is_passed_over() -> None:
    disk, log = gone_round()
    log.append(bundle(11))
    log.sync_all()
    mask = mask_of(log.end.generation)
    bent = bytearray(encode_mark(12, mask))
    struct.pack_into("<Q", bent, 4, 13)  # Its tag is there, and its checksum is of another number.
    good = encode_mark(14, mask)
    place = log.end.offset + MARK_BYTES
    data = bytes(bytes_of(disk))[:place] + bytes(bent) + b"between" + good
    with closing(with_bytes(disk, data).open(ACTIVE)) as file:
        found = Content(file, LIMIT, log.end.generation).mark_behind(place)
    assert found == place + MARK_BYTES + len(b"between")


@pytest.mark.parametrize("sizes", [(2, 40), (8, 12, 9), (MARK_BYTES, 3)])
def test_what_is_written_over_a_mark_may_be_of_two_parts(sizes: tuple[int, ...]) -> None:
    parts = [bytes([number]) * size for number, size in enumerate(sizes)]
    head, rest = split(parts)
    assert len(head) == MARK_BYTES
    assert head + b"".join(rest) == b"".join(parts)


def test_a_spare_that_cannot_be_written_over_is_given_up_and_the_append_is_told() -> None:
    disk, log = gone_round()
    spare = next(e.name for e in disk.list_dir("wal") if "spare" in e.name)
    disk.fail(lambda op: isinstance(op, Write) and "spare" in op.path)
    with pytest.raises(StorageError):
        for seq in range(11, 30):
            log.append(bundle(seq))
            log.sync_all()
            last = seq
    assert spare not in [entry.name for entry in disk.list_dir("wal")]
    _, found, replay = opened(MemoryDisk(disk.tree), covered=10)
    assert (found, replay.damage) == (list(range(11, last + 1)), [])


@pytest.mark.parametrize("count", [1, 6])
def test_what_is_appended_while_a_log_goes_round_is_kept(count: int) -> None:
    """Six fill the file, so that it is rotated by an append while whoever truncates syncs it."""
    disk, log = gone_round()
    log.append(bundle(11))
    log.sync_all()
    coming = list(range(12, 12 + count))

    @contextmanager
    def apart() -> Iterator[None]:
        yield
        while coming:
            log.append(bundle(coming.pop(0)))

    log.truncate(log.end, apart=apart)
    log.sync_all()
    assert coming == []
    _, found, replay = opened(MemoryDisk(disk.tree), covered=11)
    assert (found, replay.damage) == (list(range(12, 12 + count)), [])


def test_an_entry_that_rots_between_two_looks_is_told_with_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = MemoryDisk()
    log, _, _ = opened(disk, rotate_size=1 << 20)
    for seq in range(9):
        log.append(bundle(seq))
    log.sync_all()
    bundles = StoredRun.bundles

    def rotten(run: StoredRun) -> Any:
        with closing(disk.open(ACTIVE, writable=True)) as file:
            end = file.size()
            file.write(end - 1, bytes([file.read(end - 1, 1)[0] ^ 1]))
        return bundles(run)

    monkeypatch.setattr(StoredRun, "bundles", rotten)
    found = []
    with pytest.raises(DamagedEntry) as caught:
        found.extend(item.wal_seq for item, _ in replay_of(disk, None))
    assert str(caught.value.path).endswith("quiver.wal")


def test_a_walk_gets_on_even_where_it_does_not_know_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It went round for ever at such a place, and took all memory: a planted defect did that."""
    disk, log = gone_round()
    generation = log.end.generation
    log.append(bundle(11))
    log.sync_all()
    monkeypatch.setattr(Content, "is_end", lambda *_: False)
    with closing(disk.open(ACTIVE)) as file:
        items = walk(file, FIRST, entry_bytes_max=LIMIT, generation=generation)
        found = list(islice(items, 100))
    assert isinstance(found.pop(), Tail)
    assert found
    assert all(item.end > item.offset for item in found)
