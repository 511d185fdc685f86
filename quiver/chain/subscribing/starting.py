"""How a subscriber begins: it takes its partition, reads its marks, and joins what is new to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from quiver.chain.subscribing.log import AckLog, SubscriberRules, is_ack_partition
from quiver.chain.subscribing.marks import Lane, Marks
from quiver.chain.subscribing.reach import Reach
from quiver.chain.subscribing.records import Joined, Record
from quiver.chain.subscribing.subscription import ChainSubscription
from quiver.engine.start import Start, parse_start
from quiver.errors import InputError, MissingError
from quiver.timeline import TIME_MAX

__all__ = ["begin_joined", "joined", "start_subscriber"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RF: Final = 2


def start_subscriber(
    reach: Reach, name: str, partitions: Sequence[str], *, start: Start, rules: SubscriberRules
) -> ChainSubscription:
    """Take a name; see ``Cluster.subscribe``."""
    parse_start(start)
    for partition in partitions:
        if is_ack_partition(partition):
            raise InputError(f"{partition} is what a subscriber keeps its marks in")
    copies = _rf(reach, partitions or reach.partitions())
    log = AckLog(name, reach, rules, rf=copies)
    try:
        marks = log.read()
        if marks is None or marks.is_gone:
            marks = Marks(wants_all=not partitions)
        marks.wants_all = marks.wants_all or not partitions

        def join() -> list[Record]:
            new = [each for each in reach.partitions() if each not in marks.lanes]
            return [joined(reach, each, "earliest") for each in new]

        new = [each for each in partitions or reach.partitions() if each not in marks.lanes]
        begin_joined(reach, log, marks, partitions=new, start=start)
    except BaseException:
        log.abandon()
        raise
    return ChainSubscription(
        name, reach, log=log, marks=marks, rules=rules, join=join, wanted=tuple(partitions)
    )


def begin_joined(
    reach: Reach, log: AckLog, marks: Marks, *, partitions: Sequence[str], start: Start
) -> None:
    """Write marks to which partitions are new.

    Who purged meanwhile may not have known of that: what is gone by then was never theirs.
    """
    for each in partitions:
        marks.apply(joined(reach, each, start))
    log.begin(marks)
    late = [each for each in partitions if _is_purged(reach, marks.lanes[each])]
    for each in late:
        del marks.lanes[each]
        marks.apply(joined(reach, each, start))
    if late:
        log.begin(marks)


def _is_purged(reach: Reach, lane: Lane) -> bool:
    """Whether a lane that nothing was taken of begins at what is no more there."""
    try:
        return reach.partition(lane.partition).read().purged_below > lane.floor
    except MissingError:
        return False


def _rf(reach: Reach, partitions: Iterable[str]) -> int:
    """Give as many copies as the partitions have (R44)."""
    found = [_RF]
    for name in partitions:
        try:
            found.append(reach.partition(name).read().rf)
        except MissingError:  # It begins with its first bundle (R8).
            continue
    return max(found[1:], default=_RF)


def joined(reach: Reach, name: str, start: Start) -> Joined:
    """Say where a partition begins for whoever is new to it."""
    given = parse_start(start)
    partition = reach.partition(name)
    start_ns: int | None = None
    if isinstance(given, datetime):
        start_ns = (given - _EPOCH) // timedelta(microseconds=1) * 1000
    elif isinstance(given, int):
        start_ns = given
    if start_ns is not None:
        start_ns = min(max(start_ns, 0), TIME_MAX)  # No bundle is outside of that.
    try:
        record = partition.read()
    except MissingError:
        return Joined(name, 0, start_ns, 0)
    behind = record.open.number if record.open else record.next_number
    if start_ns is not None:
        found = partition.find(record, start_ns)
        number = found[0].number if found else behind
        return Joined(name, number, start_ns, record.last_seq + 1 if number == behind else None)
    if given == "latest":
        return Joined(name, behind, None, record.last_seq + 1)
    return Joined(name, record.purged_below, None, None if record.purged_below else 0)
