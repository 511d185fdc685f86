"""What a core was about to take in at once, and what each sink has got in.

::

    staging/<sink>.<job>.<task>.<n>.qseg     built, durable, seen by no reader
    core_0/segments/<seq>.qseg.taken         its copy under the numbers of the core, not decided
    core_0/intake.json                       decided: these copies become segments
    sinks/<sink>.json                        the last batch that is in

``intake.json`` decides: before it there are copies that the next opening of the core removes, from
it on they become segments, whoever opens the core. Numbers were given under the lock of the core,
and nobody gets another one there before they are used: a recovery does this first. The copies are
named one by one and each name is durable before the next one comes, so that no reader finds a
segment behind one that it has passed.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from dataclasses import fields as fields_of
from typing import Any, Final

from crc32c import crc32c

from quiver.disk import TEMPORARY, Disk, copy_file, remove, replace
from quiver.engine.numbers import STAGING, core_folder
from quiver.errors import DamagedEntry, DamageError, InputError, VersionError
from quiver.segment import parse_segment_name, segment_name

__all__ = [
    "JOURNAL_NAME",
    "SINKS",
    "TAKEN",
    "Done",
    "Intake",
    "decide",
    "is_decided",
    "read_done",
    "read_intake",
    "settle_intake",
    "taken_name",
]

JOURNAL_NAME: Final = "intake.json"
SINKS: Final = "sinks"
"""The folder of what sinks have got in."""
TAKEN: Final = ".taken"

_FORMAT: Final = 1
_BYTES_MAX: Final = 64 << 20
_SINK: Final = re.compile(r"[0-9A-Za-z_-]*", re.ASCII)
_STAGED: Final = re.compile(rf"{STAGING}/[^/\0]+\.qseg")


@dataclass(frozen=True, slots=True)
class Intake:
    """Segments that a core takes in at once; ``sink`` is empty if nobody will ask for it."""

    sink: str
    batch_id: int
    segment_seqs: tuple[int, ...]
    row_count: int
    staged: tuple[str, ...]
    """Files that are of no use any more."""


@dataclass(frozen=True, slots=True)
class Done:
    """The last batch of a sink that is in, and where it is."""

    sink: str
    batch_id: int
    core: int
    segment_seqs: tuple[int, ...]
    row_count: int


def taken_name(segment_seq: int) -> str:
    """Name a copy that is not decided yet."""
    return segment_name(segment_seq) + TAKEN


def is_decided(disk: Disk, number: int) -> bool:
    """Whether a core has something to take in that nobody has finished yet."""
    return disk.stat(f"{core_folder(number)}/{JOURNAL_NAME}") is not None


def decide(disk: Disk, number: int, intake: Intake) -> None:
    """Write down that the copies become segments; this survives a power cut when it returns."""
    replace(disk, f"{core_folder(number)}/{JOURNAL_NAME}", _encode(asdict(intake)))


def settle_intake(disk: Disk, number: int, *, strict: bool = False) -> list[DamageError]:
    """Bring to an end what was decided, and remove what was not; for who has the lock of the core.

    May be broken off anywhere and done again. Gives what was found to be damaged; raises it if it
    is ``strict``, and the decision stays.
    """
    folder = core_folder(number)
    journal, segments = f"{folder}/{JOURNAL_NAME}", f"{folder}/segments"
    remove(disk, journal + TEMPORARY)
    copies = _copies(disk, segments)
    if disk.stat(journal) is None:
        for name in copies:
            remove(disk, f"{segments}/{name}")
        return []
    disk.sync_dir(folder)  # Whoever wrote it may have been killed before it was durable.
    damage: list[DamageError] = []
    intake = _read_intake(disk, number, damage)
    if strict and damage:
        raise damage[0]
    for name in copies:
        if name.endswith(TAKEN):
            disk.rename(f"{segments}/{name}", f"{segments}/{name.removesuffix(TAKEN)}")
            disk.sync_dir(segments)
    if intake is not None:
        damage += _missing(disk, segments, intake)
        if strict and damage:
            raise damage[0]
        if intake.sink:
            _write_done(disk, number, intake)
        for path in intake.staged:
            remove(disk, path)
    disk.unlink(journal)
    disk.sync_dir(folder)
    return damage


def _copies(disk: Disk, segments: str) -> list[str]:
    """List the copies of a core, lowest number first, and what was to become one."""
    names = [] if disk.stat(segments) is None else [entry.name for entry in disk.list_dir(segments)]
    return sorted(
        name
        for name in names
        if name.removesuffix(TEMPORARY).endswith(TAKEN)
        and parse_segment_name(name.removesuffix(TEMPORARY).removesuffix(TAKEN)) is not None
    )


def read_intake(disk: Disk, number: int) -> Intake:
    """Read what a core is about to take in, if that is decided.

    Raises DamagedEntry or VersionError.
    """
    return Intake(**_decode(disk, f"{core_folder(number)}/{JOURNAL_NAME}", Intake))


def _read_intake(disk: Disk, number: int, damage: list[DamageError]) -> Intake | None:
    """Do so; what cannot be read was decided as well, and only its sink is not known."""
    folder = core_folder(number)
    try:
        return read_intake(disk, number)
    except DamageError as error:
        copy_file(disk, f"{folder}/quarantine", f"{folder}/{JOURNAL_NAME}", error=error)
        damage.append(error)
        return None


def _missing(disk: Disk, segments: str, intake: Intake) -> list[DamageError]:
    paths = [f"{segments}/{segment_name(seq)}" for seq in intake.segment_seqs]
    return [
        DamagedEntry("a segment that was to be taken in is gone", path=disk.locate(path))
        for path in paths
        if disk.stat(path) is None
    ]


def _write_done(disk: Disk, number: int, intake: Intake) -> None:
    done = Done(intake.sink, intake.batch_id, number, intake.segment_seqs, intake.row_count)
    disk.make_dir(SINKS)
    disk.sync_dir("")
    replace(disk, f"{SINKS}/{intake.sink}.json", _encode(asdict(done)))


def read_done(disk: Disk, sink: str) -> Done | None:
    """Read what a sink has got in; None if it is not known. Raises DamagedEntry."""
    path = f"{SINKS}/{sink}.json"
    if disk.stat(path) is None:
        return None
    return Done(**_decode(disk, path, Done))


def _encode(fields: dict[str, Any]) -> bytes:
    fields = {"format": _FORMAT, **fields}
    fields["crc32c"] = _checksum(fields)
    return (json.dumps(fields) + "\n").encode()


def _checksum(fields: dict[str, Any]) -> str:
    return f"{crc32c(json.dumps(fields, sort_keys=True).encode()):08x}"


def _decode(disk: Disk, path: str, kind: type[Intake | Done]) -> dict[str, Any]:
    """Read the fields of a file that ``_encode`` made; VersionError if it is of a newer format."""
    file = disk.open(path)
    try:
        data = file.read(0, min(file.size(), _BYTES_MAX))
    finally:
        file.close()
    try:
        fields = json.loads(data)
        if fields.pop("crc32c") != _checksum(fields):
            raise InputError("its checksum is wrong")
        if (version := int(fields.pop("format"))) == _FORMAT:
            return _checked(fields, kind)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedEntry(f"it cannot be read: {error}", path=disk.locate(path)) from error
    raise VersionError(
        f"{disk.locate(path)} has format {version}, this Quiver reads {_FORMAT}",
        hint="install a newer Quiver",
    )


def _checked(fields: dict[str, Any], kind: type[Intake | Done]) -> dict[str, Any]:
    """Refuse what nobody of us writes: names lead to files that are replaced or removed."""
    if fields.keys() != {field.name for field in fields_of(kind)}:
        raise InputError("it has other fields")
    names = ("segment_seqs", "staged")
    lists = {name: tuple(fields[name]) for name in names if name in fields}
    numbers = [fields[name] for name in ("batch_id", "row_count", "core") if name in fields]
    if not all(type(number) is int for number in [*numbers, *lists["segment_seqs"]]):
        raise InputError("a number is none")
    if min(lists["segment_seqs"], default=0) < 0:
        raise InputError("a number of a segment is negative")
    if not _SINK.fullmatch(fields["sink"]):
        raise InputError("it names no sink")
    if not all(_STAGED.fullmatch(path) for path in lists.get("staged", ())):
        raise InputError("what it names was never staged")
    return fields | lists
