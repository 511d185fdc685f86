"""One core of a store, followed by a subscriber in another process: read, never written to.

It has a registry with that one subscriber in it. Segments come and go as the folder says; what the
store knows of the subscriber is read from ack.log once, and what was done here goes to the inbox.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing, contextmanager, suppress
from typing import Final

from quiver.acks import Record
from quiver.acks.opening import LOG_NAME
from quiver.clock import Clock
from quiver.config import Config
from quiver.consumer.gathered import Gathered
from quiver.disk import Disk
from quiver.engine import nested
from quiver.engine.beside import AcksState, read_acks
from quiver.engine.core import core_folder
from quiver.engine.desk import Outlet
from quiver.engine.listeners import Listeners
from quiver.engine.readers import OpenedSegment, Readers
from quiver.engine.start import Position, Start, find_start, parse_start
from quiver.errors import ClosedError, DamageError, MissingError, QuiverError
from quiver.events import Events
from quiver.manifest import StoreManifest
from quiver.metrics import Metrics
from quiver.segment import Catalog, parse_segment_name, read_info
from quiver.subscriber import Claim, Registry

__all__ = ["DAMAGED_HERE", "Follower"]

DAMAGED_HERE: Final = 3
"""The outcome of a bundle that could not be read here; the store looks for itself."""


class Follower:
    """A desk over one core's folder. ``changed`` and ``lock`` are shared by all cores of a store.

    It is its own outlet: outcomes stay in memory until they are committed to the inbox.
    """

    def __init__(
        self,
        disk: Disk,
        manifest: StoreManifest,
        number: int,
        *,
        name: str,
        config: Config,
        clock: Clock,
        changed: threading.Condition,
        lock: threading.RLock,
    ) -> None:
        """Follow core ``number``; nothing is read yet."""
        self.disk, self.manifest, self.number = disk, manifest, number
        self.name, self.config, self.clock = name, config, clock
        self.lock, self.changed = lock, changed
        self.folder = core_folder(number)
        self._log_path = f"{self.folder}/acks/{LOG_NAME}"
        self.change_count = 0
        self.listeners = Listeners()
        self.catalog = Catalog()
        self.registry = Registry()
        self.readers = Readers(disk, config.limits)
        self.metrics = Metrics()
        self.outlet: Outlet = self
        self.events = Events(lock, store=disk.locate(""), core=number)
        self.missing_segments: set[int] = set()
        self.unread_counts: dict[int, int] = {}
        self.forgotten: deque[Claim] = deque()
        self.gathered = Gathered()
        self.failure: QuiverError | None = None
        self._broken: BaseException | None = None
        self._closed = False
        self._log_seen: tuple[int, int] | None = None
        self._owner = os.getpid()

    # what it follows -----------------------------------------------------------------------------

    def load(self, start: Start) -> None:
        """Read what segments there are, and how far the store says that the subscriber is."""
        self.refresh()
        while True:
            counts = self._counts()
            seen = self._look_at_log()
            acks = read_acks(self.disk, self.number, counts)
            self.refresh()
            if counts == self._counts():
                break  # Otherwise there may be outcomes of a segment that was not known yet.
        self.registry = acks.registry
        for other in self.registry.names():
            if other != self.name:
                self.registry.unregister(other)
        if self.name in self.registry:
            self._sync_log()  # An inbox with an id that a power cut takes would be nobody's.
            self.gathered.subscriber_id = self.registry.member(self.name).subscriber_id
            return
        self._log_seen = seen
        newest = self.catalog.newest_seq
        next_seq = max(acks.floor.next_segment_seq, -1 if newest is None else newest + 1)
        position = find_start(
            parse_start(start), self.catalog, self.disk, next_segment_seq=next_seq
        )
        self.register(position)

    def _counts(self) -> dict[int, int]:
        return {info.segment_seq: info.bundle_count for info in self.catalog}

    def register(self, position: Position) -> None:
        """Start as a subscriber whom the store does not know yet."""
        self.gathered.start = position
        self.registry.replay_register(
            1,
            self.name,
            start_segment_seq=position.segment_seq,
            start_bundle_index=position.bundle_index,
        )

    def known_id(self) -> int:
        """Ask ack.log for the id of the subscriber; 0 if it is not registered."""
        seen = self._look_at_log()
        if seen == self._log_seen and seen is not None and seen[1]:
            return 0  # Nothing was written since it was asked before.
        self._log_seen = seen
        registry = self.durable_acks().registry
        return registry.member(self.name).subscriber_id if self.name in registry else 0

    def durable_acks(self) -> AcksState:
        """Read ack.log as it survives a power cut; what is not said again must be in there."""
        acks = read_acks(self.disk, self.number, self._counts())
        self._sync_log()
        return acks

    def _look_at_log(self) -> tuple[int, int] | None:
        """Say what changes when something is written to ack.log."""
        found = self.disk.stat(self._log_path)
        return None if found is None else (found.size, found.modified_ns)

    def _sync_log(self) -> None:
        """Let what was read of ack.log survive a power cut."""
        # Whoever replaced it since had all of it on the disk before.
        with suppress(MissingError), closing(self.disk.open(self._log_path, writable=True)) as log:
            log.sync()

    def refresh(self) -> bool:
        """See which segments came and went; say whether any did."""
        segments = f"{self.folder}/segments"
        with suppress(MissingError):
            known = {info.segment_seq for info in self.catalog}
            found = self._listed(segments, known)
            for segment_seq in known - found.keys():
                self._forget(segment_seq)
            for segment_seq in sorted(found.keys() - known):
                self._learn(f"{segments}/{found[segment_seq]}")
            return found.keys() != known
        return False

    def _listed(self, segments: str, known: AbstractSet[int]) -> dict[int, str]:
        """List segments by number, without a hole among new ones that is none.

        A listing may miss a name that is given meanwhile and still have the next one. Names are
        given in order, so up to the highest that was seen a second listing has them all.
        """
        found = self._names(segments)
        new = sorted(found.keys() - known)
        first = max(known, default=-1) + 1
        if not new or new == list(range(first, first + len(new))):
            return found
        again = self._names(segments)
        return {number: again[number] for number in again if number <= new[-1] or number in known}

    def _names(self, segments: str) -> dict[int, str]:
        numbered = (
            (parse_segment_name(stat.name), stat.name)
            for stat in self.disk.list_dir(segments)
            if stat.is_file
        )
        return {number: name for number, name in numbered if number is not None}

    def _learn(self, path: str) -> None:
        # A damaged one is the store's affair, which sets it aside when it opens.
        with suppress(MissingError, DamageError):
            info = read_info(self.disk, path)
            self.catalog.add(info)
            self.registry.add_segment(info.segment_seq, info.bundle_count)

    def unreadable(self) -> list[tuple[int, DamageError]]:
        """Give the segments that are there and not known, by number, and why they are not."""
        segments, found = f"{self.folder}/segments", []
        names: dict[int, str] = {}
        with suppress(MissingError):
            names = self._names(segments)
        for number in sorted(names.keys() - {info.segment_seq for info in self.catalog}):
            try:
                read_info(self.disk, f"{segments}/{names[number]}")
            except DamageError as error:
                found.append((number, error))
            except MissingError:
                continue
        return found

    def _forget(self, segment_seq: int) -> None:
        self.catalog.remove(segment_seq)
        self.registry.remove_segment(segment_seq)
        self.readers.forget(segment_seq)
        self.gathered.forget(segment_seq)

    # a desk --------------------------------------------------------------------------------------

    def announce(self) -> None:
        """Wake whoever waits for a bundle."""
        self.change_count += 1
        self.changed.notify_all()
        self.listeners.call()

    @property
    def inherited(self) -> bool:
        """Whether this is the copy that a forked child has."""
        return os.getpid() != self._owner

    def check_process(self) -> None:
        """Raise ClosedError in a forked child."""
        if self.inherited:
            raise ClosedError(
                "the subscription was opened in another process and came here by fork",
                hint="subscribe after forking, each process under a name of its own",
            )

    def refuse_nested(self) -> None:
        """Raise CapacityError in a thread that is in the middle of another call, further up."""
        if nested.is_mine(self.lock):
            raise nested.refusal()

    def check(self) -> None:
        """Raise what made an end of this: another process went on, or something was broken off."""
        if self.failure is not None:
            raise self.failure
        if self._broken is not None:
            raise ClosedError(
                f"the subscription was broken off: {self._broken!r}", hint="subscribe again"
            ) from self._broken

    def check_open(self) -> None:
        """Raise ClosedError if it was closed."""
        if self._closed:
            raise ClosedError("the subscription is closed", hint="subscribe again")

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Give up if what is inside is broken off by anything but a QuiverError."""
        try:
            yield
        except QuiverError:
            raise
        except BaseException as error:
            self.break_off(error)
            raise

    def break_off(self, error: BaseException) -> None:
        """Give up: an act was broken off, and nobody knows how far it came."""
        self._broken = self._broken or error

    def close(self) -> None:
        """Let go of what was read; a second call does nothing."""
        self._closed = True
        self.readers.close()
        self.announce()

    # an outlet -----------------------------------------------------------------------------------

    def append(self, records: Sequence[Record]) -> None:  # noqa: ARG002 The registry has it all.
        """Note that there is something to commit."""
        self.gathered.is_dirty = True

    def write_off(self, claim: Claim, error: DamageError, *, opened: OpenedSegment | None) -> None:
        """Leave a damaged bundle, or all of its segment, to the store, which keeps a copy."""
        seq, first, count = claim.run
        if opened is None:
            first, count = 0, self.catalog.get(seq).bundle_count
        text = str(error)
        for part in self.registry.progress(self.name).open_within(seq, first, count):
            for index in range(part[0], sum(part)):
                self.gathered.give_up((seq, index), claim.attempt, DAMAGED_HERE, text=text)
                text = ""  # Once is enough for a whole segment.
            self.registry.resolve(self.name, seq, part[0], count=part[1])

    def give_up(self, claim: Claim, outcome: int, *, opened: OpenedSegment, reason: str) -> None:  # noqa: ARG002 The store reads it.
        """Leave it to the store to set the bundles aside."""
        for index in range(claim.bundle_index, claim.bundle_index + claim.count):
            self.gathered.give_up((claim.segment_seq, index), claim.attempt, outcome, text=reason)
