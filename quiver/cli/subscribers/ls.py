"""``quiver subscriber ls``: who takes bundles of a store, and who seems to be gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quiver.cli.output import Output, count, format_time, size
from quiver.cli.program import verb
from quiver.units import format_bytes, parse_duration

if TYPE_CHECKING:
    from quiver.cli.standing import Standing

__all__ = ["ls"]

_COLUMNS = ("subscriber", "id", "open", "pinned", "seen", "paused", "orphan")


@verb(
    "ls",
    examples=(
        ("quiver subscriber ls store", "all of them"),
        ("quiver subscriber ls store --unseen 1h", "an hour makes an orphan"),
        ("quiver subscriber ls store --json | jq 'select(.is_orphan)'", "one line for each"),
    ),
)
@click.argument("folder", metavar="DIR")
@click.option(
    "--unseen",
    default="7d",
    show_default=True,
    metavar="TIME",
    help="Who was not heard of for so long is an orphan.",
)
def ls(output: Output, *, folder: str, unseen: str) -> None:
    """List the subscribers of a store, and who seems to be gone.

    An orphan was not heard of since it was registered, or not for --unseen: nothing that it has not
    acked is deleted. PINNED is what is kept for it alone. Takes no lock and changes nothing.
    """
    from quiver.cli.standing import age, read_store, since
    from quiver.clock import SystemClock

    unseen_ns = parse_duration(unseen, key="--unseen")
    found = read_store(folder, warn=output.warn)
    now = SystemClock().wall_ns()
    reasons = [_reason(standing, now, unseen_ns=unseen_ns) for standing in found]
    if output.as_json:
        for standing, reason in zip(found, reasons, strict=True):
            output.line(
                {
                    "kind": "subscriber",
                    "core": standing.core,
                    "name": standing.name,
                    "subscriber_id": standing.subscriber_id,
                    "open_bundle_count": standing.lag.bundle_count,
                    "pinned_segment_count": standing.pinned.segment_count,
                    "pinned_bytes": standing.pinned.byte_count,
                    "last_seen_time": format_time(standing.last_seen_ns),
                    "last_seen_seconds": since(standing.last_seen_ns, now),
                    "is_paused": standing.lag.is_paused,
                    "is_orphan": bool(reason),
                    "orphan_reason": reason,
                }
            )
        return
    many = len({standing.core for standing in found}) > 1
    rows = [
        [
            *([s.core] if many else []),
            *(s.name, s.subscriber_id, s.lag.bundle_count, size(s.pinned.byte_count)),
            *(age(s.last_seen_ns, now), s.lag.is_paused, reason),
        ]
        for s, reason in zip(found, reasons, strict=True)
    ]
    columns = [*(["core"] if many else []), *_COLUMNS]
    right = (columns.index("seen"),)
    output.table("subscribers", columns, rows, empty="nobody has subscribed", right=right)
    lost = [s for s, reason in zip(found, reasons, strict=True) if reason]
    if lost:
        kept = format_bytes(sum(s.pinned.byte_count for s in lost))
        output.text(f"{count(len(lost), 'orphan')}: {kept} kept for one of them alone")


def _reason(standing: Standing, now: int, *, unseen_ns: int) -> str | None:
    from quiver.cli.standing import age

    if not standing.was_seen:
        return "never seen since it was registered"
    seen = standing.last_seen_ns
    if seen is not None and now - seen > unseen_ns:
        return f"not seen for {age(seen, now)}"
    return None
