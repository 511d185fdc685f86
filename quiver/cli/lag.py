"""``quiver lag``: how far each subscriber is behind, and what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quiver.cli.output import Output, format_time, size
from quiver.cli.program import verb

if TYPE_CHECKING:
    from quiver.cli.standing import Standing

__all__ = ["lag"]

_COLUMNS = (
    *("subscriber", "segments", "bundles", "size", "oldest", "retrying", "dead", "paused"),
    *("seen", "pinned", "unfolded"),
)


@verb(
    "lag",
    examples=(
        ("quiver lag store", "each subscriber, in each core"),
        ("quiver lag store uploader", "one of them"),
        ("quiver lag store --json | jq 'select(.oldest_open_seconds > 600)'", "for alarms"),
    ),
)
@click.argument("folder", metavar="DIR")
@click.argument("name", metavar="[NAME]", required=False)
def lag(output: Output, *, folder: str, name: str | None) -> None:
    """Say how far subscribers are behind.

    For each subscriber: open segments and bundles and their size, the age of the oldest, bundles
    that wait for a retry, dead letters, when it was last heard of, and the size of what is kept for
    it alone. Bundles count once they are in a segment.

    Takes no lock and changes nothing. UNFOLDED are open bundles that a subscriber in another
    process is done with; the process that writes the store takes them over, or quiver gc.
    """
    from quiver.cli.standing import read_store, since
    from quiver.clock import SystemClock

    found = read_store(folder, name, warn=output.warn)
    now = SystemClock().wall_ns()
    if output.as_json:
        for standing in found:
            seconds = since(standing.oldest_open_ns, now)
            output.line({**_fields(standing), "oldest_open_seconds": seconds})
        return
    many = len({standing.core for standing in found}) > 1
    columns = [*(["core"] if many else []), *_COLUMNS]
    rows = [[*([s.core] if many else []), *_row(s, now)] for s in found]
    output.table(
        "lag", columns, rows, empty="nobody has subscribed", right=(columns.index("seen"),)
    )


def _fields(standing: Standing) -> dict[str, Any]:
    lag = standing.lag
    return {
        "kind": "lag",
        "core": standing.core,
        "name": standing.name,
        "subscriber_id": standing.subscriber_id,
        "high_water_segment_seq": lag.high_water_mark,
        "open_segment_count": lag.segment_count,
        "open_bundle_count": lag.bundle_count,
        "open_bytes": lag.byte_count,
        "oldest_open_time": format_time(standing.oldest_open_ns),
        "waiting_bundle_count": lag.waiting_count,
        "dead_letter_count": lag.dead_letter_count,
        "unfolded_bundle_count": standing.unfolded_count,
        "is_paused": lag.is_paused,
        "last_seen_time": format_time(standing.last_seen_ns),
        "pinned_segment_count": standing.pinned.segment_count,
        "pinned_bytes": standing.pinned.byte_count,
    }


def _row(standing: Standing, now: int) -> list[object]:
    from quiver.cli.standing import age

    lag = standing.lag
    return [
        standing.name,
        lag.segment_count,
        lag.bundle_count,
        size(lag.byte_count),
        age(standing.oldest_open_ns, now),
        lag.waiting_count,
        lag.dead_letter_count,
        lag.is_paused,
        age(standing.last_seen_ns, now),
        size(standing.pinned.byte_count),
        standing.unfolded_count,
    ]
