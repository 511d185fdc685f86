"""``quiver ls``: the files, bundles and subscribers of a store as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from quiver.cli.output import Output, brief_time, format_time, size
from quiver.cli.program import verb

if TYPE_CHECKING:
    from quiver.disk import Disk
    from quiver.manifest import StoreManifest

__all__ = ["ls"]

Fields = dict[str, Any]

_NOUNS: Final = ("wal", "segments", "subscribers", "bundles", "sources", "sinks")
_USUAL: Final = ("wal", "segments", "subscribers")
_OTHERS: Final = ("sources", "sinks")
_EMPTY: Final = {
    "wal": "no file",
    "segments": "none yet",
    "subscribers": "none",
    "bundles": "none in a segment yet",
    "sources": "none is followed",
    "sinks": "none",
}
_TITLES: Final = {
    "file_bytes": "size",
    "allocated_bytes": "on disk",
    "payload_bytes": "size",
    "torn_bytes": "torn",
    "bundle_count": "bundles",
    "stream_count": "streams",
    "damage_count": "damaged",
    "is_damaged": "damaged",
    "segment_seq": "segment",
    "bundle_index": "bundle",
    "wal_seq_first": "wal_seq",
    "wal_seq_last": "to",
    "wal_seq": "wal_seq",
    "ingestion_time_min": "oldest",
    "ingestion_time": "ingested",
    "subscriber_id": "id",
    "high_water_segment_seq": "done to segment",
    "lag_bundle_count": "open",
    "gap_count": "gaps",
    "nacked_bundle_count": "nacked",
    "oldest_open_time": "oldest open",
}
"""How the columns of a table are headed where that is not the field's own name."""


@verb(
    "ls",
    examples=(
        ("quiver ls store", "WAL files, segments and subscribers"),
        ("quiver ls store bundles", "each bundle, and where it lies"),
        ("quiver ls store sources", "how far each source was read, split by split"),
        ("quiver ls store segments --json | jq .file_bytes", "one line of JSON for each"),
    ),
)
@click.argument("folder", metavar="DIR")
@click.argument("noun", type=click.Choice(_NOUNS), required=False)
def ls(output: Output, *, folder: str, noun: str | None) -> None:
    """List what is in a store.

    NOUN is one of wal, segments, subscribers, bundles, sources, sinks; without it the first three
    are listed, and the last two if there are any. Takes no lock and changes nothing.
    """
    from quiver.cli.inspect import core_numbers, open_folder
    from quiver.manifest import StoreManifest

    disk = open_folder(folder)
    manifest = StoreManifest.read(disk)
    cores = core_numbers(disk)
    for place, wanted in enumerate((noun,) if noun else _USUAL + _OTHERS):
        items: Iterable[Fields]
        if wanted in _OTHERS:
            items = list(_others(disk, wanted))
            if not items and noun is None:
                continue
        else:
            items = (item for core in cores for item in _LISTERS[wanted](disk, core, manifest))
        if output.as_json:
            for item in items:
                output.line({"kind": wanted.removesuffix("s"), **item})
        else:
            if place:
                output.text("")
            _show(output, wanted, items, many=len(cores) > 1)


def _show(output: Output, noun: str, items: Iterable[Fields], *, many: bool) -> None:
    rows = list(items)
    hidden = {"path", "layout_digest"} | (set() if many else {"core"})
    names = [name for name in (rows[0] if rows else {}) if name not in hidden]
    values = [[_cell(name, row[name]) for name in names] for row in rows]
    titles = [_TITLES.get(name, name.replace("_", " ")) for name in names]
    output.table(noun, titles, values, empty=_EMPTY[noun])


def _cell(name: str, value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, list):
        return " ".join(value)
    if name.endswith("_time") or "_time_" in name:
        return brief_time(value)
    return size(value) if name.endswith("_bytes") else value


def _wal(disk: Disk, core: int, manifest: StoreManifest) -> Iterator[Fields]:
    from quiver.cli.inspect import load_segments, survey_wal
    from quiver.engine.core import covered_place
    from quiver.engine.migration import layout_of_log

    digest = layout_of_log(disk, core, manifest)
    newest = covered_place(load_segments(disk, core)[0])
    for state in survey_wal(disk, core, newest=newest, digest=digest):
        yield {
            "core": core,
            "path": state.path,
            "file": state.path.rsplit("/", 1)[-1],
            "generation": state.generation,
            "file_bytes": state.file_bytes,
            "allocated_bytes": state.allocated_bytes,
            "bundle_count": state.bundle_count,
            "wal_seq_first": state.wal_seq_first,
            "wal_seq_last": state.wal_seq_last,
            "torn_bytes": state.torn_bytes,
            "damage_count": len(state.damage),
        }


def _segments(disk: Disk, core: int, _: StoreManifest) -> Iterator[Fields]:
    from quiver.cli.inspect import load_segments

    catalog, damaged = load_segments(disk, core)
    for info in catalog:
        yield {
            "core": core,
            "segment_seq": info.segment_seq,
            "path": disk.locate(info.path),
            "file_bytes": info.file_bytes,
            "allocated_bytes": info.allocated_bytes,
            "bundle_count": info.bundle_count,
            "stream_count": info.stream_count,
            "wal_seq_first": info.wal_seq_first,
            "wal_seq_last": info.wal_seq_last,
            "ingestion_time_min": format_time(info.ingestion_ns_min),
            "is_damaged": False,
        }
    for path, _error in damaged:
        found = disk.stat(path)
        yield {
            "core": core,
            "segment_seq": None,
            "path": disk.locate(path),
            "file_bytes": found.size if found else None,
            "allocated_bytes": found.allocated if found else None,
            "bundle_count": None,
            "stream_count": None,
            "wal_seq_first": None,
            "wal_seq_last": None,
            "ingestion_time_min": None,
            "is_damaged": True,
        }


def _subscribers(disk: Disk, core: int, _: StoreManifest) -> Iterator[Fields]:
    from quiver.cli.inspect import load_segments
    from quiver.cli.outcomes import subscriber_fields
    from quiver.engine.beside import read_acks

    catalog, _damaged = load_segments(disk, core)
    acks = read_acks(disk, core, {i.segment_seq: i.bundle_count for i in catalog})
    for name in acks.registry.names():
        yield {"core": core, **subscriber_fields(acks, catalog, name)}


def _bundles(disk: Disk, core: int, manifest: StoreManifest) -> Iterator[Fields]:
    from quiver.cli.inspect import load_segments
    from quiver.errors import MissingError
    from quiver.segment import SegmentReader

    for info in load_segments(disk, core)[0]:
        try:
            reader = SegmentReader.open(disk, info.path)
        except MissingError:
            continue  # Deleted since it was listed, as the store may.
        with reader:
            for index in range(reader.bundle_count):
                entry = reader.bundle_entry(index)
                ids = sorted(ref.slot_id for ref in entry.refs)
                yield {
                    "core": core,
                    "segment_seq": info.segment_seq,
                    "bundle_index": index,
                    "wal_seq": entry.wal_seq,
                    "ingestion_time": format_time(entry.ingestion_ns),
                    "payload_bytes": entry.byte_count,
                    "slots": [
                        manifest.slots[i].name if i in manifest.slots else str(i) for i in ids
                    ],
                }


def _others(disk: Disk, noun: str) -> Iterator[Fields]:
    """List what belongs to no core."""
    from quiver.cli.followed import source_items
    from quiver.cli.sinks import sink_items

    return source_items(disk) if noun == "sources" else sink_items(disk)


_LISTERS: Final[dict[str, Callable[[Disk, int, StoreManifest], Iterator[Fields]]]] = {
    "wal": _wal,
    "segments": _segments,
    "subscribers": _subscribers,
    "bundles": _bundles,
}
