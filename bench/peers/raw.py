"""Raw writing of the same bytes with nothing around: what the disk gives a store at most.

A frame is ready before anything is measured. An append computes its checksum and writes it to the
log; a second thread writes the second copy of it, in files of the size of a segment. There is no
index, and nothing is encoded or given back. Frames are padded to what O_DIRECT asks for.
"""

from __future__ import annotations

import errno
import mmap
import os
import platform
import struct
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from crc32c import crc32c

from bench.peers.peer import Bundle, Mode, Peer, decode

__all__ = ["Raw", "RawLog", "RawTuned", "takes_direct"]

INTERVAL: Final = 0.025
_HEAD: Final = struct.Struct("<III")
"""Size of the frame, size of the value in it, and its checksum."""
_BLOCK: Final = 512
_PIECE_BYTES: Final = 4 << 20
_VECTORS: Final = 1024
"""So many at a time the kernel takes."""


def takes_direct(folder: Path) -> bool:
    """Say if files of a folder can be written with O_DIRECT."""
    try:
        file = os.open(folder / "direct", os.O_WRONLY | os.O_CREAT | os.O_DIRECT, 0o600)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return False
        raise
    os.close(file)
    (folder / "direct").unlink()
    return True


class RawLog(Peer):
    name = "raw-log"
    settings = (
        "no store: ready frames, their CRC32C, one file, fdatasync; a single copy. Read from the "
        "file where it is mapped, checksums checked"
    )

    def __init__(self, folder: Path, mode: Mode) -> None:
        super().__init__(folder, mode)
        self._frames: dict[int, tuple[Bundle, mmap.mmap]] = {}
        self._end = 0

    @classmethod
    def version(cls) -> str:
        return f"Linux {platform.release().split('-')[0]}"

    def ready(self, bundles: Sequence[Bundle], byte_count: int) -> None:
        del byte_count
        for bundle in bundles:
            self._frame(bundle)

    def _frame(self, bundle: Bundle) -> mmap.mmap:
        """Give the frame of a bundle, in memory that begins a page."""
        known = self._frames.get(id(bundle))
        if known is not None:
            return known[1]
        value = self._encoder.encode(bundle)
        size = -(-(_HEAD.size + len(value)) // _BLOCK) * _BLOCK
        frame = mmap.mmap(-1, size)
        frame[: _HEAD.size] = _HEAD.pack(size, len(value), crc32c(value))
        frame[_HEAD.size : _HEAD.size + len(value)] = value
        self._frames[id(bundle)] = bundle, frame  # As long as it is kept its id is its own.
        return frame

    def open(self) -> None:
        self._log = os.open(self.folder / "log", self._flags(), 0o600)

    def _flags(self) -> int:
        return os.O_RDWR | os.O_CREAT

    def append(self, bundle: Bundle) -> None:
        frame = self._frame(bundle)
        crc32c(memoryview(frame)[_HEAD.size :])
        if os.pwrite(self._log, frame, self._end) != len(frame):
            raise OSError("written in part")
        self._end += len(frame)
        self._appended += 1
        if self.mode == "each":
            self.commit()

    def commit(self) -> None:
        os.fdatasync(self._log)
        super().commit()

    def close(self) -> None:
        os.close(self._log)

    def read_all(self) -> Iterator[Bundle]:
        with open(self.folder / "log", "rb") as file:
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        at = 0
        while at + _HEAD.size <= len(view):
            size, length, checksum = _HEAD.unpack_from(view, at)
            value = view[at + _HEAD.size : at + _HEAD.size + length]
            if size == 0 or len(value) < length or crc32c(value) != checksum:
                break
            yield decode(value)
            at += size


class Raw(RawLog):
    name = "raw"
    settings = (
        "no store: the same, and a second thread that writes the same frames again: files of "
        "32 MiB, fdatasync, rename, fsync of the folder, one behind the other; who appends waits "
        "when the next one is due before, nobody for the last. Both copies through the page cache"
    )
    direct = 0
    segment_bytes = 32 << 20

    def open(self) -> None:
        super().open()
        self._place = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        self._scribe = ThreadPoolExecutor(1)
        self._scribe.submit(int).result()  # The thread is there.
        self._writing: Future[None] | None = None
        self._segments = 0
        self._open: list[mmap.mmap] = []
        self._open_bytes = 0

    def append(self, bundle: Bundle) -> None:
        super().append(bundle)
        frame = self._frame(bundle)
        self._open.append(frame)
        self._open_bytes += len(frame)
        if self._open_bytes >= self.segment_bytes:
            if self._writing is not None:
                self._writing.result()
            self._segments += 1
            self._writing = self._scribe.submit(self._write, self._segments, self._open)
            self._open, self._open_bytes = [], 0

    def _write(self, number: int, frames: list[mmap.mmap]) -> None:
        """Write a segment, durable with its name when this returns."""
        temporary = f"segment-{number}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | self.direct
        file = os.open(temporary, flags, 0o600, dir_fd=self._place)
        try:
            for piece in _pieces(frames):
                if os.writev(file, piece) != sum(map(len, piece)):
                    raise OSError("written in part")
            os.fdatasync(file)
        finally:
            os.close(file)
        os.rename(temporary, f"segment-{number}", src_dir_fd=self._place, dst_dir_fd=self._place)
        os.fsync(self._place)

    def close(self) -> None:
        self._scribe.shutdown()
        if self._writing is not None:
            self._writing.result()
        os.close(self._place)
        super().close()


def _pieces(frames: list[mmap.mmap]) -> Iterator[list[mmap.mmap]]:
    piece: list[mmap.mmap] = []
    size = 0
    for frame in frames:
        piece.append(frame)
        size += len(frame)
        if size >= _PIECE_BYTES or len(piece) == _VECTORS:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


class RawTuned(Raw):
    name = "raw-tuned"
    settings = (
        "no store: the same as fast as we could make it: segments with O_DIRECT, the log in a file "
        "that was written before, as one that is used again; with 25 ms a third thread syncs it, "
        "for each append it is written with O_DIRECT"
    )
    direct = os.O_DIRECT

    def _flags(self) -> int:
        return super()._flags() | (os.O_DIRECT if self.mode == "each" else 0)

    def ready(self, bundles: Sequence[Bundle], byte_count: int) -> None:
        super().ready(bundles, byte_count)
        zeros = mmap.mmap(-1, _PIECE_BYTES)
        for at in range(0, byte_count, len(zeros)):
            os.pwrite(self._log, zeros, at)
        os.fdatasync(self._log)

    def open(self) -> None:
        super().open()
        self._ended = threading.Event()
        self._failed: OSError | None = None
        self._acks = threading.Lock()
        self._syncing = threading.Thread(target=self._sync, daemon=True)
        if self.mode == "group":
            self._syncing.start()

    def _sync(self) -> None:
        """Sync again and again; what was appended before is acked behind it."""
        while not self._ended.wait(INTERVAL):
            appended = self._appended
            try:
                os.fdatasync(self._log)
            except OSError as error:
                self._failed = error
                return
            with self._acks:
                self.acked = max(self.acked, appended)

    def commit(self) -> None:
        if self._failed is not None:
            raise self._failed
        if self.mode == "each":
            super().commit()

    def drain(self) -> None:
        self.commit()
        os.fdatasync(self._log)
        with self._acks:
            self.acked = self._appended

    def close(self) -> None:
        self._ended.set()
        if self.mode == "group":
            self._syncing.join()
        super().close()
