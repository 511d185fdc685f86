"""``quiver info``: one line per station, in the order of the flow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from quiver.cli.output import Output, brief_time, count, format_time
from quiver.cli.program import verb
from quiver.units import format_bytes

if TYPE_CHECKING:
    from quiver.disk import Disk
    from quiver.manifest import StoreManifest
    from quiver.payload import EncodedBundle
    from quiver.segment import Catalog

__all__ = ["info"]

Fields = dict[str, Any]


@verb(
    "info",
    examples=(
        ("quiver info store", "one line for each station"),
        ("quiver info store --json | jq '.cores[0].segments.bundle_count'", "for programs"),
    ),
)
@click.argument("folder", metavar="DIR")
def info(output: Output, *, folder: str) -> None:
    """Describe a store, one line per station.

    Takes no lock and changes nothing, so it may be used while the store is being written. What it
    says was true when each file was read.
    """
    from quiver.cli.followed import source_fields
    from quiver.cli.inspect import core_numbers, open_folder
    from quiver.cli.sinks import sink_fields, staging_fields
    from quiver.manifest import FORMAT_VERSION, StoreManifest

    disk = open_folder(folder)
    manifest = StoreManifest.read(disk)
    cores = [_describe(disk, core, manifest) for core in core_numbers(disk)]
    slots = [
        {
            "slot_id": slot.slot_id,
            "name": slot.name,
            "payload_type_id": slot.payload_type_id,
            "event_time_column": slot.event_time,
        }
        for slot in manifest.slots
    ]
    fields: Fields = {
        "path": disk.root,
        "store_id": manifest.store_id,
        "format_version": FORMAT_VERSION,
        "layout_digest": manifest.layout_digest.hex(),
        "slots": slots,
        "cores": cores,
        "staging": staging_fields(disk),
        "sources": source_fields(disk),
        "sinks": sink_fields(disk),
    }
    if output.as_json:
        output.document(fields)
        return
    names = ", ".join(slot.name for slot in manifest.slots)
    rows = [("store", f"{disk.root}, id {manifest.store_id}, format {FORMAT_VERSION}")]
    rows.append(("slots", names))
    for core in cores:
        if len(cores) > 1:
            rows.append((f"core {core['core']}", ""))
        rows += _lines(core)
    if staged := fields["staging"]["file_count"]:
        staging_bytes = format_bytes(fields["staging"]["file_bytes"])
        rows.append(("staging", f"{count(staged, 'file')}, {staging_bytes}, for sinks to commit"))
    rows += _others(fields["sources"], fields["sinks"])
    output.facts(rows)


def _others(sources: Fields, sinks: Fields) -> list[tuple[str, str]]:
    """Say what of sources and sinks there is; nothing of what there is not."""
    rows = []
    if sources["source_count"] or sources["loss_count"]:
        text = (
            f"{count(sources['source_count'], 'source')}, {count(sources['split_count'], 'split')}"
        )
        lost = sources["loss_count"]
        text += f"; how far they were read is lost in {count(lost, 'core')}" if lost else ""
        rows.append(("sources", text))
    if sinks["sink_count"]:
        doubts = sinks["doubt_count"]
        text = count(sinks["sink_count"], "sink")
        rows.append(("sinks", text + (f", {doubts:,} of them in doubt" if doubts else "")))
    return rows


def _describe(disk: Disk, core: int, manifest: StoreManifest) -> Fields:
    """Read one core, station by station."""
    from quiver.cli.inspect import load_segments
    from quiver.cli.outcomes import subscriber_fields
    from quiver.engine.beside import read_acks
    from quiver.engine.migration import layout_of_log

    catalog, damaged = load_segments(disk, core)
    acks = read_acks(disk, core, {i.segment_seq: i.bundle_count for i in catalog})
    covered = acks.floor.next_wal_seq - 1
    if catalog.covered_wal_seq is not None:
        covered = max(covered, catalog.covered_wal_seq)
    digest = layout_of_log(disk, core, manifest)
    wal, held = _wal(disk, core, catalog, digest=digest, covered=covered)
    quarantine = _quarantine(disk, core)
    used = wal["used_bytes"] + catalog.segment_bytes + quarantine["quarantine_bytes"]
    used += (acks.log_bytes or 0) + (acks.checkpoint_bytes or 0)
    return {
        "core": core,
        "wal": wal,
        "open_segment": held,
        "segments": _segments(catalog, damage_count=len(damaged)),
        "subscribers": [subscriber_fields(acks, catalog, name) for name in acks.registry.names()],
        "acks": {
            "log_bytes": acks.log_bytes,
            "record_count": acks.record_count,
            "checkpoint_bytes": acks.checkpoint_bytes,
            "checkpoint_record_seq": acks.checkpoint_record_seq,
            "torn_bytes": acks.torn_bytes,
            "damage_count": len(acks.damage),
        },
        "retention": {"used_bytes": used, **quarantine},
    }


def _wal(
    disk: Disk, core: int, catalog: Catalog, *, digest: bytes, covered: int
) -> tuple[Fields, Fields]:
    """Walk the log: what is in it, and what of that is in no segment yet."""
    from quiver.cli.inspect import survey_wal
    from quiver.engine.core import covered_place

    held: Fields = {"bundle_count": 0, "payload_bytes": 0, "oldest_time": None}

    def hold(bundle: EncodedBundle) -> None:
        if bundle.wal_seq > covered:
            held["bundle_count"] += 1
            held["payload_bytes"] += bundle.payload_bytes
            held["oldest_time"] = held["oldest_time"] or format_time(bundle.ingestion_ns)

    newest = covered_place(catalog)
    states = list(survey_wal(disk, core, newest=newest, digest=digest, visit=hold))
    filled = [state for state in states if state.bundle_count]
    wal = {
        "file_count": len(states),
        "file_bytes": sum(state.file_bytes for state in states),
        "used_bytes": sum(min(state.file_bytes, state.allocated_bytes) for state in states),
        "bundle_count": sum(state.bundle_count for state in states),
        "wal_seq_first": filled[0].wal_seq_first if filled else None,
        "wal_seq_last": filled[-1].wal_seq_last if filled else None,
        "torn_bytes": sum(state.torn_bytes for state in states),
        "damage_count": sum(len(state.damage) for state in states),
    }
    return wal, held


def _segments(catalog: Catalog, *, damage_count: int) -> Fields:
    infos = list(catalog)
    firsts = [i.wal_seq_first for i in infos if i.wal_seq_first is not None]
    times = [i.ingestion_ns_min for i in infos if i.ingestion_ns_min is not None]
    ends = [i.ingestion_ns_max for i in infos if i.ingestion_ns_max is not None]
    return {
        "segment_count": len(infos),
        "file_bytes": catalog.segment_bytes,
        "bundle_count": sum(i.bundle_count for i in infos),
        "segment_seq_first": infos[0].segment_seq if infos else None,
        "segment_seq_last": infos[-1].segment_seq if infos else None,
        "wal_seq_first": min(firsts, default=None),
        "wal_seq_last": catalog.covered_wal_seq,
        "ingestion_time_min": format_time(min(times, default=None)),
        "ingestion_time_max": format_time(max(ends, default=None)),
        "damage_count": damage_count,
    }


def _quarantine(disk: Disk, core: int) -> Fields:
    from quiver.cli.inspect import listing
    from quiver.engine.core import core_folder

    files = listing(disk, f"{core_folder(core)}/quarantine")
    return {
        "quarantine_file_count": len(files),
        "quarantine_bytes": sum(entry.size for entry in files),
    }


def _lines(core: Mapping[str, Any]) -> list[tuple[str, str]]:
    wal, held, segment = core["wal"], core["open_segment"], core["segments"]
    acks, retention = core["acks"], core["retention"]
    log = f"{count(wal['file_count'], 'file')}, {format_bytes(wal['used_bytes'])}: "
    log += _range(count(wal["bundle_count"], "bundle"), wal)
    if wal["torn_bytes"]:
        log += f"; {format_bytes(wal['torn_bytes'])} unfinished at the end"
    waiting = f"{count(held['bundle_count'], 'bundle')} in no segment yet"
    if held["bundle_count"]:
        waiting += (
            f", {format_bytes(held['payload_bytes'])}, oldest of {brief_time(held['oldest_time'])}"
        )
    files = f"{count(segment['segment_count'], 'file')}, {format_bytes(segment['file_bytes'])}: "
    files += _range(count(segment["bundle_count"], "bundle"), segment)
    names = [f"{s['name']} ({s['lag_bundle_count']:,} open)" for s in core["subscribers"]]
    outcomes = f"{count(acks['record_count'], 'record')} in {format_bytes(acks['log_bytes'] or 0)}"
    if acks["checkpoint_record_seq"] is not None:
        outcomes += f", checkpoint at record {acks['checkpoint_record_seq']:,}"
    space = f"{format_bytes(retention['used_bytes'])} on disk"
    if retention["quarantine_file_count"]:
        space += f", of it {format_bytes(retention['quarantine_bytes'])} in quarantine"
    return [
        ("wal", log + _damage(wal)),
        ("open segment", waiting),
        ("segments", files + _damage(segment)),
        ("subscribers", ", ".join(names) or "none"),
        ("acks", outcomes + _damage(acks)),
        ("retention", space),
    ]


def _range(text: str, fields: Mapping[str, Any]) -> str:
    if fields["wal_seq_first"] is None:
        return text
    return f"{text}, wal_seq {fields['wal_seq_first']:,} to {fields['wal_seq_last']:,}"


def _damage(fields: Mapping[str, Any]) -> str:
    found = fields["damage_count"]
    return f"; {found:,} damaged, see quiver check" if found else ""
