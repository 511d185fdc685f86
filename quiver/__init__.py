"""Quiver: an embedded, durable buffer of Arrow data.

    append -> WAL -> open segment -> segment file -> subscriber -> acks -> retention

A process appends bundles of Arrow batches (``bundle``); each is durable in a write-ahead log
(``wal``) before the append returns. Bundles gather in memory and become immutable, memory-mapped
files (``segment``) that any number of subscribers (``subscriber``) read; what they acked is written
down (``acks``) and what everybody has is deleted (``retention``). ``engine`` moves data between
these rooms, ``disk`` is the only door to the operating system, and ``scan`` and ``spark`` read::

    import quiver

    with quiver.open("store", slots=["events"]) as store:
        store.append({"events": table})          # durable when this returns
        store.finalize()
    quiver.scan("store", slot="events").to_table()
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

from quiver.errors import (
    CapacityError,
    ClosedError,
    ConfigError,
    DamagedEntry,
    DamageError,
    FencedError,
    InputError,
    LockedError,
    MissingError,
    OutOfSequenceError,
    PoisonedError,
    QuiverError,
    RemoteError,
    SourceError,
    StorageError,
    SubscriberError,
    TornEntry,
    VersionError,
    WaitTimeoutError,
)

if TYPE_CHECKING:
    from quiver import aio
    from quiver.bundle import RecordBundle
    from quiver.chain.cluster import Cluster, connect
    from quiver.config import Config
    from quiver.config_file import LoadedConfig, load_config
    from quiver.consumer import Consumer, subscribe
    from quiver.cursors import Cursor, cursor
    from quiver.engine import (
        Adopted,
        Follower,
        Progress,
        Receipt,
        Store,
        adopt,
        open,  # noqa: A004
        read_progress,
    )
    from quiver.scan import Scan, scan
    from quiver.slots import Slot, SlotTable

__version__ = "0.1.0"

# Who wants to read events sets logging up; without that Python would print their bare names.
logging.getLogger("quiver").addHandler(logging.NullHandler())

__all__ = [
    "Adopted",
    "CapacityError",
    "ClosedError",
    "Cluster",
    "Config",
    "ConfigError",
    "Consumer",
    "Cursor",
    "DamageError",
    "DamagedEntry",
    "FencedError",
    "Follower",
    "InputError",
    "LoadedConfig",
    "LockedError",
    "MissingError",
    "OutOfSequenceError",
    "PoisonedError",
    "Progress",
    "QuiverError",
    "Receipt",
    "RecordBundle",
    "RemoteError",
    "Scan",
    "Slot",
    "SlotTable",
    "SourceError",
    "StorageError",
    "Store",
    "SubscriberError",
    "TornEntry",
    "VersionError",
    "WaitTimeoutError",
    "__version__",
    "adopt",
    "aio",
    "connect",
    "cursor",
    "load_config",
    "open",
    "read_progress",
    "scan",
    "subscribe",
]

_LAZY = {
    "Adopted": "quiver.engine",
    "Cluster": "quiver.chain.cluster",
    "Config": "quiver.config",
    "Consumer": "quiver.consumer",
    "Cursor": "quiver.cursors",
    "Follower": "quiver.engine",
    "LoadedConfig": "quiver.config_file",
    "Progress": "quiver.engine",
    "Receipt": "quiver.engine",
    "RecordBundle": "quiver.bundle",
    "Scan": "quiver.scan",
    "Slot": "quiver.slots",
    "SlotTable": "quiver.slots",
    "Store": "quiver.engine",
    "adopt": "quiver.engine",
    "aio": "quiver.aio",
    "cursor": "quiver.cursors",
    "connect": "quiver.chain.cluster",
    "load_config": "quiver.config_file",
    "open": "quiver.engine",
    "read_progress": "quiver.engine",
    "scan": "quiver.scan",
    "subscribe": "quiver.consumer",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Load what needs pyarrow only when it is asked for: ``quiver --help`` must start at once."""
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'quiver' has no attribute {name!r}")
    found = importlib.import_module(module)
    # quiver.aio is a folder, quiver.scan one that may be called: they are themselves asked for.
    value = found if module == f"quiver.{name}" else getattr(found, name)
    globals()[name] = value
    return value
