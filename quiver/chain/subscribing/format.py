"""Records of a subscriber as texts: JSON in one form each, as ``FORMAT.md`` says."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, Final

from quiver.chain.subscribing.records import (
    Acked,
    Joined,
    LaneSnapshot,
    Nacked,
    Record,
    Rejected,
    Snapshot,
    Taken,
)
from quiver.errors import DamagedEntry, InputError, VersionError

__all__ = ["LATEST_NS", "VERSION", "decode_record", "encode_record"]

VERSION: Final = 2
"""Of a snapshot that says more than ``_FIRST`` can: whether the subscriber is paused."""
_FIRST: Final = 1
_MAX: Final = (1 << 63) - 1
LATEST_NS: Final = _MAX
"""No time that is written down is later."""
_TIMES: Final = frozenset({"start_ns", "time_ns"})
_TEXTS: Final = frozenset({"partition", "reason"})
_MAY_MISS: Final = frozenset({"start_ns", "next_seq"})
_PLAIN: Final[dict[str, type[Any]]] = {
    "join": Joined,
    "take": Taken,
    "ack": Acked,
    "nack": Nacked,
    "reject": Rejected,
}
_KINDS: Final = {kind: name for name, kind in _PLAIN.items()}
_BUNDLES_MAX: Final = 1 << 28
_SHOWN: Final = 80


def encode_record(record: Record) -> str:
    """Write a record; InputError if nobody could read it: that would cost all that is behind it."""
    if isinstance(record, Snapshot):
        fields: dict[str, object] = {
            "kind": "snapshot",
            "version": VERSION if record.is_paused else _FIRST,
            "wants_all": record.wants_all,
            "is_gone": record.is_gone,
            "lanes": [_lane_fields(lane) for lane in record.lanes],
        }
        if record.is_paused:
            fields["is_paused"] = True
    else:
        fields = {"kind": _KINDS[type(record)], **record._asdict()}
    try:
        _record(dict(fields))
    except DamagedEntry as error:
        raise InputError(f"nobody could read that of a subscriber: {error.message}") from error
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def decode_record(text: str) -> Record:
    """Read a record; DamagedEntry if it is none, VersionError if a newer program wrote it."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _fault("a record of a subscriber is no JSON", text) from error
    if not isinstance(found, dict):
        raise _fault("a record of a subscriber is of no known kind", None)
    return _record(found)


def _record(found: dict[str, Any]) -> Record:
    """Make a record of its fields."""
    kind = found.pop("kind", None)
    if kind == "snapshot":
        return _snapshot(found)
    if not isinstance(kind, str) or kind not in _PLAIN:
        raise _fault("a record of a subscriber is of no known kind", kind)
    record: Record = _plain(kind, found)
    return record


def _plain(kind: str, found: dict[str, object]) -> Any:  # noqa: ANN401 One of the plain kinds.
    made = _PLAIN[kind]
    _check_keys(found, made._fields)
    record = made(**{name: _value(name, found[name]) for name in made._fields})
    if isinstance(record, Acked) and not record.bundle_count:
        raise _fault("a run of bundles is empty", record.bundle_count)
    if isinstance(record, Taken) and not (
        0 < record.bundle_count <= min(record.end_seq - record.first_seq, _BUNDLES_MAX)
    ):
        raise _fault("a block has no such bundles", found)
    return record


def _lane_fields(lane: LaneSnapshot) -> dict[str, object]:
    return {
        **lane._asdict(),
        "blocks": [[*taken[1:], [list(run) for run in runs]] for taken, runs in lane.blocks],
        "nacks": [list(nack[1:]) for nack in lane.nacks],
        "letters": [list(letter[1:]) for letter in lane.letters],
    }


def _snapshot(found: dict[str, Any]) -> Snapshot:
    version = found.pop("version", None)
    if not _is_number(version) or version < 1:
        raise _fault("a snapshot has no version", version)
    if version > VERSION:
        raise VersionError(
            f"marks of a subscriber have version {version}, known is {VERSION}",
            hint="they were written by a newer Quiver: use that",
        )
    if version == _FIRST:
        _check_keys(found, Snapshot._fields[:-1])
        found["is_paused"] = False
    _check_keys(found, Snapshot._fields)
    wants_all, is_gone, lanes, is_paused = (found[name] for name in Snapshot._fields)
    flags = (wants_all, is_gone, is_paused)
    if any(type(flag) is not bool for flag in flags) or not isinstance(lanes, list):
        raise _fault("a snapshot says no such thing", found)
    read = tuple(_lane(lane) for lane in lanes)
    if len({lane.partition for lane in read}) != len(read):
        raise _fault("a snapshot has a partition twice", [lane.partition for lane in read])
    return Snapshot(wants_all, is_gone, read, is_paused)


def _lane(found: object) -> LaneSnapshot:
    if not isinstance(found, dict):
        raise _fault("a snapshot has something that is no partition", found)
    _check_keys(found, LaneSnapshot._fields)
    name = _value("partition", found["partition"])
    blocks = []
    for row in _rows(found["blocks"], len(Taken._fields)):
        taken = _plain("take", dict(zip(Taken._fields, [name, *row[:-1]], strict=True)))
        blocks.append((taken, _runs(row[-1], taken.bundle_count)))
    lane = LaneSnapshot(
        name,
        _value("floor", found["floor"]),
        _value("start_ns", found["start_ns"]),
        _value("next_number", found["next_number"]),
        _value("next_seq", found["next_seq"]),
        tuple(blocks),
        tuple(_row("nack", name, row) for row in _rows(found["nacks"], 4)),
        tuple(_row("reject", name, row) for row in _rows(found["letters"], 6)),
    )
    numbers = [lane.floor - 1, *(taken.block for taken, _ in blocks), lane.next_number]
    if any(low >= high for low, high in pairwise(numbers)):
        raise _fault("blocks of a snapshot are out of order", numbers)
    return lane


def _row(kind: str, partition: str, row: list[object]) -> Any:  # noqa: ANN401 As _plain.
    return _plain(kind, dict(zip(_PLAIN[kind]._fields, [partition, *row], strict=True)))


def _rows(found: object, length: int) -> list[list[Any]]:
    if not isinstance(found, list) or not all(
        isinstance(row, list) and len(row) == length for row in found
    ):
        raise _fault(f"a snapshot has no rows of {length}", found)
    return found


def _runs(found: object, bundle_count: int) -> tuple[tuple[int, int], ...]:
    end = -1
    runs = []
    for row in _rows(found, 2):
        first, count = (_value("run", number) for number in row)
        if first <= end or not count or first + count > bundle_count:
            raise _fault("runs of a snapshot are out of order", row)
        end = first + count
        runs.append((first, count))
    return tuple(runs)


def _value(name: str, value: Any) -> Any:  # noqa: ANN401 A number, or a text.
    if name in _MAY_MISS and value is None:
        return None
    if name in _TEXTS:
        if isinstance(value, str):
            return value
    elif _is_number(value):
        low = -_MAX - 1 if name in _TIMES else 0
        if low <= value <= _MAX:
            return value
    raise _fault(f"{name} of a record is no such thing", value)


def _is_number(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, int) and not isinstance(value, bool)


def _check_keys(found: dict[str, object], wanted: tuple[str, ...]) -> None:
    if set(found) != set(wanted):
        raise _fault("a record has other fields", sorted(found))


def _fault(message: str, found: object) -> DamagedEntry:
    return DamagedEntry(message, found=f"{found!r:.{_SHOWN}}")
