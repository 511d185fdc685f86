"""``quiver stats``: what each core takes on the disk, and how far its subscribers are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from quiver.cli.output import Output, format_time, size
from quiver.cli.program import verb
from quiver.units import SECOND, format_bytes, format_duration, parse_bytes

if TYPE_CHECKING:
    from quiver.engine import CoreStats, SubscriberStats
    from quiver.observe import StoreStats

__all__ = ["cap_of", "size_cap_option", "stats"]

size_cap_option: Final = click.option(
    "--size-cap",
    metavar="SIZE",
    help="The retention.size_cap of who writes the store, as 10GiB: the folder does not tell it.",
)

_CORES: Final = (
    *("core", "used", "cap", "wal", "segments", "acks", "quarantine", "dead letters", "reserve"),
    *("files", "open", "open size", "oldest", "appended"),
)
_SUBSCRIBERS: Final = (
    *("subscriber", "core", "segments", "bundles", "size", "oldest", "gaps", "retrying", "dead"),
    *("paused", "pinned", "unfolded"),
)


@verb(
    "stats",
    examples=(
        ("quiver stats store", "a line for each core, and one for each subscriber"),
        ("quiver stats store --size-cap 10GiB", "with what is left of the cap"),
        ("quiver stats store --json | jq '.used_bytes'", "for programs"),
    ),
)
@click.argument("folder", metavar="DIR")
@size_cap_option
def stats(output: Output, *, folder: str, size_cap: str | None) -> None:
    """Say in numbers what a store takes and holds.

    For each core: bytes on the disk by station, segment files, bundles that are in no segment yet,
    and how many were ever appended. For each subscriber: what it has not resolved. Bundles count
    for it once they are in a segment.

    Takes no lock and changes nothing. quiver serve-metrics gives the same to Prometheus.
    """
    from quiver.observe import Observer

    with Observer(folder, size_cap=cap_of(size_cap)) as observer:
        found = observer.look()
    for text in found.passed_over:
        output.warn(f"quiver: {text}")
    if output.as_json:
        output.document(_fields(found))
        return
    output.facts([("store", f"{found.path}, id {found.store_id}")])
    rows = [_core_row(core) for core in found.cores]
    output.table("cores", _CORES, rows, empty="none", right=(_CORES.index("oldest"),))
    lines = [_subscriber_row(core, one) for core in found.cores for one in core.subscribers]
    right = (_SUBSCRIBERS.index("oldest"),)
    output.table("subscribers", _SUBSCRIBERS, lines, empty="nobody has subscribed", right=right)
    if found.staged_bytes:
        output.facts([("staged", f"{format_bytes(found.staged_bytes)}, for sinks to commit")])
    if len(found.cores) > 1:
        output.facts([("together", _together(found))])


def cap_of(text: str | None) -> int | None:
    """Read the option ``--size-cap``; InputError if it is no size."""
    return None if text is None else parse_bytes(text, key="--size-cap")


def _together(found: StoreStats) -> str:
    used = sum(core.used_bytes for core in found.cores)
    caps = [core.cap_bytes for core in found.cores if core.cap_bytes is not None]
    return f"{format_bytes(used)} used" + (f" of {format_bytes(sum(caps))}" if caps else "")


def _core_row(core: CoreStats) -> list[object]:
    return [
        core.core,
        size(core.used_bytes),
        size(core.cap_bytes),
        size(core.wal_bytes),
        size(core.segment_disk_bytes),
        size(core.acks_bytes),
        size(core.quarantine_bytes),
        size(core.dead_letter_bytes),
        size(core.reserve_bytes),
        core.segments,
        core.open_bundles,
        size(core.open_bytes),
        _age(core.open_age_ns),
        core.next_wal_seq,
    ]


def _subscriber_row(core: CoreStats, one: SubscriberStats) -> list[object]:
    lag = one.lag
    return [
        lag.subscriber,
        core.core,
        lag.segment_count,
        lag.bundle_count,
        size(lag.byte_count),
        _age(lag.oldest_age_ns),
        one.gap_count,
        lag.waiting_count,
        lag.dead_letter_count,
        lag.is_paused,
        size(lag.pinned_bytes),
        one.unfolded_count,
    ]


def _age(nanoseconds: int | None) -> str | None:
    if nanoseconds is None:
        return None
    return format_duration(nanoseconds) if nanoseconds >= SECOND else "now"


def _fields(found: StoreStats) -> dict[str, Any]:
    return {
        "path": found.path,
        "store_id": found.store_id,
        "time": format_time(found.at_ns),
        "used_bytes": sum(core.used_bytes for core in found.cores),
        "staged_bytes": found.staged_bytes,
        "passed_over": list(found.passed_over),
        "cores": [_core_fields(core) for core in found.cores],
    }


def _core_fields(core: CoreStats) -> dict[str, Any]:
    return {
        "core": core.core,
        "used_bytes": core.used_bytes,
        "cap_bytes": core.cap_bytes,
        "wal_bytes": core.wal_bytes,
        "wal_file_count": core.wal_files,
        "next_wal_seq": core.next_wal_seq,
        "open_bundle_count": core.open_bundles,
        "open_payload_bytes": core.open_bytes,
        "open_age_seconds": _seconds(core.open_age_ns),
        "segment_count": core.segments,
        "segment_bytes": core.segment_disk_bytes,
        "next_segment_seq": core.next_segment_seq,
        "acks_bytes": core.acks_bytes,
        "acks_log_bytes": core.acks_log_bytes,
        "quarantine_bytes": core.quarantine_bytes,
        "dead_letter_bytes": core.dead_letter_bytes,
        "reserve_bytes": core.reserve_bytes,
        "subscribers": [_subscriber_fields(one) for one in core.subscribers],
    }


def _subscriber_fields(one: SubscriberStats) -> dict[str, Any]:
    lag = one.lag
    return {
        "name": lag.subscriber,
        "subscriber_id": lag.subscriber_id if one.is_registered else None,
        "high_water_segment_seq": lag.high_water_mark,
        "open_segment_count": lag.segment_count,
        "open_bundle_count": lag.bundle_count,
        "open_bytes": lag.byte_count,
        "oldest_open_seconds": _seconds(lag.oldest_age_ns),
        "gap_count": one.gap_count,
        "waiting_bundle_count": lag.waiting_count,
        "dead_letter_count": lag.dead_letter_count,
        "unfolded_bundle_count": one.unfolded_count,
        "is_paused": lag.is_paused,
        "last_seen_time": format_time(lag.last_seen_ns or None),
        "pinned_bytes": lag.pinned_bytes,
    }


def _seconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else round(nanoseconds / SECOND, 3)
