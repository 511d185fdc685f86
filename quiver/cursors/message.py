"""What a cursor gives: one bundle, when it came, and from where."""

from __future__ import annotations

from typing import NamedTuple

from quiver.bundle import RecordBundle

__all__ = ["Key", "Message", "Position"]


class Key(NamedTuple):
    """The place of a bundle in the order in which cursors give them."""

    time_ns: int
    partition: int
    wal_seq: int


class Position(NamedTuple):
    """Which bundle of a partition was given last."""

    time_ns: int
    wal_seq: int


class Message(NamedTuple):
    """One bundle. Messages of several partitions come by the first three fields, in this order.

    ``time_ns`` is the time of its ingestion by the rule of its store (``segment.time``), and
    ``event_ns`` the range of its rows' event times, None if it has none; both in nanoseconds since
    1970. Batches are views of the store's files where they can be.
    """

    time_ns: int
    partition: int
    wal_seq: int
    event_ns: tuple[int, int] | None
    bundle: RecordBundle
