"""All copies of one node, on its disk."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final

from quiver.chain.copies.copy import BlockCopy
from quiver.chain.copies.format import (
    NUMBER_MAX,
    CopyState,
    decode_floor,
    encode_floor,
    faulty_state,
)
from quiver.chain.copies.log import BlockLog
from quiver.chain.copies.names import (
    ASIDE,
    FLOOR,
    LOG,
    SEGMENT,
    STATE,
    block_of,
    check_name,
    file_of,
    is_partition,
)
from quiver.chain.copies.opening import open_copy, read_small
from quiver.chain.copies.rules import CopyRules, said
from quiver.chain.copies.segments import check_segment, take_segment
from quiver.chain.peers import BlockName, Finished, Holding, Route, decode_layout
from quiver.disk import Disk, Lock, is_temporary, remove, replace
from quiver.errors import (
    CapacityError,
    ClosedError,
    DamagedEntry,
    DamageError,
    InputError,
    MissingError,
    PoisonedError,
    QuiverError,
    StorageError,
)

__all__ = ["Copies"]

_LOCK: Final = "LOCK"


class Copies:
    """The copies below one folder. Safe for many threads; one process has the folder."""

    def __init__(self, disk: Disk, rules: CopyRules) -> None:
        """Take the folder, and look at all that is there; what is damaged is set apart.

        Raises LockedError, StorageError, VersionError.
        """
        self._disk = disk
        self._rules = rules
        self._lock = threading.Lock()
        self._turns = count()
        self._is_closed = False
        self._copies: dict[BlockName, BlockCopy] = {}
        self._floors: dict[str, int] = {}
        self.damaged: dict[BlockName, DamageError] = {}
        """Copies that are there and wrong; nobody is served from them."""
        self.faults: list[DamageError] = []
        """What else is wrong: of these partitions no new blocks are taken."""
        self._held: Lock = disk.lock(_LOCK)
        try:
            for folder in disk.list_dir(""):
                if not folder.is_file and is_partition(folder.name):
                    self._scan(folder.name)
        except BaseException:
            self.close()
            raise

    # to find -----------------------------------------------------------------------------------

    def __getitem__(self, name: BlockName) -> BlockCopy:
        """Give a copy; MissingError if there is none, DamageError if it is damaged."""
        with self._lock:
            self._check_usable()
            copy = self._copies.get(name)
            damage = self.damaged.get(name)
        if damage is not None:
            raise damage.with_traceback(None)  # That of all who asked before would be kept.
        if copy is None:
            raise MissingError(
                f"{self._rules.node} has nothing of block {name.number} of {name.partition:.120}",
                path=self._rules.node,
            )
        return copy

    def __contains__(self, name: object) -> bool:
        """Whether there is a good copy."""
        with self._lock:
            return name in self._copies

    def holdings(self) -> tuple[Holding, ...]:
        """Say what there is, in order of name; not what is damaged."""
        with self._lock:
            copies = [self._copies[name] for name in sorted(self._copies)]
        return tuple(copy.holding for copy in copies)

    def byte_count(self) -> int:
        """Say what all of them take, with the segments that are to be made of logs."""
        with self._lock:
            copies = list(self._copies.values())
        return sum(copy.byte_count for copy in copies)

    # to make -----------------------------------------------------------------------------------

    def prepare(self, route: Route, layout: str) -> None:
        """Make room for a block, durably.

        Raises FencedError for a small epoch, MissingError for a block that was dropped here, and
        InputError for one that has entries.
        """
        name = route.block
        check_name(name)
        decode_layout(layout)
        state = CopyState(name, route.epoch, self._rules.boot, route.chain, layout)
        if self._rules.node not in route.chain:
            raise InputError(f"{self._rules.node} is not in the chain {', '.join(route.chain)}")
        if fault := faulty_state(state):
            raise InputError(f"there is no room for a block like that: {fault}")
        with self._lock:
            self._check_usable()
            copy = self._copies.get(name)
            if copy is None:
                self._check_floor(name)
                self._copies[name] = self._made(state)
                return
        copy.prepare(route, layout)

    def _made(self, state: CopyState) -> BlockCopy:
        name = state.name
        self._make_folder(name.partition)
        remove(self._disk, file_of(name, LOG))
        log = BlockLog.create(
            self._disk,
            file_of(name, LOG),
            name,
            entry_bytes_max=self._rules.entry_bytes_max,
        )
        try:
            copy = BlockCopy(self._disk, state, log=log, rules=self._rules)
            copy.put_state()
        except BaseException:
            log.close()
            raise
        return copy

    def keep(self, name: BlockName, parts: Iterable[bytes], finished: Finished) -> None:
        """Keep a finished segment that comes from elsewhere, checked by its digest, durably.

        Also of a block that was dropped here: whoever repairs may bring it back.
        """
        check_name(name)
        self._make_folder(name.partition)
        turn = next(self._turns)
        file = take_segment(self._disk, name, parts, finished=finished, turn=turn)

        def put_file() -> None:
            file.finish(file_of(name, SEGMENT))
            self._disk.sync_dir(name.partition)

        try:
            while not self._kept(name, finished, put_file):
                pass  # What was there was dropped just now, and is forgotten.
        except BaseException:
            file.discard()
            raise

    def _kept(self, name: BlockName, finished: Finished, put_file: Callable[[], None]) -> bool:
        with self._lock:
            self._check_usable()
            known = self._copies.get(name)
            if known is None:
                state = CopyState(name, 0, self._rules.boot, finished=finished, is_settled=True)
                copy = BlockCopy(self._disk, state, log=None, rules=self._rules)
                put_file()
                copy.put_state()
                for kind in (LOG, ASIDE):  # Of a copy that was damaged.
                    remove(self._disk, file_of(name, kind))
                self._copies[name] = copy
                self.damaged.pop(name, None)
                return True
        if known.fetched(finished, put_file):
            return True
        self._forget(name, known)
        return False

    def _make_folder(self, partition: str) -> None:
        if self._disk.stat(partition) is None:
            self._disk.make_dir(partition)
            self._disk.sync_dir("")

    # to end ------------------------------------------------------------------------------------

    def is_wanted(self, name: BlockName, finished: Finished) -> bool:
        """Whether this is the segment here; who condemned it before drops it no more then."""
        with self._lock:
            copy = self._copies.get(name)
        return copy is not None and copy.is_wanted(finished)

    def drop(self, name: BlockName, condemned: int = 0) -> None:
        """Delete a copy for good; no room is made for this block any more, or for an older one.

        With what ``condemn`` gave only if nobody wanted it since: else FencedError.

        Room is made for blocks in the order of their numbers, and a number is never used twice: so
        a prepare of an older block that comes behind this is one that comes too late (R41).
        """
        check_name(name)
        try:
            self._raise_floor(name)
        except CapacityError:  # Dropping is what makes room.
            if name not in self:
                raise
            self[name].shed(condemned)
            self._raise_floor(name)
        with self._lock:
            copy = self._copies.get(name)
            damaged = self.damaged.get(name)
        if copy is not None:
            copy.drop(condemned)
            self._forget(name, copy)
        elif damaged is not None:
            with self._lock:
                if self.damaged.get(name) is not damaged:
                    return  # A good one was fetched meanwhile.
                for kind in (STATE, LOG, SEGMENT, ASIDE):
                    remove(self._disk, file_of(name, kind))
                self._disk.sync_dir(name.partition)
                self.damaged.pop(name, None)

    # to doubt ----------------------------------------------------------------------------------

    def verify(self, name: BlockName, pause: Callable[[int], None]) -> Finished:
        """Read a segment anew; one that is not what was finished is set aside, and told.

        It is made again of its log if that is here, and else fetched by whoever repairs.
        """
        copy = self[name]
        finished = copy.holding.finished
        if finished is None:
            raise MissingError(f"{said(name)} is not finished here", path=self._rules.node)
        try:
            check_segment(self._disk, name, finished, pause=pause)
        except (DamageError, StorageError) as error:
            damage = self._damage(error, file_of(name, SEGMENT))
            self._lose_segment(name, copy, finished=finished, damage=damage)
            raise damage from error
        return finished

    def _lose_segment(
        self, name: BlockName, copy: BlockCopy, *, finished: Finished, damage: DamageError
    ) -> None:
        try:
            is_here = copy.lose_segment(finished)
        except (StorageError, CapacityError):  # Nobody is served from it all the same.
            is_here = False
        if not is_here:
            self._set_apart(name, copy, damage)

    def distrust(self, why: str) -> None:
        """Set all logs aside that may lack what was acknowledged, durably; they are damaged then.

        A log that was cut is what the record says; the others are of blocks that were open.
        """
        with self._lock:
            doubted = [(name, copy) for name, copy in self._copies.items() if not copy.is_cut]
        for name, copy in doubted:
            copy.set_log_aside()
            place = self._disk.locate(file_of(name, ASIDE))
            self._set_apart(name, copy, DamagedEntry(why, path=place))

    def _set_apart(self, name: BlockName, copy: BlockCopy, damage: DamageError) -> None:
        with self._lock:
            if self._copies.get(name) is copy:
                del self._copies[name]
                self.damaged[name] = damage

    def _damage(self, error: QuiverError, path: str) -> DamageError:
        """Give what is wrong with bytes; raises what is no fault of theirs, or of the disk."""
        if isinstance(error, DamageError):
            return error if error.path else error.at(self._disk.locate(path))
        if isinstance(error, StorageError) and error.errno not in (errno.EIO, errno.ENOENT):
            raise error
        return DamagedEntry(f"it cannot be read: {error.message}", path=self._disk.locate(path))

    def _raise_floor(self, name: BlockName) -> None:
        with self._lock:
            self._check_usable()
            if self._floors.get(name.partition, 0) <= name.number:
                self._make_folder(name.partition)
                floor = name.number + 1
                replace(self._disk, f"{name.partition}/{FLOOR}", encode_floor(floor))
                self._floors[name.partition] = floor

    def _check_usable(self) -> None:
        """Raise ClosedError where another one may have the folder by now."""
        if self._is_closed:
            raise ClosedError(f"{self._rules.node} was closed")

    def _forget(self, name: BlockName, copy: BlockCopy) -> None:
        """Have it no more, now that its files are gone; nobody else may have made it anew."""
        with self._lock:
            if self._copies.get(name) is copy:
                del self._copies[name]

    def _check_floor(self, name: BlockName) -> None:
        if name in self.damaged:
            raise self.damaged[name]
        if name.number < self._floors.get(name.partition, 0):
            raise MissingError(
                f"block {name.number} of {name.partition} was dropped here, or is older than one "
                "that was: no room is made for it",
                path=self._rules.node,
            )

    def close(self) -> None:
        """Let go of all files."""
        with self._lock:
            self._is_closed = True
            copies, self._copies = list(self._copies.values()), {}
        for copy in copies:
            copy.close()
        self._held.release()

    # to start ----------------------------------------------------------------------------------

    def _scan(self, partition: str) -> None:
        """Look at one partition: open what has a state, and delete what has none."""
        found: dict[BlockName, set[str]] = {}
        try:
            listed = self._disk.list_dir(partition)
        except StorageError as error:
            self.faults.append(self._damage(error, partition))
            self._floors[partition] = NUMBER_MAX
            return
        for each in listed:
            whose = block_of(partition, each.name)
            if whose is not None:
                found.setdefault(whose[0], set()).add(whose[1])
            elif each.name == FLOOR:
                self._floors[partition] = self._floor(f"{partition}/{FLOOR}")
            elif each.is_file and is_temporary(each.name):
                remove(self._disk, f"{partition}/{each.name}")
        for name, kinds in found.items():
            if STATE not in kinds:
                for kind in kinds:
                    remove(self._disk, file_of(name, kind))
                continue
            try:
                self._copies[name] = open_copy(self._disk, name, kinds, rules=self._rules)
            except (DamageError, StorageError, PoisonedError) as error:
                self.damaged[name] = self._damage(error, file_of(name, STATE))

    def _floor(self, path: str) -> int:
        try:
            return decode_floor(read_small(self._disk, path))
        except (DamageError, StorageError) as error:
            self.faults.append(self._damage(error, path))
            return NUMBER_MAX
