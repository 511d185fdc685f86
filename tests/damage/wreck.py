"""The sound store with one file damaged, held to what damage may cost and to nothing more.

1. opening refuses by name or succeeds; only a damaged manifest may be refused, and stays as it is;
2. what recovery takes away is in quarantine byte for byte, unless a writer never finished it;
3. a second opening finds the same, tells of no new damage, and changes nothing;
4. what is delivered is what was appended, in order, once, and nothing whose ack is sound;
5. what is missing was stored in the bytes that are damaged;
6. numbers go on above all that were given out;
7. an append works and is there after the next opening;
8. ``audit``, before all this, names the file and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import blake3

from quiver.cli.audit import audit
from quiver.engine import Store, StoreInfo
from quiver.engine import open as open_store
from quiver.errors import DamageError, QuiverError, VersionError
from quiver.segment import SegmentReader
from quiver.testing import Loss, ManualClock, MemoryDisk
from quiver.testing.file_tree import Tree
from quiver.testing.memory_file import MemoryFile
from quiver.testing.rehearsal import SLOTS, bundle_of

from .sound_store import CONFIG, FILES, READERS, Region, SoundStore, mark_at_end

NUMBERS_MAX = 10_000  # More than any of these stores is ever sent.

__all__ = ["Damage", "Verdict", "Yard"]


@dataclass(frozen=True, slots=True)
class Damage:
    """One file of the store with other bytes in ``[start, end)``, or ending at ``start``."""

    kind: str
    start: int
    end: int
    data: bytes
    """What the whole file holds now."""

    @property
    def is_cut(self) -> bool:
        return len(self.data) == self.start

    def __str__(self) -> str:
        if self.is_cut:
            return f"{self.kind} cut to {self.start} bytes"
        return f"{self.kind} with byte {self.start} as {self.data[self.start]:#04x}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a damaged store; a Loss is raised where that is not allowed."""

    refused: bool
    told: bool
    """Whether opening or reading said that something is wrong."""
    audited: bool
    """Whether ``audit`` named the file."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a store gave after its recovery; the same for all trees that recover to the same."""

    delivered: tuple[tuple[str, tuple[int, ...]], ...]
    next_wal_seq: int
    next_segment_seq: int
    told: bool
    """Whether reading, behind opening, found damage."""
    loss: str = ""


class Yard:
    """Where one sound store is damaged again and again; remembers what it has judged."""

    def __init__(self, sound: SoundStore) -> None:
        self.sound = sound
        self.judged = 0
        """How many recovered stores were read to their end; the others were equal to these."""
        self._outcomes: dict[bytes, _Outcome] = {}
        self._read: dict[str, list[tuple[int, int]]] = {}

    def disk(self) -> MemoryDisk:
        """Give a disk with the store as it was before any damage."""
        return MemoryDisk(self.sound.tree)

    def at_stake(self, damage: Damage) -> tuple[list[Region], frozenset[int]]:
        """Give the regions that are damaged and the bundles that may be lost with them."""
        regions = self.sound.regions[damage.kind]
        hit = [r for r in regions if r.start < damage.end and damage.start < r.end]
        if damage.is_cut and damage.kind.endswith("segment"):
            return hit, frozenset().union(*(region.at_stake for region in regions))
        return hit, frozenset().union(*(region.at_stake for region in hit))

    def examine(self, damage: Damage) -> Verdict:
        """Audit and open the store with this damage; raises Loss that says what is wrong."""
        tree = self._damaged(damage)
        audited = _audited(tree, FILES[damage.kind])
        disk = MemoryDisk(tree)
        if self._is_unread(damage):
            known = self._outcomes.get(_contents(disk, damage.kind))
            if known is not None:
                self._check(damage, disk, known)
                return Verdict(refused=False, told=known.told, audited=audited)
        try:
            store = _open(disk)
        except (DamageError, VersionError) as error:
            self._check_refusal(damage, disk, tree, error=error)
            return Verdict(refused=True, told=True, audited=audited)
        except Exception as error:
            raise Loss(f"{damage}: opening raises {type(error).__name__}: {error}") from error
        report = store.recovery
        _check_preserved(damage, disk, mark_at_end(self.sound.data(damage.kind)))
        outcome = self._outcome(damage, disk, store)
        self._check(damage, disk, outcome)
        told = bool(report.damage) or report.torn_tail is not None or outcome.told
        return Verdict(refused=False, told=told, audited=audited)

    def _check(self, damage: Damage, disk: MemoryDisk, outcome: _Outcome) -> None:
        if outcome.loss:
            raise Loss(f"{damage}: {outcome.loss}")
        self._check_deliveries(damage, dict(outcome.delivered))
        self._check_numbers(damage, outcome)
        self._check_set_aside(damage, disk, dict(outcome.delivered))

    def _is_unread(self, damage: Damage) -> bool:
        """Whether opening does not read what is damaged, and so does what it does without."""
        if damage.is_cut or not damage.kind.endswith("segment"):
            return False
        if damage.kind not in self._read:
            disk = WatchedDisk(self.sound.tree, FILES[damage.kind])
            _open(disk)
            self._read[damage.kind] = disk.seen
        return not any(s < damage.end and damage.start < e for s, e in self._read[damage.kind])

    def _damaged(self, damage: Damage) -> Tree:
        tree = self.sound.tree.copy()
        blob = tree.blob(self.sound.inodes[FILES[damage.kind]])
        blob.truncate(len(damage.data))
        blob.write(0, damage.data)
        return tree

    def _check_refusal(
        self, damage: Damage, disk: MemoryDisk, tree: Tree, *, error: QuiverError
    ) -> None:
        if damage.kind != "manifest":
            raise Loss(f"{damage}: opening is refused: {error}") from error
        if isinstance(error, DamageError) and error.path != disk.locate(FILES[damage.kind]):
            raise Loss(f"{damage}: the refusal names {error.path!r}") from error
        if disk.tree.digest() != tree.digest():
            raise Loss(f"{damage}: a refused opening changes the store")

    def _outcome(self, damage: Damage, disk: MemoryDisk, store: Store) -> _Outcome:
        """Read the store to its end, unless one that recovered to the same was read before."""
        contents = _contents(disk, damage.kind)
        key = _key(damage, disk, store) + contents
        if key not in self._outcomes:
            self.judged += 1
            try:
                found = _read_out(damage, disk, store)
            except (Loss, QuiverError) as error:
                text = f"{type(error).__name__}: {error}"
                found = _Outcome((), 0, 0, told=False, loss=text)
            self._outcomes[key] = found
            if self._is_unread(damage):
                self._outcomes[contents] = found
        return self._outcomes[key]

    def _check_deliveries(self, damage: Damage, delivered: dict[str, tuple[int, ...]]) -> None:
        _, may_be_lost = self.at_stake(damage)
        for reader in READERS:
            found = delivered[reader]
            if list(found) != sorted(set(found)):
                raise Loss(f"{damage}: {reader} gets bundles twice or out of order: {found}")
            wanted = self.sound.there - self.sound.acked[reader]
            missing = wanted - set(found) - may_be_lost
            if missing:
                raise Loss(f"{damage}: {reader} never gets bundles {sorted(missing)}")
            again = set(found) - wanted
            if again - self.sound.acked[reader] or (again and not _loses_acks(damage)):
                raise Loss(f"{damage}: {reader} gets bundles {sorted(again)}, which it had acked")

    def _check_numbers(self, damage: Damage, outcome: _Outcome) -> None:
        least = self.sound.sent
        if damage.kind == "active log" and damage.is_cut:
            # Entries that are cut off take their numbers with them.
            least -= sum(region.name == "entry" for region in self.at_stake(damage)[0])
        if not least <= outcome.next_wal_seq < NUMBERS_MAX:
            raise Loss(f"{damage}: wal_seq {outcome.next_wal_seq} is used twice, or nobody's next")
        if outcome.next_segment_seq < self.sound.next_segment_seq:
            raise Loss(f"{damage}: segment_seq {outcome.next_segment_seq} would be used twice")

    def _check_set_aside(
        self, damage: Damage, disk: MemoryDisk, delivered: dict[str, tuple[int, ...]]
    ) -> None:
        """Raise Loss unless an entry of the log that is not delivered is in quarantine."""
        if not damage.kind.endswith("log") or (damage.is_cut and damage.kind == "active log"):
            return
        aside = [data for _, data in _files(disk.tree, "core_0/quarantine/")]
        for region in self.sound.regions[damage.kind]:
            if region.start < damage.end and damage.start < region.end and region.name == "entry":
                lost = region.at_stake - set(delivered["b"])
                entry = damage.data[region.start - 4 : region.end]
                if lost and entry and not any(entry in data for data in aside):
                    raise Loss(f"{damage}: the entry of bundle {sorted(lost)} is not in quarantine")


def _loses_acks(damage: Damage) -> bool:
    """Whether bundles may be given again: their acks are damaged."""
    return damage.kind in ("ack.log", "checkpoint")


def _open(disk: MemoryDisk) -> Store:
    return open_store(
        "wreck", slots=list(SLOTS), disk=disk, config=CONFIG, clock=ManualClock(), worker=False
    )


def _abandon(store: Store) -> None:
    store._core.held.release()
    store._closed = True


def _audited(tree: Tree, path: str) -> bool:
    """Whether ``audit`` finds something in the file; it is stopped there."""
    disk = MemoryDisk(tree)
    try:
        found = any(f.path == disk.locate(path) for f in audit(disk, lambda _: None))
    except VersionError:
        found = path == FILES["manifest"]  # Nothing else can be told then, so it is raised.
    if disk.act_count:
        raise Loss(f"audit of {path} does {disk.act_count} acts on the disk")
    return found


class _Watched(MemoryFile):
    """A file that remembers which of its bytes were asked for."""

    __slots__ = ("_seen",)

    def __init__(self, disk: WatchedDisk, file: MemoryFile, *, writable: bool) -> None:
        super().__init__(disk, file.inode, file.path, writable=writable)
        self._seen = disk.seen
        file.close()

    def read(self, offset: int, length: int) -> bytes:
        self._seen.append((offset, offset + length))
        return super().read(offset, length)


class WatchedDisk(MemoryDisk):
    """A disk that remembers which bytes of one file were read."""

    def __init__(self, tree: Tree, watched: str) -> None:
        super().__init__(tree)
        self.seen: list[tuple[int, int]] = []
        self._watched = watched

    def open(self, path: str, *, writable: bool = False) -> MemoryFile:
        file = super().open(path, writable=writable)
        return _Watched(self, file, writable=writable) if path == self._watched else file


def _files(tree: Tree, folder: str = "") -> Iterator[tuple[str, bytes]]:
    for path, inode in tree.walk():
        if inode in tree.blobs and path.startswith(folder):
            yield path, bytes(tree.blobs[inode].data)


def _check_preserved(damage: Damage, disk: MemoryDisk, end: int | None) -> None:
    """Raise Loss unless each byte of the damaged file is in its place, or in quarantine.

    The end of a file that was cut may go, and what is older behind a mark.
    """
    files = dict(_files(disk.tree))
    if damage.data in files.values() or not damage.data:
        return
    aside = [data for path, data in files.items() if path.startswith("core_0/quarantine/")]
    for data in files.values():
        rest = damage.data[len(data) :]
        if data and damage.data.startswith(data) and (damage.is_cut or rest in aside):
            return
        mark = mark_at_end(data)
        if mark and damage.data.startswith(data[:mark]) and (damage.is_cut or mark == end):
            return
    raise Loss(f"{damage}: its bytes are gone, and not in quarantine")


def _key(damage: Damage, disk: MemoryDisk, store: Store) -> bytes:
    """Digest all that what follows depends on: the tree, and what was read of the damaged file.

    The file itself is left out where it is as it was, for what opening found in it is in the rest,
    and what a reader makes of a segment comes behind it. So are copies in quarantine, and sizes.
    """
    total = blake3.blake3()
    for path, data in _files(disk.tree):
        if path.startswith("core_0/quarantine/"):
            total.update(b"copy\n")
            continue
        total.update(f"{path}\n".encode())
        if data != damage.data:
            total.update(b"%d\n" % len(data) + data)
    for bundle in [b for part in store._core.waiting for b in part.bundles]:
        total.update(f"{bundle}\n".encode())  # Where it is, and its checksum.
    messages = [message for message, _ in _told(store)]
    info, *rest = _state(store)
    total.update(repr((messages, replace(info, wal_bytes=0), rest)).encode())
    return total.digest()


def _contents(disk: MemoryDisk, kind: str) -> bytes:
    """Say for each bundle of a damaged segment what a reader gets; nothing for other files."""
    path = FILES[kind]
    if not kind.endswith("segment") or disk.stat(path) is None:
        return b""
    try:
        with SegmentReader.open(disk, path) as reader:
            bundles = [_bundle(reader, index) for index in range(reader.bundle_count)]
    except DamageError as error:
        bundles = [error.message]
    return "\n".join([path, *bundles]).encode()


def _bundle(reader: SegmentReader, index: int) -> str:
    try:
        batches = reader.bundle(index)
        values = {slot: batch.to_pylist() for slot, batch in batches.items()}
        return f"{reader.bundle_entry(index)} {values}"
    except DamageError as error:
        return error.message


def _told(store: Store) -> list[tuple[str, int]]:
    """Give what recovery found wrong; not where, for a log whose head is damaged is renamed."""
    return [(error.message, error.offset) for error in store.recovery.damage]


def _state(store: Store) -> tuple[StoreInfo, object, object]:
    """Give all that can be seen of a store from outside."""
    core = store._core
    runs = [
        (name, info.segment_seq, tuple(core.registry.progress(name).open_runs(info.segment_seq)))
        for name in core.registry.names()
        for info in core.catalog
    ]
    return store.info(), runs, core.registry.snapshot()


def _read_out(damage: Damage, disk: MemoryDisk, store: Store) -> _Outcome:
    """Open once more, deliver everything, append, and see what the next opening has of it."""
    store = _opened_again(disk, store)
    store.finalize()
    delivered = tuple((reader, tuple(_deliver(store, reader))) for reader in READERS)
    info = store.info()
    told = bool(store.recovery.damage)
    number = store.append(bundle_of(min(info.next_wal_seq, NUMBERS_MAX)))
    store.maintain()
    if told and damage.kind.endswith("segment"):
        _check_preserved(damage, disk, None)
    _abandon(store)
    last = _open(disk)
    if number != info.next_wal_seq or last.info().open_bundles != 1:
        raise Loss(f"bundle {number}, appended after the recovery, is lost")
    return _Outcome(delivered, info.next_wal_seq, info.next_segment_seq, told)


def _opened_again(disk: MemoryDisk, store: Store) -> Store:
    tree, state = disk.tree.digest(), _state(store)
    _abandon(store)
    again = _open(disk)
    if disk.tree.digest() != tree:
        raise Loss("a second opening leaves other bytes")
    if _state(again) != state:
        raise Loss(f"a second opening finds another state: {state}, then {_state(again)}")
    if not set(_told(again)) <= set(_told(store)):
        raise Loss(f"a second opening finds more damage: {_told(again)}")
    return again


def _deliver(store: Store, reader: str) -> Iterator[int]:
    """Take and ack all there is, and compare it with what was appended."""
    subscription = store.subscribe(reader)
    store._core.clock.step("1h")
    while (handle := subscription.poll()) is not None:
        found = {name: handle[name].to_pylist() for name in handle}
        number = handle.wal_seq
        handle.ack()
        if number >= NUMBERS_MAX:
            raise Loss(f"{reader} gets bundle {number}, which nobody sent")
        expected = {name: batch.to_pylist() for name, batch in bundle_of(number).items()}
        if found != expected:
            raise Loss(f"{reader} gets bundle {number} as {found}")
        yield number
