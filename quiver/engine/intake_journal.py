"""What a core was about to take in at once, and what each sink has got in.

::

    staging/<sink>.<job>.<task>.<n>.qseg     built, durable, seen by no reader
    core_0/segments/<seq>.qseg.taken         its copy under the numbers of the core, not decided
    core_0/intake.json                       decided: these copies become segments
    sinks/<sink>.json                        the last batch that is in
    sinks/<sink>.doubt                       a batch is in that may be of this sink, or of another

``intake.json`` decides: before it there are copies that the next opening of the core removes, from
it on they become segments, whoever opens the core. Numbers were given under the lock of the core,
and nobody gets another one there before they are used: a recovery does this first. The copies are
named one by one and each name is durable before the next one comes, so that no reader finds a
segment behind one that it has passed.

Both files are in themselves twice: whoever repeats a batch that nobody knows of would let it in
once more. If no copy of a decision can be read, its copies become segments all the same, and every
sink that had something staged is in doubt: it is refused until somebody has looked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
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
    "audit_done",
    "check_doubt",
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
DOUBT: Final = ".doubt"

_FORMAT: Final = 1
_BYTES_MAX: Final = 64 << 20
_FAULTS: Final = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""What a document raises that is not what it should be."""
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


def settle_intake(
    disk: Disk, number: int, *, strict: bool = False, certain: bool = False
) -> list[DamageError]:
    """Bring to an end what was decided, and remove what was not; for who has the lock of the core.

    May be broken off anywhere and done again. Gives what was found to be damaged; raises it if it
    is ``strict``, and, for who has to be ``certain``, if it leaves open what is in: the decision
    stays then.
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
    intake, damage = _read_intake(disk, number, aside=not strict)
    if damage and (strict or (certain and intake is None)):
        raise damage[0]
    if intake is None:
        _doubt(disk, number, damage[0])
    _name(disk, segments, copies)
    if intake is not None:
        missing = _missing(disk, segments, intake)
        if missing and (strict or certain):
            raise missing[0]
        damage += missing
        if intake.sink:
            _write_done(disk, number, intake)
        for path in intake.staged:
            remove(disk, path)
    disk.unlink(journal)
    disk.sync_dir(folder)
    return damage


def _name(disk: Disk, segments: str, copies: Sequence[str]) -> None:
    """Give copies their names, one after the other."""
    for name in copies:
        if name.endswith(TAKEN):
            disk.rename(f"{segments}/{name}", f"{segments}/{name.removesuffix(TAKEN)}")
            disk.sync_dir(segments)


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

    Raises DamagedEntry if no copy is sound, or VersionError.
    """
    fields, damage = _decode(disk, f"{core_folder(number)}/{JOURNAL_NAME}", Intake)
    if fields is None:
        raise damage[0]
    return Intake(**fields)


def _read_intake(
    disk: Disk, number: int, *, aside: bool
) -> tuple[Intake | None, list[DamageError]]:
    """Do so; what cannot be read was decided as well, and only its sink is not known."""
    folder = core_folder(number)
    path = f"{folder}/{JOURNAL_NAME}"
    fields, damage = _decode(disk, path, Intake)
    if damage and aside:
        copy_file(disk, f"{folder}/quarantine", path, error=damage[0])
    return None if fields is None else Intake(**fields), damage


def _doubt(disk: Disk, number: int, error: DamageError) -> None:
    """Write down of which sinks the batch may be that nobody can name any more.

    What it was staged as is removed only when the record of its sink is written.
    """
    staged = [] if disk.stat(STAGING) is None else disk.list_dir(STAGING)
    sinks = {entry.name.partition(".")[0] for entry in staged}
    named = sorted(sink for sink in sinks if sink != "_" and _SINK.fullmatch(sink))
    if named:
        disk.make_dir(SINKS)
        disk.sync_dir("")
    for sink in named:
        reason = {"core": number, "path": error.path, "reason": error.message}
        replace(disk, f"{SINKS}/{sink}{DOUBT}", (json.dumps(reason) + "\n").encode())


def check_doubt(disk: Disk, sink: str) -> None:
    """Raise DamagedEntry if it is not known whether the last batch of a sink is in."""
    path = f"{SINKS}/{sink}{DOUBT}"
    if disk.stat(path) is not None:
        raise DamagedEntry(
            f"whether the last batch of sink {sink} is in is not known: what told it was damaged",
            path=disk.locate(path),
            hint="look whether its rows are in the store; if they are not, remove this file, and "
            "if they are, begin with a new checkpoint or sinkId behind them",
        )


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
    """Read what a sink has got in; None if it is not known.

    Raises DamagedEntry if no copy is sound.
    """
    path = f"{SINKS}/{sink}.json"
    if disk.stat(path) is None:
        return None
    fields, damage = _decode(disk, path, Done)
    if fields is None:
        raise damage[0]
    return Done(**fields)


def audit_done(disk: Disk, sink: str) -> list[DamageError]:
    """Say what is wrong with the record of a sink, also if one copy is sound."""
    return _decode(disk, f"{SINKS}/{sink}.json", Done)[1]


def _encode(fields: dict[str, Any]) -> bytes:
    fields = {"format": _FORMAT, **fields}
    fields["crc32c"] = _checksum(fields)
    return 2 * (json.dumps(fields) + "\n").encode()


def _checksum(fields: dict[str, Any]) -> str:
    return f"{crc32c(json.dumps(fields, sort_keys=True).encode()):08x}"


def _decode(
    disk: Disk, path: str, kind: type[Intake | Done]
) -> tuple[dict[str, Any] | None, list[DamageError]]:
    """Read the fields of a file that ``_encode`` made, from its first sound copy, if there is one.

    Also says what is wrong with it. VersionError if it is of a newer format.
    """
    file = disk.open(path)
    try:
        data = file.read(0, min(file.size(), _BYTES_MAX))
    finally:
        file.close()
    half, first = len(data) // 2, data.find(b"\n") + 1
    damage: list[DamageError] = []
    for start, end in ((0, half), (half, len(data)), (0, first)):
        try:
            fields = _decode_copy(data[start:end], disk.locate(path), kind)
        except DamageError as error:
            damage.append(error.at(error.path, base=start))
            continue
        if data[:half] == data[half:] or end == len(data) == first:
            return fields, []
        fault = DamagedEntry("one of its two copies is damaged", path=disk.locate(path))
        return fields, [fault]
    return None, damage[:1]


def _decode_copy(data: bytes, where: str, kind: type[Intake | Done]) -> dict[str, Any]:
    try:
        fields = json.loads(data)
        if fields.pop("crc32c") != _checksum(fields):
            raise InputError("its checksum is wrong")
        if (version := int(fields.pop("format"))) == _FORMAT:
            return _checked(fields, kind)
    except _FAULTS as error:
        raise DamagedEntry(f"it cannot be read: {error}", path=where) from error
    raise VersionError(
        f"{where} has format {version}, this Quiver reads {_FORMAT}",
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
