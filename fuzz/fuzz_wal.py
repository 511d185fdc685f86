"""The write-ahead log: any bytes are entries, damage or a newer version, and nothing else.

::

    flags u8 | cut u16 | body          body = [rotated file, cut bytes] | active file | [sidecar]
"""

from __future__ import annotations

import struct

from crc32c import crc32c

from quiver.config import WalConfig
from quiver.errors import DamageError, VersionError
from quiver.payload import EncodedBundle, Payload
from quiver.slots import SlotTable
from quiver.testing import MemoryDisk
from quiver.wal.format import (
    BUNDLE,
    ENTRY_OVERHEAD,
    HEADER_BYTES,
    REUSED,
    Place,
    decode_bundle,
    decode_header,
    encode_bundle,
    encode_header,
    frame_at,
    frame_with_damaged_length,
)
from quiver.wal.reader import Tail, walk
from quiver.wal.replay import Replay
from quiver.wal.reuse import (
    FIRST,
    MARK_BYTES,
    dressed,
    encode_beginning,
    encode_mark,
    generation_in,
    mask_of,
)
from quiver.wal.sidecar import SIDECAR, decode_sidecar, encode_sidecar

REPAIR, ROTATED, WITH_SIDECAR, COVERED, HEADER, AGAIN = 1, 2, 4, 8, 16, 32
INPUT = struct.Struct("<BH")
LIMIT = 1 << 16
COVERED_SEQ = 41
GENERATION = 2
DIGEST = SlotTable.of(["events", "notes"]).digest()
FOLDER, QUARANTINE = "wal", "quarantine"
NOTED = EncodedBundle(43, 5, (Payload(0, 0, bytes(32), 1, b"payload"),), b"a note")
ACTIVE, OLDER, SIDECAR_PATH = "wal/quiver.wal", "wal/quiver.wal.1", "wal/truncate.offset"


def one_input(data: bytes) -> None:
    if len(data) < INPUT.size:
        return
    flags, cut = INPUT.unpack_from(data)
    active, rotated, sidecar = data[INPUT.size :], None, None
    if flags & WITH_SIDECAR:
        active, sidecar = active[: -SIDECAR.size], active[-SIDECAR.size :]
    if flags & ROTATED:
        rotated, active = active[:cut], active[cut:]
    if flags & AGAIN:
        active = begun_again(active, entries=bool(flags & REPAIR))
    elif flags & (REPAIR | HEADER):
        active = repaired(active, entries=bool(flags & REPAIR))
    if flags & REPAIR:
        rotated = None if rotated is None else repaired(rotated, entries=True)
        sidecar = None if sidecar is None else sealed(sidecar)
    check_header(active[:HEADER_BYTES])
    check_frame(active)
    if len(active) >= HEADER_BYTES:
        check_walk(active)
    if sidecar is not None:
        check_sidecar(sidecar)
    covered = COVERED_SEQ if flags & COVERED else None
    check_replay({ACTIVE: active, OLDER: rotated, SIDECAR_PATH: sidecar}, covered)


def sealed(data: bytes) -> bytes:
    """Make the last 4 bytes the checksum of those before them."""
    return data[:-4] + struct.pack("<I", crc32c(data[:-4]))


def repaired(data: bytes, *, entries: bool) -> bytes:
    """Give a file its header and, on request, each entry that its lengths lead to a checksum."""
    fixed = bytearray(data)
    fixed[:HEADER_BYTES] = encode_header(DIGEST)
    offset = HEADER_BYTES
    while entries and offset + ENTRY_OVERHEAD <= len(fixed):
        end = offset + ENTRY_OVERHEAD + int.from_bytes(fixed[offset : offset + 4], "little")
        if end > len(fixed):
            break
        fixed[offset + 4 : end] = sealed(bytes(fixed[offset + 4 : end]))
        offset = end
    return bytes(fixed)


def begun_again(data: bytes, *, entries: bool) -> bytes:
    """Give a file the beginning of one that was used before; its entries checksums, on request."""
    fixed = bytearray(data)
    mask = mask_of(GENERATION)
    head = encode_beginning(DIGEST, GENERATION, COVERED_SEQ - 1, truncated=Place(GENERATION, 30))
    fixed[:FIRST] = head[:FIRST]
    offset = FIRST
    while entries and offset + ENTRY_OVERHEAD <= len(fixed):
        end = offset + ENTRY_OVERHEAD + int.from_bytes(fixed[offset : offset + 4], "little")
        if end > len(fixed):
            break
        fixed[offset + 4 : end] = dressed([sealed(bytes(fixed[offset + 4 : end]))], mask)[0]
        offset = end
    fixed[offset : offset + MARK_BYTES] = encode_mark(COVERED_SEQ, mask) if entries else b""
    return bytes(fixed)


def check_header(data: bytes) -> None:
    try:
        error = decode_header(data, DIGEST)
    except VersionError:
        return
    good = encode_header(DIGEST), encode_header(DIGEST, kind=REUSED)
    assert (error is None) == (data in good)


def check_sidecar(data: bytes) -> None:
    try:
        place = decode_sidecar(data)
    except (DamageError, VersionError):
        return
    assert encode_sidecar(place) == data


def check_frame(data: bytes) -> None:
    view = memoryview(data)
    try:
        frame = frame_at(view, HEADER_BYTES, LIMIT)
    except DamageError:
        frame = frame_with_damaged_length(view, HEADER_BYTES, LIMIT)
    if frame is None or frame.entry_type != BUNDLE:
        return
    bundle = decode_bundle(frame)
    if frame.ingestion_ns >= 0:
        assert encode_bundle(bundle)[4:] == data[HEADER_BYTES + 4 : frame.end]
    spoilt = memoryview(data[:HEADER_BYTES] + b"\xff\xff\xff\xff" + data[HEADER_BYTES + 4 :])
    again = frame_with_damaged_length(spoilt, HEADER_BYTES, LIMIT)
    assert again is not None
    assert again.end == frame.end


def disk_with(files: dict[str, bytes | None]) -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_dir(FOLDER)
    for path, data in files.items():
        if data is not None:
            file = disk.create(path)
            file.write(0, data)
            file.close()
    return disk


def contents(disk: MemoryDisk) -> dict[str, bytes]:
    names = [f"{FOLDER}/{found.name}" for found in disk.list_dir(FOLDER)]
    return {name: bytes(disk.map(name)) for name in names}


def check_walk(data: bytes) -> None:
    """Items lie one behind the other from the header to the end, and the last is the tail."""
    file = disk_with({ACTIVE: data}).open(ACTIVE)
    items = list(walk(file, HEADER_BYTES, entry_bytes_max=LIMIT))
    behind = HEADER_BYTES
    for item in items:
        assert behind <= item.offset <= item.end
        assert isinstance(item, Tail) == (item is items[-1])
        assert isinstance(item, Tail) or item.end > item.offset
        behind = item.end
    assert behind == len(data) or generation_in(data) is not None


def replayed(disk: MemoryDisk, covered: int | None) -> tuple[Replay, list[bytes]]:
    replay = Replay(
        disk,
        FOLDER,
        digest=DIGEST,
        entry_bytes_max=LIMIT,
        covered_seq=covered,
        quarantine=QUARANTINE,
    )
    bundles: list[bytes] = []
    last_seq, behind = -1 if covered is None else covered, Place(0, 0)
    for bundle, place in replay:
        assert bundle.wal_seq > last_seq
        assert place > behind
        last_seq, behind = bundle.wal_seq, place
        bundles.append(encode_bundle(bundle))
    return replay, bundles


def check_replay(files: dict[str, bytes | None], covered: int | None) -> None:
    """What is replayed once is replayed again, and an append after it is the next one."""
    disk = disk_with(files)
    before = contents(disk)
    try:
        first, bundles = replayed(disk, covered)
    except VersionError:
        assert contents(disk) == before
        return
    log = first.finish(WalConfig())
    if first.last_seq < 1 << 63:
        bundle = EncodedBundle(first.last_seq + 1, 0, ())
        log.sync(log.append(bundle))
        bundles.append(encode_bundle(bundle))
    log.close()
    second, again = replayed(disk, covered)
    assert again == bundles
    assert second.torn is None
    assert len(second.damage) <= len(first.damage)
