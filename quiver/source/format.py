"""What a source keeps on disk: lines of canonical JSON, each behind its checksum.

::

    8 hex digits of CRC32C | blank | JSON of one record, ASCII, no newline in it | newline

Two files are made of such lines. **epochs** is written anew each time, as a whole: a head, a line
for each epoch, and an end that counts them. **register** only grows: a head, and a line for each
group of files that were found together. ``FORMAT.md`` has the tables.

Pure: bytes in, values out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from crc32c import crc32c

from quiver.errors import DamagedEntry, TornEntry, VersionError
from quiver.source.states import canonical

__all__ = [
    "EPOCHS",
    "GROUP_MAX",
    "REGISTER",
    "SPLITS_MAX",
    "VERSION",
    "EpochStates",
    "Epochs",
    "FileEntry",
    "Head",
    "SplitState",
    "decode_epochs",
    "decode_group",
    "decode_head",
    "decode_line",
    "encode_epochs",
    "encode_group",
    "encode_head",
    "encode_line",
]

EPOCHS: Final = "quiver source epochs"
REGISTER: Final = "quiver source register"
VERSION: Final = 1
GROUP_MAX: Final = 1000
"""How many files one line of a register has at most."""
SPLITS_MAX: Final = 1024

_SUM: Final = 9
_NUMBER_MAX: Final = (1 << 63) - 1


class SplitState(NamedTuple):
    """Where a split is: ``state`` counts as of epoch ``as_of``; ``held`` says whether it is read.

    Of two states of one split the one with the greater ``as_of`` is the newer.
    """

    state: str | None
    as_of: int = 0
    held: bool = False


@dataclass(frozen=True, slots=True)
class EpochStates:
    """The states of all splits at one barrier."""

    epoch: int
    splits: Mapping[str, SplitState]


@dataclass(frozen=True, slots=True)
class Epochs:
    """All of a file ``epochs``: epochs rise, ``committed`` is the last one known to be safe."""

    connector: str
    committed: int = 0
    epochs: tuple[EpochStates, ...] = field(default=())


class FileEntry(NamedTuple):
    """A file as it was when it was found, and for ever."""

    path: str
    size: int
    modified_ns: int


class Head(NamedTuple):
    """The first line of a register: which one it is, and over how many splits its files go."""

    register_id: str
    split_count: int


def encode_line(value: object) -> bytes:
    """Write one line."""
    body = canonical(value).encode("ascii")
    return b"%08x %b\n" % (crc32c(body), body)


def decode_line(line: bytes) -> dict[str, object]:
    """Read one line, with the newline at its end.

    Raises TornEntry if it has none, DamagedEntry if it is wrong in any other way.
    """
    if not line.endswith(b"\n"):
        raise TornEntry("a line does not end", found=len(line))
    body = line[_SUM:-1]
    expected = b"%08x " % crc32c(body)
    if line[:_SUM] != expected:
        raise DamagedEntry(
            "the checksum of a line is wrong",
            expected=expected[:8].decode(),
            found=line[:8].decode("ascii", "replace"),
        )
    try:
        value = json.loads(body)
        again = canonical(value).encode()
    except (ValueError, RecursionError) as error:
        raise DamagedEntry("a line is no JSON") from error
    if not isinstance(value, dict) or again != body:
        raise DamagedEntry("a line is not in the form in which it is written")
    return value


def encode_epochs(file: Epochs) -> bytes:
    """Write a whole file of epochs."""
    head = {
        "committed": file.committed,
        "connector": file.connector,
        "format": EPOCHS,
        "version": VERSION,
    }
    lines = [encode_line(head)]
    for states in file.epochs:
        splits = {name: list(state) for name, state in states.splits.items()}
        lines.append(encode_line({"epoch": states.epoch, "splits": splits}))
    lines.append(encode_line({"end": len(file.epochs)}))
    return b"".join(lines)


def decode_epochs(data: bytes) -> Epochs:
    """Read a whole file of epochs; raises TornEntry, DamagedEntry or VersionError."""
    lines = list(_lines(data))
    if not lines:
        raise TornEntry("the file is empty")
    head = lines[0][1]
    _check_version(head, EPOCHS)
    connector, committed = head.get("connector"), head.get("committed")
    if not isinstance(connector, str) or not _is_number(committed) or len(head) != len(_HEAD):
        raise DamagedEntry("the head of the epochs is wrong")
    last_offset, last = lines[-1]
    if len(lines) < 2 or set(last) != {"end"}:  # noqa: PLR2004 The head and the end.
        raise TornEntry("the epochs do not end", offset=last_offset)
    epochs = [_epoch(value, offset) for offset, value in lines[1:-1]]
    if last["end"] != len(epochs) or isinstance(last["end"], bool):
        raise DamagedEntry(
            "the epochs do not add up", offset=last_offset, expected=last["end"], found=len(epochs)
        )
    numbers = [states.epoch for states in epochs]
    if numbers != sorted(set(numbers)):
        raise DamagedEntry("the epochs do not rise", found=numbers)
    return Epochs(connector, _number(committed), tuple(epochs))


_HEAD: Final = ("committed", "connector", "format", "version")


def _lines(data: bytes) -> Iterator[tuple[int, dict[str, object]]]:
    offset = 0
    while offset < len(data):
        line = data[offset : (data.find(b"\n", offset) + 1) or len(data)]
        try:
            yield offset, decode_line(line)
        except (TornEntry, DamagedEntry) as error:
            raise error.at("", base=offset) from error
        offset += len(line)


def _epoch(value: Mapping[str, object], offset: int) -> EpochStates:
    number, splits = value.get("epoch"), value.get("splits")
    if set(value) != {"epoch", "splits"} or not _is_number(number) or not isinstance(splits, dict):
        raise DamagedEntry("this is no epoch", offset=offset)
    found = {}
    for name, parts in splits.items():
        if not isinstance(parts, list) or len(parts) != len(SplitState._fields):
            raise DamagedEntry(f"split {name!r} has no state", offset=offset)
        state, as_of, held = parts
        is_state = state is None or isinstance(state, str)
        if not is_state or not _is_number(as_of) or not isinstance(held, bool):
            raise DamagedEntry(f"the state of split {name!r} is none", offset=offset)
        found[name] = SplitState(state, as_of, held)
    return EpochStates(_number(number), found)


def encode_head(head: Head) -> bytes:
    """Write the first line of a register."""
    return encode_line(
        {
            "format": REGISTER,
            "id": head.register_id,
            "splits": head.split_count,
            "version": VERSION,
        }
    )


def decode_head(line: bytes) -> Head:
    """Read the first line of a register; raises TornEntry, DamagedEntry or VersionError."""
    value = decode_line(line)
    _check_version(value, REGISTER)
    name, count = value.get("id"), value.get("splits")
    if set(value) != {"format", "id", "splits", "version"} or not isinstance(name, str):
        raise DamagedEntry("the head of the register is wrong")
    if not _is_number(count) or not 1 <= _number(count) <= SPLITS_MAX:
        raise DamagedEntry("the register is for no number of splits", found=count)
    return Head(name, _number(count))


def encode_group(first: int, files: Sequence[FileEntry]) -> bytes:
    """Write one line of a register: files with the numbers ``first``, ``first`` + 1, ..."""
    return encode_line({"files": [list(entry) for entry in files], "first": first})


def decode_group(line: bytes, first: int) -> list[FileEntry]:
    """Read one line, which has to begin with file number ``first``."""
    value = decode_line(line)
    files, found = value.get("files"), value.get("first")
    if set(value) != {"files", "first"} or not isinstance(files, list) or not files:
        raise DamagedEntry("a line of the register names no files")
    if len(files) > GROUP_MAX:
        raise DamagedEntry("a line has too many files", expected=GROUP_MAX, found=len(files))
    if found != first or isinstance(found, bool):
        raise DamagedEntry("files are missing in the register", expected=first, found=found)
    return [_file(parts) for parts in files]


def _file(parts: object) -> FileEntry:
    if isinstance(parts, list) and len(parts) == len(FileEntry._fields):
        path, size, modified_ns = parts
        if isinstance(path, str) and path and _is_number(size) and _is_number(modified_ns):
            return FileEntry(path, size, modified_ns)
    raise DamagedEntry("a line of the register has something that is no file")


def _check_version(value: Mapping[str, object], name: str) -> None:
    if value.get("format") != name:
        raise DamagedEntry("this is another file", expected=name, found=value.get("format"))
    version = value.get("version")
    if not _is_number(version) or version == 0:
        raise DamagedEntry("the version is none", found=version)
    if version != VERSION:
        raise VersionError(
            f"{name} has format version {version}, this Quiver reads {VERSION}",
            hint="install a newer Quiver",
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _NUMBER_MAX


def _number(value: object) -> int:
    assert isinstance(value, int)  # noqa: S101 As was looked up.
    return value
