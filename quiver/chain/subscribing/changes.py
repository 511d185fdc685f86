"""What is done to a subscriber from outside: forget it, hold it up, start it over, call it anew.

Whoever does that takes the name, so a process that has it is fenced: its next outcome raises, and
it subscribes again to go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from quiver.chain.subscribing.known import is_known
from quiver.chain.subscribing.log import AckLog, SubscriberRules, ack_partition, read_marks
from quiver.chain.subscribing.marks import Marks
from quiver.chain.subscribing.reach import Reach
from quiver.chain.subscribing.starting import begin_joined
from quiver.engine.start import Start, parse_start
from quiver.errors import InputError, SubscriberError

__all__ = ["drop_subscriber", "pause_subscriber", "rename_subscriber", "reset_subscriber"]


def drop_subscriber(reach: Reach, name: str) -> None:
    """Forget a subscriber for good; whoever has the name is fenced."""
    with _taken(reach, name) as log:  # Its marks may be lost, or never have been written.
        log.begin(_gone())


def pause_subscriber(reach: Reach, name: str, *, is_paused: bool) -> None:
    """Deliver nothing to it until that is taken back; what it has not had is kept."""
    with _taken(reach, name) as log:
        marks = _marks(log)
        marks.is_paused = is_paused
        log.begin(marks)


def reset_subscriber(reach: Reach, name: str, start: Start) -> None:
    """Have it begin anew with all of its partitions; what it acked and gave up is forgotten.

    A pause stays. What lies before ``start`` is kept for it no longer.
    """
    parse_start(start)
    with _taken(reach, name) as log:
        marks = _marks(log)
        anew = Marks(wants_all=marks.wants_all)
        anew.is_paused = marks.is_paused
        partitions = sorted({*marks.lanes, *(reach.partitions() if marks.wants_all else ())})
        begin_joined(reach, log, anew, partitions=partitions, start=start)


def rename_subscriber(reach: Reach, name: str, new_name: str) -> None:
    """Give it another name, under which it goes on; SubscriberError if somebody has that.

    Its marks are under both names for a moment. If it ends there, the same may be done again, as
    long as neither went on; until then both keep what it needs.
    """
    if name == new_name:
        raise InputError(f"{name} has that name")
    partition = ack_partition(new_name)
    # Before anybody is fenced: who holds the name goes on if this comes to nothing.
    _refuse_others(reach, name, new_name)
    with _taken(reach, name) as log:
        marks = _marks(log)
        copies = reach.partition(ack_partition(name)).read().rf
        new = AckLog(new_name, reach, SubscriberRules(takes_over=False), rf=copies)
        try:
            there = new.read()
            if there is not None and not there.is_gone and there.snapshot() != marks.snapshot():
                raise _there(new_name, partition)
            new.begin(marks)
        except BaseException:
            new.abandon()
            raise
        new.close(SubscriberRules().patience)
        log.begin(_gone())


def _refuse_others(reach: Reach, name: str, new_name: str) -> None:
    """Raise SubscriberError if the new name is another one's; who broke off has both names."""
    if not is_known(reach, name):
        raise _unknown(name)
    there = read_marks(reach, new_name) if is_known(reach, new_name) else None
    mine = read_marks(reach, name)
    if there is not None and (mine is None or there.snapshot() != mine.snapshot()):
        raise _there(new_name, ack_partition(new_name))


def _there(new_name: str, partition: str) -> SubscriberError:
    return SubscriberError(
        f"there is a subscriber {new_name!r}",
        hint=f"another name, or forget that one first; its marks are {partition}",
    )


@contextmanager
def _taken(reach: Reach, name: str) -> Iterator[AckLog]:
    """Take the name of a subscriber, whoever has it, and let it go again."""
    if not is_known(reach, name):
        raise _unknown(name)
    log = AckLog(name, reach, SubscriberRules(), rf=2)
    try:
        yield log
    except BaseException:
        log.abandon()
        raise
    log.close(SubscriberRules().patience)


def _marks(log: AckLog) -> Marks:
    """Read its marks as they are, now that nobody else writes them."""
    marks = log.read()
    if marks is None or marks.is_gone:
        raise _unknown(log.name)
    return marks


def _unknown(name: str) -> SubscriberError:
    return SubscriberError(f"no subscriber {name!r}")


def _gone() -> Marks:
    gone = Marks(wants_all=False)
    gone.is_gone = True
    return gone
