"""What the verbs of ``quiver queue`` say of a manifest and its entries."""

from __future__ import annotations

import os
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

from quiver.cli.output import format_time
from quiver.cli.queues.desk import open_queue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quiver.ship.queue import Entry, Marks, PageRef, QueueView

__all__ = ["entry_fields", "entry_time_ms", "mark_fields", "page_fields", "read_file", "read_queue"]

_BYTES_MAX: Final = 1 << 30
_MS: Final = 1_000_000


def read_queue(url: str, options: Sequence[str]) -> QueueView:
    """Read the queue at an address; raises MissingError if there is none."""
    from quiver.errors import MissingError
    from quiver.ship.queue.manifest import NEW

    queue = open_queue(url, options)
    view = queue.read()
    if view.manifest is NEW:
        hint = "quiver ship and producers make one; is the address right?"
        raise MissingError(f"there is no queue at {queue.place}", path=queue.place, hint=hint)
    return view


def read_file(path: str) -> QueueView:
    """Read a manifest that is in a file, with pages that lie beside it."""
    from quiver.errors import MissingError
    from quiver.ship.queue.manifest import decode_manifest
    from quiver.ship.queue.pages import PageCache
    from quiver.ship.queue.placing import placed
    from quiver.ship.queue.reading import QueueView

    folder = os.path.dirname(os.path.abspath(path))

    def fetch(name: str) -> bytes:
        beside = os.path.join(folder, os.path.basename(name))
        if not os.path.isfile(beside):
            raise MissingError(f"there is no page {beside}", path=beside)
        return _whole(beside)

    with placed(path):
        manifest = decode_manifest(_whole(path))
    return QueueView(manifest, PageCache(fetch, place=folder), place=path)


def _whole(path: str) -> bytes:
    from quiver.disk import read_foreign
    from quiver.errors import InputError

    data = read_foreign(path, bytes_max=_BYTES_MAX)
    if len(data) > _BYTES_MAX:
        raise InputError(f"{path} is larger than any manifest")
    return data


def entry_fields(entry: Entry) -> dict[str, Any]:
    """Give the reference's fields of an entry, and ours."""
    return {
        "sequence": entry.sequence,
        "location": entry.location,
        "metadata": [
            {
                "start_index": item.start_index,
                "ingestion_time_ms": item.ingestion_time_ms,
                "payload_base64": b64encode(item.payload).decode(),
            }
            for item in entry.items
        ],
        "batch_bytes": entry.batch.byte_count if entry.batch else None,
        "batch_crc32c": f"{entry.batch.crc32c:08x}" if entry.batch else None,
        "is_acked": entry.is_acked,
    }


def entry_time_ms(entry: Entry) -> int | None:
    """Say when the first of an entry came, or its batch was named; None if neither is known."""
    from quiver.ship.batch import name_time_ms

    times = [item.ingestion_time_ms for item in entry.items]
    return min(times) if times else name_time_ms(entry.location.rpartition("/")[2])


def page_fields(page: PageRef) -> dict[str, Any]:
    """Give what the table says of a page."""
    return {
        "name": page.name,
        "first_sequence": page.first,
        "last_sequence": page.last,
        "entry_count": page.entry_count,
        "object_bytes": page.object_bytes,
        "crc32c": f"{page.crc32c:08x}",
        "batch_bytes": page.batch_bytes,
        "oldest_time": format_time(page.oldest_ms * _MS) if page.oldest_ms else None,
    }


def mark_fields(marks: Marks) -> list[dict[str, Any]]:
    """Give marks by store and core."""
    return [
        {"store_id": store_id.hex(), "core": core, "segment_seq": segment_seq}
        for (store_id, core), segment_seq in sorted(marks.items())
    ]
