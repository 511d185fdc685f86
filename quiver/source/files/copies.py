"""The two copies of a register, each mended by the other.

They are equal byte for byte, so a line that rots in one is found at the same place in the other. A
last line that rots is not taken for one whose writing was cut short, unless it does so in both:
that would give other numbers to files that were read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

from quiver.disk import FILE_MODE, Disk, replace, write_new
from quiver.errors import DamageError, MissingError, QuiverError
from quiver.source.format import decode_line

__all__ = ["COPIES", "REGISTER_NAME", "lines_of", "make_copies", "mend"]

REGISTER_NAME: Final = "register"
COPIES: Final = (REGISTER_NAME, f"{REGISTER_NAME}.copy")


def make_copies(disk: Disk, head: bytes) -> None:
    """Make both, durable, of a first line."""
    for name in COPIES:
        write_new(disk, name, [head], mode=FILE_MODE)


def mend(disk: Disk) -> bool:
    """Make both equal, and end with the last line that one of them has; whether there is any.

    What an append that was cut short left is cut off. Raises DamageError if a line is damaged in
    both and good ones follow it, or if they are of two registers.
    """
    found = [_read(disk, name) for name in COPIES]
    if found == [None, None]:
        return False
    whole = _merge(disk, [data or b"" for data in found])
    if not whole:  # Whoever reads it says what is wrong with its first line.
        return True
    for name, data in zip(COPIES, found, strict=True):
        if data != whole:
            replace(disk, name, whole)
    return True


def _read(disk: Disk, name: str) -> bytes | None:
    try:
        file = disk.open(name, writable=True)
    except MissingError:
        return None
    with closing(file):
        file.settle()
        return file.read(0, file.size())


def _merge(disk: Disk, copies: list[bytes]) -> bytes:
    """Give the lines that one copy or the other has, up to the first that both lack."""
    lines: list[bytes] = []
    end = 0
    while good := set(filter(_is_line, {next(lines_of(data, end), b"") for data in copies})):
        if len(good) > 1:
            raise DamageError(
                f"{COPIES[0]} and {COPIES[1]} are of two registers",
                path=disk.locate(COPIES[0]),
                offset=end,
                hint="keep the one that is of this source, and take the other one away",
            )
        lines += good
        end += len(lines[-1])
    for name, data in zip(COPIES, copies, strict=True):
        if any(map(_is_line, list(lines_of(data, end))[1:])):
            raise DamageError(
                "lines are damaged in front of good ones, in both copies",
                path=disk.locate(name),
                offset=end,
                hint="restore the register from a copy; the files it names were read",
            )
    return b"".join(lines)


def _is_line(line: bytes) -> bool:
    """Whether this is a sound line, whatever it says."""
    try:
        decode_line(line)
    except QuiverError:
        return False
    return True


def lines_of(data: bytes, start: int = 0) -> Iterator[bytes]:
    """Give the lines from a place on, and what is behind the last of them, if anything is."""
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        yield data[start:end]
        start = end
