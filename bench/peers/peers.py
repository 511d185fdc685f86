"""Who takes part."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Final, cast

from bench.peers.peer import Mode, Peer
from bench.peers.servers import program

__all__ = ["MODULES", "RAW", "TWO_COPIES", "find", "missing", "modes"]

MODULES: Final = {
    "quiver": ("store", "Quiver"),
    "lmdb": ("lmdb", "Lmdb"),
    "lmdb-writemap": ("lmdb", "LmdbWriteMap"),
    "rocksdb": ("rocks", "RocksDb"),
    "sqlite-full": ("sqlite", "SqliteFull"),
    "sqlite-default": ("sqlite", "SqliteDefault"),
    "redis-always": ("brokers", "RedisAlways"),
    "arrow-files": ("files", "ArrowFiles"),
    "sqlite-normal": ("sqlite", "SqliteNormal"),
    "redis-everysec": ("brokers", "RedisEverySecond"),
    "nats": ("brokers", "NatsStream"),
    "parquet-files": ("files", "ParquetFiles"),
    "duckdb": ("tables", "DuckDb"),
    "delta": ("tables", "Delta"),
    "lance": ("tables", "Lance"),
    "raw-log": ("raw", "RawLog"),
    "raw": ("raw", "Raw"),
    "raw-tuned": ("raw", "RawTuned"),
}
"""In the order of the page: the module and the class of each."""

TWO_COPIES: Final = ("raw", "raw-tuned")
RAW: Final = ("raw-log", *TWO_COPIES)
"""No stores, but what the disk gives."""

_BOTH: Final[tuple[Mode, ...]] = ("group", "each")
_NEEDS: Final = {"lmdb": "lmdb", "lmdb-writemap": "lmdb", "rocksdb": "rocksdict"}
"""Modules that cannot be imported without a package."""


def modes(name: str) -> tuple[Mode, ...]:
    """Say in which ways a peer is measured."""
    both = ("quiver", "lmdb", "rocksdb", "sqlite-full", "sqlite-default", "redis-always")
    if name in both or name in RAW:
        return _BOTH
    return ("group",) if name in ("lmdb-writemap", "redis-everysec", "nats") else ("each",)


def find(name: str) -> type[Peer]:
    """Give the class of a peer."""
    module, kind = MODULES[name]
    return cast("type[Peer]", getattr(importlib.import_module(f"bench.peers.{module}"), kind))


def missing(name: str) -> str:
    """Say why a peer cannot take part; empty if it can."""
    if (package := _NEEDS.get(name)) and importlib.util.find_spec(package) is None:
        return f"no {package}: pip install {package}"
    peer = find(name)
    for package in peer.packages:
        if importlib.util.find_spec(package) is None:
            return f"no {package}: `pip install --group bench` has it"
    if peer.program and program(peer.program) is None:
        return f"no {peer.program}: apt-get install {peer.program}"
    return ""
