"""What ``quiver view`` tells of a collection as a whole, and does for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quiver.cli.output import Output, brief_time, count, format_time
from quiver.units import MILLISECOND, format_bytes

if TYPE_CHECKING:
    from quiver.ship.objects import Bucket
    from quiver.upsert.viewing import View

__all__ = ["stat", "tend"]


def tend(output: Output, store: Bucket, *, history: int) -> None:
    """Take a collection over, do what is due, and delete what nobody names."""
    from quiver.upsert.persist import Collection
    from quiver.upsert.tending import Limits, sweep
    from quiver.upsert.tending import tend as tend_once

    writer = Collection.open(store).writer()
    limits = Limits(history=history)
    tended = tend_once(writer, limits)
    folded, merged, dropped, deleted = (
        tended.folded,
        tended.merged,
        tended.dropped,
        tended.deleted,
    )
    while tended.left:
        tended = tend_once(writer, limits)
        folded, merged = folded + tended.folded, merged + tended.merged
        dropped, deleted = dropped + tended.dropped, deleted + tended.deleted
    swept = sweep(writer)
    if output.as_json:
        output.document(
            {
                "place": writer.place,
                "writer": writer.fence,
                "folded_bucket_count": folded,
                "merged_run_count": merged,
                "first_epoch": tended.since,
                "dropped_count": dropped,
                "deleted_count": deleted + swept.deleted,
            }
        )
        return
    output.text(
        f"{count(folded, 'bucket')} folded, {count(merged, 'run')} merged, readable from epoch "
        f"{tended.since:,}, {count(dropped, 'file')} dropped, "
        f"{count(deleted + swept.deleted, 'file')} deleted"
    )


def stat(output: Output, found: View) -> None:
    """Say what a collection consists of."""
    fields = _fields(found)
    if output.as_json:
        output.document(fields)
        return
    output.facts(
        (
            ("place", fields["place"]),
            ("key", _named(fields["key"])),
            ("value", _named(fields["value"])),
            ("latest", f"epoch {fields['latest_epoch']:,}, {brief_time(fields['latest_time'])}"),
            (
                "readable",
                f"from epoch {fields['first_epoch']:,}, {brief_time(fields['first_time'])}",
            ),
            ("buckets", f"{fields['bucket_count']:,}"),
            ("bases", _files(fields, "base")),
            ("runs", _files(fields, "run")),
            ("to sweep", count(fields["dropped_count"], "file")),
            ("writer", f"{fields['writer']:,}"),
        )
    )
    rows = [
        [source["name"], split["name"], split["next"]]
        for source in fields["sources"]
        for split in source["splits"]
    ]
    output.table("sources", ["source", "split", "next"], rows, empty="none")


def _named(columns: list[dict[str, str]]) -> str:
    return ", ".join(f"{column['name']} {column['type']}" for column in columns) or "nothing"


def _files(fields: dict[str, Any], kind: str) -> str:
    text = f"{count(fields[f'{kind}_count'], 'file')}, {count(fields[f'{kind}_rows'], 'row')}"
    return f"{text}, {format_bytes(fields[f'{kind}_bytes'])}"


def _fields(found: View) -> dict[str, Any]:
    snapshot = found.snapshot
    manifest, definition = snapshot.manifest, snapshot.definition
    fields: dict[str, Any] = {
        "place": found.place,
        "collection_id": manifest.collection,
        "key": [{"name": field.name, "type": str(field.type)} for field in definition.key],
        "value": [{"name": field.name, "type": str(field.type)} for field in definition.value],
        "bucket_count": snapshot.buckets,
        "writer": manifest.writer,
        "latest_epoch": snapshot.latest,
        "latest_time": format_time(snapshot.time_ms(snapshot.latest) * MILLISECOND),
        "first_epoch": snapshot.since,
        "first_time": format_time(snapshot.time_ms(snapshot.since) * MILLISECOND),
    }
    for kind in ("base", "run"):
        some = [ref for ref in snapshot.files if ref.kind == kind]
        fields[f"{kind}_count"] = len(some)
        fields[f"{kind}_rows"] = sum(ref.rows for ref in some)
        fields[f"{kind}_errors"] = sum(ref.errors for ref in some)
        fields[f"{kind}_bytes"] = sum(ref.byte_count for ref in some)
    fields["dropped_count"] = len(manifest.dropped)
    fields["sources"] = [
        {
            "name": name,
            "query": source.query,
            "batch": source.batch,
            "splits": [{"name": s, "next": at} for s, at in sorted(source.splits.items())],
        }
        for name, source in sorted(snapshot.sources.items())
    ]
    return fields
