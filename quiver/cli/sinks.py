"""What sinks have left beside the cores: staged files, records, unfinished intakes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from quiver.cli.audit import Finding
from quiver.cli.inspect import core_numbers, listing
from quiver.cli.output import count
from quiver.disk import Disk
from quiver.engine.intake_journal import (
    DOUBT,
    SINKS,
    audit_done,
    is_decided,
    read_done,
    read_intake,
)
from quiver.engine.numbers import STAGING
from quiver.errors import DamageError
from quiver.units import format_bytes

__all__ = ["audit_sinks", "sink_fields", "sink_items", "staging_fields"]

_UNFINISHED = "was decided to be taken in, and is not finished; the next open finishes it"
_FORGOTTEN = "the sink refuses its next batch; without the file, that batch may come twice"
_ONE_COPY = "the other one is sound, and the next batch writes both"
_DOUBT = "it is not known whether the last batch of the sink is in; it refuses more until somebody "
_DOUBT += "has looked and removed this file"


def audit_sinks(disk: Disk) -> Iterator[Finding]:
    """Check records and intakes, and say what is staged."""
    for core in core_numbers(disk):
        if is_decided(disk, core):
            try:
                intake = read_intake(disk, core)
            except DamageError as error:
                yield _damage(error)
                continue
            text = f"{count(len(intake.segment_seqs), 'segment')} {_UNFINISHED}"
            yield Finding("note", "store", disk.locate(f"core_{core}/segments"), text)
    for entry in listing(disk, SINKS):
        if entry.name.endswith(".json"):
            sink = entry.name.removesuffix(".json")
            for fault in audit_done(disk, sink):
                yield _damage(fault, hint=_ONE_COPY if _is_known(disk, sink) else _FORGOTTEN)
        elif entry.name.endswith(DOUBT):
            yield Finding("note", "store", disk.locate(f"{SINKS}/{entry.name}"), _DOUBT)
    found = staging_fields(disk)
    if found["file_count"]:
        text = f"{count(found['file_count'], 'file')}, {format_bytes(found['file_bytes'])}, "
        text += "staged by jobs that are under way, or dead; quiver gc removes what is old"
        yield Finding("note", "store", disk.locate(STAGING), text)


def sink_items(disk: Disk) -> Iterator[dict[str, Any]]:
    """Give each sink, and the last batch of it that is in; numbers are None if nobody knows."""
    names = [entry.name for entry in listing(disk, SINKS)]
    records = {name.removesuffix(".json") for name in names if name.endswith(".json")}
    doubts = {name.removesuffix(DOUBT) for name in names if name.endswith(DOUBT)}
    for sink in sorted(records | doubts):
        try:
            done = read_done(disk, sink)
        except DamageError:
            done = None
        yield {
            "sink": sink,
            "batch_id": done and done.batch_id,
            "core": done and done.core,
            "segment_count": done and len(done.segment_seqs),
            "row_count": done and done.row_count,
            "is_known": done is not None and sink not in doubts,
        }


def sink_fields(disk: Disk) -> dict[str, int]:
    """Count sinks, and those of which it is not known what they have in."""
    items = list(sink_items(disk))
    return {
        "sink_count": len(items),
        "doubt_count": sum(not item["is_known"] for item in items),
    }


def _is_known(disk: Disk, sink: str) -> bool:
    try:
        return read_done(disk, sink) is not None
    except DamageError:
        return False


def _damage(error: DamageError, *, hint: str = "") -> Finding:
    return Finding("damage", "store", error.path, error.message, hint=hint or error.hint)


def staging_fields(disk: Disk) -> dict[str, Any]:
    """Count what is staged."""
    files = [entry for entry in listing(disk, STAGING) if entry.is_file]
    return {"file_count": len(files), "file_bytes": sum(entry.size for entry in files)}
