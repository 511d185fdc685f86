"""``quiver queue gc``: delete batches that nobody points to any more."""

from __future__ import annotations

import click

from quiver.cli.output import Output, count
from quiver.cli.program import verb
from quiver.cli.queues.desk import open_queue, store_options
from quiver.units import SECOND, format_bytes, parse_duration

__all__ = ["gc"]

_SHOWN = 20


@verb(
    "gc",
    examples=(
        ("quiver queue gc s3://bucket/queue --dry-run", "what would be deleted"),
        ("quiver queue gc s3://bucket/queue", "delete it"),
        ("quiver queue gc /mnt/queue --grace 1d --json", "for programs"),
    ),
)
@click.argument("url", metavar="URL")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and delete nothing.")
@click.option(
    "--grace",
    default="10m",
    show_default=True,
    metavar="TIME",
    help="What is younger stays; 6m at least.",
)
@store_options
def gc(output: Output, *, url: str, dry_run: bool, grace: str, options: tuple[str, ...]) -> None:
    """Delete batches that nobody points to any more.

    An open consumer does this by itself. A batch goes if no entry of the queue names it, it is
    older than --grace by its name and by the time of the store, and older than all that waits in
    the queue; pages that the manifest names no longer go too. Nothing else is touched, and without
    a manifest nothing is deleted.
    """
    from quiver.clock import SystemClock
    from quiver.ship.sweeper import Sweeper

    grace_ns = parse_duration(grace, key="--grace")
    queue = open_queue(url, options, probed=not dry_run)
    swept = Sweeper(queue, grace_ns=grace_ns, clock=SystemClock()).sweep(dry_run=dry_run)
    if output.as_json:
        output.document(
            {
                "place": queue.place,
                "is_dry_run": dry_run,
                "grace_seconds": grace_ns / SECOND,
                "looked_count": swept.looked_count,
                "named_count": swept.named_count,
                "deleted_count": swept.deleted_count,
                "deleted_bytes": swept.deleted_bytes,
                "failed_count": swept.failed_count,
                "keys": list(swept.keys),
            }
        )
        return
    if dry_run:
        for key in swept.keys[:_SHOWN]:
            output.text(key)
        if swept.deleted_count > _SHOWN:
            output.text(f"and {swept.deleted_count - _SHOWN:,} more")
    done = "would be deleted" if dry_run else "deleted"
    size = f" ({format_bytes(swept.deleted_bytes)})" if swept.deleted_count else ""
    named = f"{count(swept.named_count, 'object')} named by the queue"
    output.text(f"{count(swept.deleted_count, 'object')} {done}{size}; {named}")
    if swept.failed_count:
        output.warn(f"{count(swept.failed_count, 'object')} could not be deleted: try again")
