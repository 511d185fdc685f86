"""The segment of a block: made of its log, or copied from another node."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import blake3

from quiver.chain.copies.bundles import BundleCheck
from quiver.chain.copies.entries import Extent
from quiver.chain.copies.format import LOG_BEGIN, CopyState
from quiver.chain.copies.names import LOG, SEGMENT, file_of
from quiver.chain.peers import BlockName, Finished, decode_layout
from quiver.disk import SEALED_MODE, TEMPORARY, Disk, NewFile
from quiver.errors import DamagedEntry, DamageError, InputError
from quiver.ipc import out_of_memory
from quiver.payload import EncodedBundle
from quiver.segment import SegmentLabel, write_segment
from quiver.wal.format import decode_bundle, frame_at

__all__ = ["check_segment", "make_segment", "read_file", "take_segment"]

_PIECE: Final = 1 << 20
_STORE_ID_BYTES: Final = 16


def make_segment(disk: Disk, state: CopyState, entry_bytes_max: int) -> Finished:
    """Write the segment of a log that was cut; the same on all nodes of one version."""
    if state.sealed is None:
        raise InputError("a log that is not cut has no segment")
    name, length = state.name, state.sealed.length
    entries = disk.map(file_of(name, LOG))[LOG_BEGIN : LOG_BEGIN + length]
    extent, rows = Extent(), 0
    bundles: list[EncodedBundle] = []
    lost: dict[int, tuple[int, ...]] = {}
    check = BundleCheck(state.layout)
    while extent.length < length:
        try:
            frame = frame_at(entries, extent.length, entry_bytes_max)
            extent = extent.with_frame(frame)
        except DamageError as error:
            raise error.at(disk.locate(file_of(name, LOG)), base=LOG_BEGIN) from error
        bundle, gone = check.sound(decode_bundle(frame))
        if gone:
            lost[len(bundles)] = gone
        rows += sum(payload.row_count for payload in bundle.payloads)
        bundles.append(bundle)
    label = SegmentLabel(
        segment_seq=name.number,
        store_id=blake3.blake3(name.partition.encode()).digest(length=_STORE_ID_BYTES).hex(),
        core=0,
        slots=decode_layout(state.layout),
        wal_generation=0,
        wal_offset=length,
    )
    file = posixpath.basename(file_of(name, SEGMENT))
    try:
        write_segment(
            disk, name.partition, bundles, label=label, lost=lost, trusted=True, name=file
        )
    except MemoryError as error:
        raise out_of_memory() from error
    digest, size = blake3.blake3(), 0
    for piece in read_file(disk, file_of(name, SEGMENT), None):
        digest.update(piece)
        size += len(piece)
    return Finished(rows, digest.digest(), size)


def take_segment(
    disk: Disk, name: BlockName, parts: Iterable[bytes], *, finished: Finished, turn: int
) -> NewFile:
    """Write a segment that comes from elsewhere, synced and without its name, if it is the one.

    Two may come at once: ``turn`` tells their files apart. Raises DamagedEntry if it is another
    one; nothing is left of it then.
    """
    path = file_of(name, SEGMENT)
    file = NewFile(disk, f"{path}.{turn}{TEMPORARY}", mode=SEALED_MODE)
    digest = blake3.blake3()
    try:
        for part in parts:
            if file.size + len(part) > finished.size:
                break
            file.write(part)
            digest.update(part)
        else:
            if (file.size, digest.digest()) == (finished.size, finished.digest):
                file.sync()
                return file
        raise DamagedEntry(
            "a segment came that is not the one that was finished",
            path=disk.locate(path),
            expected=f"{finished.size:,} bytes, {finished.digest.hex()}",
            found=f"{file.size:,} bytes, {digest.hexdigest()}",
        )
    except BaseException:
        file.discard()
        raise


def check_segment(
    disk: Disk, name: BlockName, finished: Finished, *, pause: Callable[[int], None]
) -> None:
    """Read a segment anew; raises DamagedEntry if it is not the one that was finished.

    ``pause`` is told each number of bytes that was read, and may wait.
    """
    path = file_of(name, SEGMENT)
    digest = blake3.blake3()
    for piece in read_file(disk, path, finished.size):
        digest.update(piece)
        pause(len(piece))
    if digest.digest() != finished.digest:
        raise DamagedEntry(
            "a segment is rotten: its bytes are not those that were written",
            path=disk.locate(path),
            expected=finished.digest.hex(),
            found=digest.hexdigest(),
        )


def read_file(disk: Disk, path: str, size: int | None) -> Iterator[bytes]:
    """Read a file, a piece at a time; raises DamagedEntry if it has another size."""
    file = disk.open(path)
    try:
        found = file.size()
        if size is not None and found != size:
            raise DamagedEntry(
                "a segment has another size", path=disk.locate(path), expected=size, found=found
            )
        for offset in range(0, found, _PIECE):
            yield file.read(offset, min(_PIECE, found - offset))
    finally:
        file.close()
