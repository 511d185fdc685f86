"""The folder of a lake: whose it is, one writer for each core, which bundles a table has already.

=============================  ================================================================
``<slot>/date=<day>/part-...``  a file that is whole; ``names`` says how to read its name
``<slot>/date=<day>/_core-...``  a file that is being written, or that a dead exporter left
``_quiver/owner.json``          which store and which subscriber these files are of
``_quiver/core-<n>.lock``       held by who exports that core
``_quiver/<slot>.schema``       the columns that a table has by now
=============================  ================================================================

Readers of tables pass over names that begin with an underscore. A file gets its name when its bytes
are on the disk, and its bundles are acked when its name is. One that a kill left without an ack
says itself what is in it, when its bundles come again.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from quiver.disk import TEMPORARY, NewFile, remove, replace
from quiver.errors import DamagedEntry, InputError, LockedError, MissingError, StorageError
from quiver.manifest import MANIFEST_NAME
from quiver.otel.exporters.parquet.names import (
    PLACES_KEY,
    At,
    FileName,
    decode_places,
    encode_places,
)
from quiver.otel.signals import TELEMETRY

if TYPE_CHECKING:
    from quiver.disk import Disk

__all__ = ["Codec", "LakeFolder"]

Codec = Literal["none", "snappy", "lz4", "zstd"]

_OWN: Final = "_quiver"
_OWNER: Final = f"{_OWN}/owner.json"
_KNOWN_MAX: Final = 256
"""Days of tables whose files are known; others are listed again."""


class LakeFolder:
    """A folder that this process exports one core to."""

    def __init__(self, disk: Disk, *, owner: Mapping[str, str], core: int) -> None:
        """Have the folder until ``close``.

        Raises LockedError if somebody else exports that core there, and InputError if its files are
        of another store or subscriber: their places would be taken for ours.
        """
        self._disk = disk
        self.core = core
        if disk.stat(MANIFEST_NAME) is not None:
            raise InputError(f"{disk.locate('')} is a store", hint="export to a folder of its own")
        disk.make_dir(_OWN)
        disk.sync_dir("")
        try:
            self._lock = disk.lock(f"{_OWN}/core-{core}.lock")
        except LockedError as error:
            raise LockedError(
                f"{disk.locate('')} is being exported to by process {error.pid or 'unknown'}",
                pid=error.pid,
                hint="one exporter at a time for a folder: end that one, or take another folder",
            ) from error
        try:
            self._take(dict(owner))
        except BaseException:
            self._lock.release()
            raise
        self._files: OrderedDict[str, dict[FileName, frozenset[At] | None]] = OrderedDict()
        self._schemas: dict[str, pa.Schema] = {}
        self._secured: set[str] = set()

    def _temporary(self, folder: str) -> str:
        return f"{folder}/_core-{self.core}{TEMPORARY}"

    def _take(self, owner: dict[str, str]) -> None:
        """See that the files are of this owner, and write that down if nobody did."""
        if self._disk.stat(_OWNER) is None:
            tables = {slot.name for slot in TELEMETRY}
            if any(stat.name in tables for stat in self._disk.list_dir("")):
                raise InputError(
                    f"{self._disk.locate('')} has tables, but {_OWNER} is missing: whose are they?",
                    hint="export to another folder",
                )
            replace(self._disk, _OWNER, f"{json.dumps(owner, indent=2)}\n".encode())
            return
        where = self._disk.locate("")
        try:
            found = json.loads(bytes(self._disk.map(_OWNER)))
            known = {name: str(found[name]) for name in owner}
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(
                f"{self._disk.locate(_OWNER)} does not say whose the files beside it are",
                hint="export to another folder",
            ) from error
        if known != owner:
            raise InputError(
                f"{where} has what others exported: {known}, not {owner}",
                hint="each exporter of each store has a folder of its own",
            )

    # which bundles are in ------------------------------------------------------------------------

    def has(self, slot: str, day: str, at: At) -> bool:
        """Whether a table has the rows of a bundle on a day."""
        files = self._listed(f"{slot}/date={day}")
        for name in files:
            if name.first <= at <= name.last:
                places = files[name] or self._places(f"{slot}/date={day}/{name.text}")
                files[name] = places
                if at in places:
                    return True
        return False

    def forget(self) -> None:
        """Look again which files there are: an export failed, and nobody knows how far it came."""
        self._files.clear()
        self._secured.clear()

    def _listed(self, folder: str) -> dict[FileName, frozenset[At] | None]:
        known = self._files.get(folder)
        if known is None:
            known = {}
            with suppress(MissingError):
                for stat in self._disk.list_dir(folder):
                    name = FileName.parse(stat.name)
                    if name is not None and name.core == self.core and stat.is_file:
                        known[name] = None
                # A name that a killed exporter left may not be durable yet; acks rely on it.
                self._secure(folder.partition("/")[0], folder)
                remove(self._disk, self._temporary(folder))
                self._disk.sync_dir(folder)
            self._files[folder] = known
            if len(self._files) > _KNOWN_MAX:
                self._files.popitem(last=False)
        self._files.move_to_end(folder)
        return known

    def _places(self, path: str) -> frozenset[At]:
        """Ask a file which bundles it has; DamageError if it does not say."""
        from pyarrow import parquet

        try:
            about: Any = parquet.read_metadata(pa.BufferReader(self._disk.map(path))).metadata
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, StorageError):
                raise
            raise DamagedEntry(
                f"it is no Parquet: {error}", path=self._disk.locate(path)
            ) from error
        places = (about or {}).get(PLACES_KEY)
        if places is None:
            raise DamagedEntry("it does not say what it has", path=self._disk.locate(path))
        return decode_places(places)

    # columns -------------------------------------------------------------------------------------

    def schema(self, slot: str) -> pa.Schema | None:
        """Give the columns that a table has by now; None if it has no file yet."""
        known = self._schemas.get(slot)
        path = f"{_OWN}/{slot}.schema"
        if known is None and self._disk.stat(path) is not None:
            data = self._disk.map(path)
            try:
                known = pa.ipc.read_schema(pa.py_buffer(data))
            except (pa.ArrowException, OSError) as error:
                where = self._disk.locate(path)
                raise DamagedEntry("it has no schema", path=where) from error
            self._schemas[slot] = known
        return known

    def widen(self, slot: str, schema: pa.Schema) -> None:
        """Write down that a table has these columns from now on."""
        if self._schemas.get(slot) is not schema:
            replace(self._disk, f"{_OWN}/{slot}.schema", schema.serialize())
            self._schemas[slot] = schema

    # write ---------------------------------------------------------------------------------------

    def write(
        self, slot: str, day: str, places: Sequence[At], *, table: pa.Table, compression: Codec
    ) -> int:
        """Write one file and give its size; its name survives a power cut after ``settle``."""
        from pyarrow import parquet

        name = FileName(self.core, min(places), max(places))
        folder = f"{slot}/date={day}"
        path = f"{folder}/{name.text}"
        self._secure(slot, folder)
        if self._disk.stat(path) is not None:
            raise DamagedEntry("it is there, and has not what its name says", path=path)
        metadata: Any = table.schema.metadata or {}
        sink = pa.BufferOutputStream()
        parquet.write_table(
            table.replace_schema_metadata({**metadata, PLACES_KEY: encode_places(places)}),
            sink,
            compression=compression,
        )
        file = NewFile(self._disk, self._temporary(folder))
        try:
            file.write(sink.getvalue())
            file.finish(path)
        except BaseException:
            file.discard()
            raise
        return file.size

    def _secure(self, slot: str, folder: str) -> None:
        """Make the folders of a day, if they are not there, and their names durable, whoever did.

        One that a killed exporter made may be seen and go with the power.
        """
        for above, each in (("", slot), (slot, folder)):
            if each not in self._secured:
                self._disk.make_dir(each)
                self._disk.sync_dir(above)
                self._secured.add(each)

    def settle(self, slot: str, day: str, places: Sequence[At]) -> None:
        """Return once the name of a file survives a power cut."""
        folder = f"{slot}/date={day}"
        self._disk.sync_dir(folder)
        name = FileName(self.core, min(places), max(places))
        self._listed(folder)[name] = frozenset(places)

    def close(self) -> None:
        """Let others export here."""
        self._lock.release()
