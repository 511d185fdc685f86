"""The columns that a query reads, kept in its checkpoint: once all is acked the queue tells none.

``quiver/<digest>.queue`` in the checkpoint folder, beside what queries of stores leave there.
"""

from __future__ import annotations

import base64
import json
import posixpath
from contextlib import closing
from typing import Any, Final

import blake3
import pyarrow as pa

from quiver.checkpoint import CheckpointFolder
from quiver.checkpoint.note import FOLDER
from quiver.disk import Disk, replace
from quiver.errors import DamagedEntry

__all__ = ["recall", "remember"]

_SUFFIX: Final = ".queue"
_VERSION: Final = 1
_DIGEST_BYTES: Final = 8
_BYTES_MAX: Final = 1 << 20


def remember(disk: Disk, schema: pa.Schema, *, queue: str, slot: str) -> None:
    """Keep the columns of a query; what is there and says the same stays as it is."""
    text = base64.b64encode(schema.remove_metadata().serialize().to_pybytes()).decode()
    note = {"queue": queue, "schema": text, "slot": slot, "version": _VERSION}
    data = json.dumps(note, sort_keys=True).encode()
    path = _path(queue, slot)
    disk.make_dir(FOLDER)
    if disk.stat(path) is not None:
        with closing(disk.open(path)) as file:
            if file.read(0, _BYTES_MAX) == data:
                return
    replace(disk, path, data)
    disk.sync_dir("")


def recall(checkpoint: str, *, queue: str, slot: str) -> pa.Schema | None:
    """Give the columns that a query had when it ran last; None if nothing was kept."""
    path = _path(queue, slot)
    with closing(CheckpointFolder(checkpoint)) as folder:
        disk = folder.disk
        if disk is None or disk.stat(path) is None:
            return None
        with closing(disk.open(path)) as file:
            text = file.read(0, _BYTES_MAX)
        try:
            note = json.loads(text)
            arrow: Any = pa.ipc
            found = arrow.read_schema(pa.py_buffer(base64.b64decode(note["schema"])))
        except (ValueError, TypeError, KeyError, pa.ArrowException) as error:
            raise DamagedEntry(
                "what a query keeps of its columns cannot be read",
                path=posixpath.join(folder.path, path),
                hint="delete the file, and say the columns with .schema(...) if the queue is empty",
            ) from error
    schema: pa.Schema = found
    return schema


def _path(queue: str, slot: str) -> str:
    digest = blake3.blake3(f"{queue}\0{slot}".encode()).hexdigest(_DIGEST_BYTES)
    return f"{FOLDER}/{digest}{_SUFFIX}"
