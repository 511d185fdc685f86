"""Pieces are written as one write would write them, also where the system takes only some of it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from quiver.disk import LocalDisk, write_parts
from quiver.errors import CapacityError
from quiver.testing import MemoryDisk

PARTS = [b"one", memoryview(bytearray(b"-two-")), b"", b"three"]
WHOLE = b"one-two-three"


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_pieces_lie_one_after_the_other(kind: str, tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path) if kind == "local" else MemoryDisk()
    file = disk.create("file")
    file.write(0, b"..")
    assert write_parts(file, 2, PARTS) == len(WHOLE)
    assert file.read(0, 100) == b".." + WHOLE


@pytest.mark.parametrize("taken", range(len(WHOLE)))
def test_a_short_write_is_gone_on_with(taken: int, tmp_path: Path, monkeypatch) -> None:
    file = LocalDisk(tmp_path).create("file")
    monkeypatch.setattr(
        os, "pwritev", lambda fd, parts, offset: os.pwrite(fd, b"".join(parts)[:taken], offset)
    )
    assert write_parts(file, 5, PARTS) == len(WHOLE)
    assert file.read(5, 100) == WHOLE


def test_a_full_disk_is_told_as_such(tmp_path: Path, monkeypatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = LocalDisk(tmp_path).create("file")
    monkeypatch.setattr(os, "pwritev", full)
    with pytest.raises(CapacityError, match="cannot write"):
        write_parts(file, 0, PARTS)
