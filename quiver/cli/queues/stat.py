"""``quiver queue stat``: how much waits in a queue, and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from quiver.cli.output import Output, brief_time, count, format_time
from quiver.cli.program import verb
from quiver.cli.queues.desk import store_options
from quiver.units import SECOND, format_bytes, format_duration

if TYPE_CHECKING:
    from quiver.ship.queue import QueueView

__all__ = ["stat"]

_MS: Final = 1_000_000


@verb(
    "stat",
    examples=(
        ("quiver queue stat s3://bucket/queue", "how much waits, and since when"),
        ("quiver queue stat /mnt/queue --json | jq .oldest_age_seconds", "for alarms"),
    ),
)
@click.argument("url", metavar="URL")
@store_options
def stat(output: Output, *, url: str, options: tuple[str, ...]) -> None:
    """Say how much waits in a queue, and since when.

    Entries and pages, the bytes of batches as far as entries say how large they are, the age of the
    oldest, who consumes (epoch), and up to which segment each core of each store was shipped.
    Changes nothing, and fences nobody.
    """
    from quiver.cli.queues.looking import read_queue
    from quiver.clock import SystemClock

    view = read_queue(url, options)
    fields = _fields(view, SystemClock().wall_ns())
    if output.as_json:
        output.document(fields)
        return
    output.facts(
        (
            ("place", fields["place"]),
            ("waiting", _waiting(fields)),
            ("oldest", _oldest(fields)),
            ("next number", f"{fields['next_sequence']:,}"),
            ("epoch", f"{fields['epoch']:,}"),
            ("manifest", f"version {fields['version']}, {format_bytes(fields['manifest_bytes'])}"),
        )
    )
    rows = [[m["store_id"], m["core"], m["segment_seq"]] for m in fields["marks"]]
    output.table("shipped", ["store", "core", "segment"], rows, empty="by no store")


def _oldest(fields: dict[str, Any]) -> str:
    if fields["oldest_time"] is None:
        return "-"
    age = format_duration(int(fields["oldest_age_seconds"]) * SECOND)
    return f"{age} ({brief_time(fields['oldest_time'])})"


def _waiting(fields: dict[str, Any]) -> str:
    entries, pages = fields["entry_count"], fields["page_count"]
    text = f"{entries:,} {'entry' if entries == 1 else 'entries'}"
    if pages:
        text += f", {fields['page_entry_count']:,} of them in {count(pages, 'page')}"
    return f"{text}; batches {format_bytes(fields['batch_bytes'])}"


def _fields(view: QueueView, now_ns: int) -> dict[str, Any]:
    from quiver.cli.queues.looking import entry_time_ms, mark_fields
    from quiver.ship.queue import MANIFEST_KEY

    footer, table = view.manifest.footer, view.manifest.table
    oldest = next(view.entries(limit=1), None)
    time_ms = entry_time_ms(oldest) if oldest else None
    return {
        "place": view.place.removesuffix(f"/{MANIFEST_KEY}"),
        "version": footer.version,
        "manifest_bytes": len(view.manifest.data),
        "epoch": footer.epoch,
        "next_sequence": footer.next_sequence,
        "first_sequence": oldest.sequence if oldest else None,
        "entry_count": view.entry_count,
        "page_count": len(table.pages),
        "page_entry_count": table.entry_count,
        "page_bytes": sum(page.object_bytes for page in table.pages),
        "batch_bytes": view.manifest.batch_bytes(),
        "oldest_time": None if time_ms is None else format_time(time_ms * _MS),
        "oldest_age_seconds": None if time_ms is None else max(now_ns / _MS - time_ms, 0) / 1000,
        "marks": mark_fields(view.marks),
    }
