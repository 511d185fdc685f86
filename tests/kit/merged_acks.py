"""What records come to, whatever runs their acks are in: for what may unite acks, and how far."""

from __future__ import annotations

from quiver.acks import Ack, Record

__all__ = ["meaning"]

Meaning = list[tuple[int, Record | frozenset[tuple[tuple[int, int, int], int]]]]


def meaning(entries: list[tuple[int, Record]]) -> Meaning:
    """Give the records of other kinds, and between them what all acks together resolve.

    Of the acks: subscriber, segment and lease with each run of bundles, and the highest number and
    latest time of each subscriber.
    """
    found: Meaning = []
    acks: list[tuple[int, Ack]] = []
    for seq, record in entries:
        if isinstance(record, Ack):
            acks.append((seq, record))
        else:
            found += [*_resolved(acks), (seq, record)]
            acks = []
    return found + _resolved(acks)


def _resolved(acks: list[tuple[int, Ack]]) -> Meaning:
    """Unite the bundles of acks as sorted runs that do not touch."""
    cuts: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    latest: dict[int, tuple[int, int]] = {}
    for seq, ack in acks:
        key = ack.subscriber_id, ack.segment_seq, ack.lease
        cuts.setdefault(key, []).append((ack.bundle_first, ack.bundle_first + ack.bundle_count))
        before = latest.get(ack.subscriber_id, (seq, ack.at_ns))
        latest[ack.subscriber_id] = max(before[0], seq), max(before[1], ack.at_ns)
    values = {(key, run) for key, runs in cuts.items() for run in _apart(runs)}
    if not acks:
        return []
    return [(max(seq for seq, _ in acks), frozenset(values | set(latest.items())))]


def _apart(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    apart: list[tuple[int, int]] = []
    for first, end in sorted(runs):
        if apart and first <= apart[-1][1]:
            apart[-1] = apart[-1][0], max(apart[-1][1], end)
        else:
            apart.append((first, end))
    return apart
