"""``quiver.json``: which store this is, in which format, and its slot table.

Written when the store is created, before anything else can be in it, and when its slot table is
changed (``quiver.engine.migration``). Its ``crc32c`` is that of the other values as JSON without
white space, keys sorted; so it does not matter how it is laid out, and whoever edits it by hand
leaves that key out.
"""

from __future__ import annotations

import functools
import json
import re
import uuid
from dataclasses import dataclass
from typing import Any

from crc32c import crc32c

from quiver.disk import Disk, replace
from quiver.errors import DamagedEntry, InputError, MissingError, VersionError
from quiver.slots import Slot, SlotDifference, SlotTable

__all__ = [
    "FORMAT_VERSION",
    "MANIFEST_NAME",
    "StoreManifest",
    "slots_from_json",
    "slots_to_json",
]

MANIFEST_NAME = "quiver.json"
FORMAT_VERSION = 1
_BYTES_MAX = 1 << 20
_KEYS = {"format", "store_id", "layout_digest", "replaces", "slots", "crc32c"}
_STORE_ID = re.compile("[0-9a-f]{32}")
_DIGEST = _STORE_ID


@dataclass(frozen=True, slots=True)
class StoreManifest:
    """The identity of a store. ``store_id`` is 32 hexadecimal digits."""

    store_id: str
    slots: SlotTable
    replaces: bytes | None = None
    """Digest of the layout before this one, while logs without a bundle may still have it."""

    @classmethod
    def new(cls, slots: SlotTable) -> StoreManifest:
        """Make the manifest of a store that does not exist yet."""
        return cls(uuid.uuid4().hex, slots)

    @property
    def layout_digest(self) -> bytes:
        """Digest of the slot table, 16 bytes, as in the header of each WAL file."""
        return self.slots.digest()

    @classmethod
    def read(cls, disk: Disk) -> StoreManifest:
        """Read it; raises MissingError if the folder is no store, DamagedEntry, VersionError."""
        place = disk.locate(MANIFEST_NAME)
        if disk.stat(MANIFEST_NAME) is None:
            raise MissingError(
                f"there is no Quiver store in {disk.locate('')}",
                path=disk.locate(""),
                hint="quiver.open(path, slots=[...]) makes one, and so does quiver ingest",
            )
        file = disk.open(MANIFEST_NAME)
        try:
            data = file.read(0, min(file.size(), _BYTES_MAX + 1))
        finally:
            file.close()
        try:
            if len(data) > _BYTES_MAX:
                raise ValueError(f"more than {_BYTES_MAX} bytes")
            return _read_data(data)
        except VersionError:
            raise
        except (ValueError, KeyError, TypeError, InputError, RecursionError) as error:
            raise DamagedEntry(
                f"the manifest is not readable ({error})",
                path=place,
                hint="each segment carries the slot table: restore quiver.json from one",
            ) from error

    def write(self, disk: Disk) -> None:
        """Write it; it survives a power cut when this returns."""
        fields: dict[str, Any] = {
            "format": FORMAT_VERSION,
            "store_id": self.store_id,
            "layout_digest": self.layout_digest.hex(),
            "slots": slots_to_json(self.slots),
        }
        if self.replaces is not None:
            fields["replaces"] = self.replaces.hex()
        fields["crc32c"] = _checksum(fields)
        replace(disk, MANIFEST_NAME, (json.dumps(fields, indent=2) + "\n").encode())

    def check_slots(self, wanted: SlotTable) -> None:
        """Raise VersionError that names both digests unless ``wanted`` is the store's own table."""
        if wanted.digest() == self.layout_digest:
            return
        difference = SlotDifference.between(self.slots, wanted)
        options = difference.options()
        change = f", or change the store first: quiver migrate DIR {options}" if options else ""
        raise VersionError(
            f"the store has layout {self.layout_digest.hex()}, asked for layout "
            f"{wanted.digest().hex()}; {difference}",
            hint=f"leave slots= out to open it as it is{change}",
        )


def slots_to_json(slots: SlotTable) -> list[dict[str, Any]]:
    """Give a slot table as plain JSON values."""
    return [
        {
            "id": slot.slot_id,
            "name": slot.name,
            "payload_type_id": slot.payload_type_id,
            "event_time": slot.event_time,
        }
        for slot in slots
    ]


def slots_from_json(items: Any) -> SlotTable:  # noqa: ANN401
    """Read a slot table from plain JSON values; raises KeyError, TypeError or InputError."""
    return SlotTable(
        Slot(item["id"], item["name"], item["payload_type_id"], str(item.get("event_time", "")))
        for item in items
    )


@functools.lru_cache(maxsize=8)
def _read_data(data: bytes) -> StoreManifest:
    """Read what is in a file; who opens a store for each of its slots reads the same bytes."""
    return _parse(json.loads(data))


def _parse(fields: Any) -> StoreManifest:  # noqa: ANN401
    version = fields["format"]
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ValueError(f"its format is {json.dumps(version)}, which is no number above 0")
    if version > FORMAT_VERSION:
        raise VersionError(
            f"the store has format {version}, this Quiver reads {FORMAT_VERSION}",
            hint="install a newer Quiver",
        )
    stored = fields.pop("crc32c", None)
    if stored is not None and stored != _checksum(fields):
        raise ValueError(f"its crc32c is {_checksum(fields)}, not {stored}")
    if unknown := sorted(fields.keys() - _KEYS):
        raise ValueError(f"its key {unknown[0]!r} is none of format {FORMAT_VERSION}")
    if not _STORE_ID.fullmatch(str(fields["store_id"])):
        raise ValueError("its store_id is not 32 hexadecimal digits")
    replaces = fields.get("replaces")
    if replaces is not None and not _DIGEST.fullmatch(str(replaces)):
        raise ValueError("what it replaces is not 32 hexadecimal digits")
    manifest = StoreManifest(
        fields["store_id"],
        slots_from_json(fields["slots"]),
        None if replaces is None else bytes.fromhex(replaces),
    )
    if manifest.layout_digest.hex() != fields["layout_digest"]:
        raise ValueError("slot table and layout digest disagree")
    return manifest


def _checksum(fields: dict[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return f"{crc32c(text.encode()):08x}"
