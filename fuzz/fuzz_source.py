"""The files of a source: any bytes are epochs, a register, damage or a newer version.

::

    flags u8 | file
"""

from __future__ import annotations

from contextlib import closing

from crc32c import crc32c

from quiver.errors import ConfigError, DamageError, VersionError
from quiver.source.files.register import REGISTER_NAME, Register
from quiver.source.format import (
    FileEntry,
    decode_epochs,
    decode_line,
    encode_epochs,
    encode_line,
)
from quiver.testing import ManualClock, MemoryDisk

REPAIR = 1
SPLITS = 2
OWN = FileEntry("own.csv", 3, 4)


def one_input(data: bytes) -> None:
    if not data:
        return
    flags, file = data[0], data[1:]
    if flags & REPAIR:
        file = repaired(file)
    check_lines(file)
    check_epochs(file)
    check_register(file)


def repaired(data: bytes) -> bytes:
    """Give each line its checksum."""
    lines = data.split(b"\n")
    whole = [b"%08x %b" % (crc32c(line[9:]), line[9:]) for line in lines[:-1]]
    return b"\n".join([*whole, lines[-1]])


def check_lines(data: bytes) -> None:
    for line in data.split(b"\n")[:-1]:
        try:
            value = decode_line(line + b"\n")
        except DamageError:
            continue
        assert encode_line(value) == line + b"\n"


def check_epochs(data: bytes) -> None:
    try:
        epochs = decode_epochs(data)
    except (DamageError, VersionError):
        return
    assert decode_epochs(encode_epochs(epochs)) == epochs
    assert len(epochs.epochs) <= data.count(b"\n")


def check_register(data: bytes) -> None:
    """Whatever is there is refused, or keeps its good lines and takes a file behind them."""
    disk = MemoryDisk()
    with closing(disk.create(REGISTER_NAME)) as file:
        file.write(0, data)
    register = Register(disk)
    try:
        register.open_to_extend(SPLITS, ManualClock())
    except (DamageError, VersionError, ConfigError):
        return
    with closing(disk.open(REGISTER_NAME)) as file:
        kept = file.read(0, file.size())
    assert data.startswith(kept)
    before = dict(register.known())
    register.extend([OWN])
    register.close()
    again = Register(disk)
    again.open_to_extend(SPLITS, ManualClock())
    assert again.head == register.head
    assert dict(again.known()) == before | {OWN.path: OWN}
    again.close()
