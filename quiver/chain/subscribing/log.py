"""A subscriber's records as entries of a partition of its own, with copies like all others (R44).

Whoever loads that partition is the subscriber: to take the name is to take the partition, and its
epoch fences whoever had it. Each block of it gets a snapshot of all marks, and once that has all
its copies, what lies before it is purged: the partition never has more than about two blocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pyarrow as pa

from quiver.chain.loading import LoaderRules, LoadReceipt
from quiver.chain.reading import ChainMessage, Silence
from quiver.chain.record import Record as PartitionRecord
from quiver.chain.subscribing.format import decode_record, encode_record
from quiver.chain.subscribing.marks import Marks
from quiver.chain.subscribing.reach import Reach
from quiver.chain.subscribing.records import Record, Snapshot
from quiver.config import SubscriberConfig
from quiver.errors import (
    ConfigError,
    DamagedEntry,
    FencedError,
    InputError,
    LockedError,
    MissingError,
    QuiverError,
    RemoteError,
    SubscriberError,
)
from quiver.subscriber import check_name

__all__ = [
    "PREFIX",
    "SLOT",
    "AckLog",
    "SubscriberRules",
    "ack_partition",
    "is_ack_partition",
    "read_marks",
]

PREFIX: Final = "acks."
"""Partitions whose names begin so are subscribers'."""
SLOT: Final = "acks"
_COLUMN: Final = "record"
_NAME_MAX: Final = 100 - len(PREFIX)
_GAPS: Final = ("error", "tell")
_TRIES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriberRules:
    """How a subscriber of a chain goes about it."""

    rf: int = 0
    """Copies of its marks; 0: as many as the partitions have that it reads. Kept once it is new."""
    soft_bytes: int = 4_000_000
    """Of a block of its marks; two of them are kept."""
    waits: bool = True
    """``ack`` returns when all copies have it; False: when it is on its way, ``flush`` waits."""
    patience: float | str = "60s"
    """So long an outcome waits for the chain, and the subscription for its partition."""
    takes_over: bool = True
    """Take the name from whoever has it; False: LockedError while somebody has."""
    begin_anew: bool = False
    """Register anew if the marks are lost with all of their copies, instead of DamagedEntry."""
    gap: str = "error"
    """What becomes of bundles that were purged before they came: ``error``, or ``tell`` and on."""
    retry: SubscriberConfig = field(default_factory=SubscriberConfig)
    """When a nacked bundle comes again, and how often."""

    def __post_init__(self) -> None:
        """Check them."""
        if self.gap not in _GAPS:
            raise ConfigError(f"gap: {self.gap!r} is unknown", hint=" or ".join(_GAPS))
        if self.rf < 0 or self.soft_bytes <= 0:
            raise ConfigError("rf of a subscriber is 0 or more, and its soft_bytes above 0")


def is_ack_partition(partition: str) -> bool:
    """Whether a partition is a subscriber's, by its name."""
    return partition.startswith(PREFIX)


def ack_partition(name: str) -> str:
    """Name the partition of a subscriber; raises what is wrong with the name."""
    check_name(name)
    if len(name) > _NAME_MAX:
        raise InputError(f"a subscriber of a chain has at most {_NAME_MAX} characters: {name!r}")
    return PREFIX + name


class AckLog:
    """The records of one subscriber that this process writes. Its caller keeps threads apart."""

    def __init__(self, name: str, reach: Reach, rules: SubscriberRules, *, rf: int) -> None:
        """Take the partition, and so the name; raises LockedError and WaitTimeoutError."""
        self.name = name
        self._reach = reach
        self._rules = rules
        self._partition = ack_partition(name)
        given = LoaderRules(
            rf=rules.rf or rf, takes_over=rules.takes_over, soft_bytes=rules.soft_bytes
        )
        self._loader = reach.load(self._partition, given)
        self._number = -1
        """Of the block that has a snapshot."""
        self._unpurged: LoadReceipt | None = None
        """The last snapshot, as long as what lies before it is there."""
        self._is_purging = False
        self._left: deque[Callable[[], object]] = deque()
        """What takes into memory what is written, or may be; each does nothing if done again."""
        self._is_torn = False
        """Whether what is in memory may not be written: something broke off in between."""
        self._is_over = False
        try:
            with self.told():
                self._loader.wait_open(rules.patience)
            self._taken = self._loader.record
        except BaseException:
            self._loader.abandon()
            raise

    def read(self) -> Marks | None:
        """Give what was written before this process came; None if nothing ever was."""
        record = self._taken
        if record is None or record.last_seq < 0:
            return None
        marks = _read(self._reach, self._partition, record)
        if marks is None and not self._rules.begin_anew:
            raise DamagedEntry(
                f"the marks of subscriber {self.name} are lost with all of their copies",
                path=self._partition,
                hint="begin_anew=True registers it anew; what it had may come again",
            )
        return marks

    def begin(self, marks: Marks) -> None:
        """Write what is known at first, and let go of all that lies before it."""
        self._snapshot(marks)
        self.wait(self._unpurged)
        self.tidy()

    def put(self, records: Sequence[Record]) -> LoadReceipt:
        """Write records that belong together; they are on their way when this returns."""
        batch = pa.record_batch({_COLUMN: [encode_record(record) for record in records]})
        with self.told():
            return self._loader.send({SLOT: batch}, timeout=self._rules.patience)

    @contextmanager
    def writing(
        self,
        marks: Marks,
        records: Sequence[Record],
        *,
        acts: Sequence[Callable[[], object]] = (),
    ) -> Iterator[LoadReceipt]:
        """Write records, which the block takes into ``marks``; what breaks off counts all the same.

        An interrupt may come when they are written and not taken in, or before that, and nobody
        knows which: others may have read them. So whoever comes next does ``acts``, or takes the
        records in, and what is in memory then is written before anything else.
        """
        self.mend(marks)
        left = acts or [partial(marks.apply, record) for record in records]
        self._is_torn = True
        self._left.extend(left)
        try:
            receipt = self.put(records)
        except QuiverError:  # It was refused, so nothing of it is on its way.
            self._left.clear()
            self._is_torn = False
            raise
        yield receipt
        self._left.clear()
        self._is_torn = False

    def take_in(self) -> None:
        """Bring to its end, in memory, what broke off behind its writing."""
        while self._left:
            self._left[0]()
            self._left.popleft()

    def mend(self, marks: Marks) -> None:
        """Take in what broke off, and write all that is known, if it may not be written."""
        self.take_in()
        if self._is_torn:
            self._snapshot(marks)
            self._is_torn = False

    def keep_up(self, marks: Marks) -> None:
        """Write a snapshot if a block has none; ``marks`` have all that was written."""
        record = self._loader.record
        if record is not None and record.open is not None and record.open.number != self._number:
            self._snapshot(marks)

    def _snapshot(self, marks: Marks) -> None:
        record = self._loader.record
        number = record.open.number if record is not None and record.open is not None else -1
        self._unpurged = self.put([marks.snapshot()])
        self._number = number

    def wait(self, receipt: LoadReceipt | None) -> None:
        """Return once all copies have it."""
        if receipt is not None:
            with self.told():
                receipt.wait(self._rules.patience)

    def flush(self, timeout: float | str | None) -> None:
        """Return once all copies have all that was written before."""
        with self.told():
            self._loader.flush(timeout)

    def check(self) -> None:
        """Raise if somebody else has the name by now, as far as this process heard."""
        with self.told():
            self._loader.wait_open(self._rules.patience)

    def tidy(self) -> None:
        """Purge what lies before the last snapshot, once that has all its copies.

        If metadata do not answer it is done later: at the next snapshot at the latest.
        """
        receipt = self._unpurged
        if receipt is None or self._is_purging or not receipt.is_replicated:
            return
        self._is_purging = True
        try:
            self._reach.partition(self._partition).purge(receipt.time_ns)
        except RemoteError as error:
            if not error.retryable:
                raise
        else:
            self._unpurged = None if self._unpurged is receipt else self._unpurged
        finally:
            self._is_purging = False

    def close(self, timeout: float | str | None) -> None:
        """Wait until all is written, and let go of the name, whether that comes to an end or not.

        Where it does not the loader would go on, and have the name, with nobody to end it. Once
        that is done it does nothing.
        """
        if self._is_over:
            return
        try:
            with self.told():
                self._loader.close(timeout)
        except BaseException:
            self.abandon()
            raise
        self._is_over = True

    def abandon(self) -> None:
        """Stop at once, as if the process had died."""
        if not self._is_over:
            self._loader.abandon()
        self._is_over = True

    @contextmanager
    def told(self) -> Iterator[None]:
        """Say of a loader that was fenced what it means here."""
        try:
            yield
        except FencedError as error:
            raise SubscriberError(
                f"another process goes on as the subscriber {self.name!r}: {error.message}",
                hint="what was not acked is delivered there; subscribe again to take it back",
            ) from error
        except LockedError as error:
            raise LockedError(
                f"the subscriber {self.name!r} is taken: {error.message}",
                hint="takes_over=True takes it, and fences whoever has it",
            ) from error


def read_marks(reach: Reach, name: str) -> Marks | None:
    """Read a subscriber's marks beside whoever has it, as far as they are visible.

    None if it never was. Marks may be older than those of its process, never newer.
    """
    return _read(reach, ack_partition(name), None)


def _read(reach: Reach, partition: str, until: PartitionRecord | None) -> Marks | None:
    """Do it again where what is read is purged meanwhile: then there is a newer snapshot."""
    for _ in range(_TRIES):
        try:
            return _replayed(reach.follow(partition), until)
        except MissingError as error:
            fault = error
    try:
        reach.partition(partition).read()
    except MissingError:
        return None
    raise fault


def _replayed(
    messages: Iterator[ChainMessage | Silence], until: PartitionRecord | None
) -> Marks | None:
    """Do again what was written, up to where a record ends; None if there is no snapshot."""
    marks: Marks | None = None
    if until is not None and not (until.recent or until.pages):
        return None
    for message in messages:
        if isinstance(message, Silence):
            continue
        for text in message.bundle[SLOT][_COLUMN].to_pylist():
            record = decode_record(str(text))
            if isinstance(record, Snapshot) and marks is None:
                marks = Marks(wants_all=record.wants_all)
            if marks is not None:
                marks.apply(record)
        if until is not None and message.wal_seq >= until.last_seq:
            break
    return marks
