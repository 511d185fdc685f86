"""A store seen from outside: no lock is taken and nothing is changed, also beside a live writer.

Each part is read so that a writer at work cannot make a sound store look damaged:

==========  ==============================================================================
part        what may happen meanwhile, and what is done about it
==========  ==============================================================================
WAL         a rotation: all files are opened first, and again if the set of names changed;
            a range given back to the disk: damage counts only if a second walk finds it
segments    one is deleted: it is passed over
==========  ==============================================================================
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field

from quiver.config import HARD_LIMITS
from quiver.disk import Disk, LocalDisk, Stat
from quiver.engine.core import core_folder, core_numbers
from quiver.errors import DamageError, MissingError, VersionError
from quiver.payload import EncodedBundle
from quiver.segment import Catalog, parse_segment_name, read_info
from quiver.wal.files import WalFile, open_files
from quiver.wal.format import (
    BUNDLE,
    CHECKPOINT,
    HEADER_BYTES,
    Place,
    decode_bundle,
    decode_header,
)
from quiver.wal.reader import Entry, Tail, begin_of, missing_bundles, walk
from quiver.wal.truncate import read_sidecar

__all__ = [
    "WalFile",
    "WalState",
    "core_numbers",
    "listing",
    "load_segments",
    "naming",
    "open_folder",
    "open_wal",
    "read_wal",
    "survey_wal",
]

Visit = Callable[[EncodedBundle], None]


def open_folder(path: str) -> LocalDisk:
    """Open a store's folder for reading; raises MissingError or StorageError."""
    return LocalDisk(path)


def listing(disk: Disk, folder: str) -> list[Stat]:
    """List a folder; one that is not there is empty."""
    return [] if disk.stat(folder) is None else disk.list_dir(folder)


@contextmanager
def naming(place: str) -> Iterator[None]:
    """Put the name of a file in front of what a VersionError says of it."""
    try:
        yield
    except VersionError as error:
        raise VersionError(f"{place}: {error.message}", hint=error.hint) from error


def load_segments(disk: Disk, core: int) -> tuple[Catalog, list[tuple[str, DamageError]]]:
    """Read the ends of a core's segments, and list those that are damaged."""
    folder = f"{core_folder(core)}/segments"
    if disk.stat(folder) is None:
        return Catalog(), []
    try:
        return Catalog.load(disk, folder)
    except VersionError:
        for entry in listing(disk, folder):
            if parse_segment_name(entry.name) is not None:
                path = f"{folder}/{entry.name}"
                with naming(disk.locate(path)), suppress(DamageError, MissingError):
                    read_info(disk, path)
        raise


# WAL -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class WalState:
    """What a walk through one WAL file found; ``torn`` is an append that was not finished."""

    path: str
    generation: int
    is_active: bool
    file_bytes: int
    allocated_bytes: int
    bundle_count: int = 0
    next_seq: int | None = None
    """What the next file must go on with; None if nobody knows."""
    begins_with: int | None = None
    """The number of its first bundle, or what a checkpoint before that says."""
    wal_seq_first: int | None = None
    wal_seq_last: int | None = None
    ingestion_ns_first: int | None = None
    ingestion_ns_last: int | None = None
    torn_bytes: int = 0
    torn: DamageError | None = None
    damage: list[DamageError] = field(default_factory=list)


def open_wal(
    disk: Disk, core: int, *, newest: Place | None
) -> AbstractContextManager[list[WalFile]]:
    """Open all files of a log as they are at one moment; ``newest`` is a place segments know."""
    return open_files(disk, f"{core_folder(core)}/wal", newest=newest)


def survey_wal(
    disk: Disk, core: int, *, newest: Place | None, digest: bytes | None, visit: Visit | None = None
) -> Iterator[WalState]:
    """Walk all files of a log in order; ``visit`` sees each bundle and may raise DamageError."""
    last_seq = -1
    next_seq: int | None = None
    with open_wal(disk, core, newest=newest) as files:
        for wal_file in files:
            state = read_wal(
                disk, wal_file, last_seq=last_seq, next_seq=next_seq, digest=digest, visit=visit
            )
            next_seq = state.next_seq
            if state.wal_seq_last is not None:
                last_seq = state.wal_seq_last
            yield state


def read_wal(
    disk: Disk,
    wal_file: WalFile,
    *,
    last_seq: int,
    next_seq: int | None,
    digest: bytes | None,
    visit: Visit | None,
) -> WalState:
    """Walk one file. Damage is what two walks agree on: the writer may reclaim under the first.

    ``next_seq`` is what it must go on with, None if that is not known.
    """
    state = _walk(disk, wal_file, last_seq=last_seq, next_seq=next_seq, digest=digest, visit=visit)
    if state.damage:
        before = {(error.offset, error.message) for error in state.damage}
        state = _walk(
            disk, wal_file, last_seq=last_seq, next_seq=next_seq, digest=digest, visit=visit
        )
        state.damage = [e for e in state.damage if (e.offset, e.message) in before]
    if wal_file.was_reused():  # Meanwhile: segments hold all that was in it.
        return WalState(state.path, state.generation, state.is_active, state.file_bytes, 0)
    return state


def _walk(
    disk: Disk,
    wal_file: WalFile,
    *,
    last_seq: int,
    next_seq: int | None,
    digest: bytes | None,
    visit: Visit | None,
) -> WalState:
    file = wal_file.file
    place = disk.locate(file.path)
    found = disk.stat(file.path)
    allocated = found.allocated if found else 0
    state = WalState(place, wal_file.generation, wal_file.is_active, file.size(), allocated)
    state.next_seq = next_seq
    if digest is not None:
        with naming(place):
            error = decode_header(file.read(0, HEADER_BYTES), digest)
        if error is not None:
            state.damage.append(error.at(place))
    # Read again at each walk: the writer moves it before it gives anything back.
    sidecar, _ = read_sidecar(disk, posixpath.dirname(file.path))
    items = walk(
        file,
        begin_of(file, wal_file.generation, sidecar),
        entry_bytes_max=HARD_LIMITS.entry_bytes,
        last_seq=last_seq,
        is_active=wal_file.is_active,
        generation=wal_file.generation,
    )
    for item in items:
        if isinstance(item, Entry):
            if item.damage is not None:
                state.damage.append(item.damage.at(place))
            if item.frame.entry_type == BUNDLE:
                _follow(state, item, item.frame.wal_seq)
                _take_bundle(state, item, visit)
            elif item.frame.entry_type == CHECKPOINT:
                _follow(state, item, item.frame.wal_seq + 1)
            else:
                state.next_seq = None  # Only a newer Quiver knows what it used up.
        elif isinstance(item, Tail) and item.is_torn and item.error is not None:
            state.torn, state.torn_bytes = item.error.at(place), item.end - item.offset
        elif item.error is not None:
            state.damage.append(item.error.at(place))
            state.next_seq = None
    return state


def _follow(state: WalState, item: Entry, wal_seq: int) -> None:
    """Note that an entry has this number, or that a checkpoint names it as the next one."""
    if state.next_seq is not None and wal_seq > state.next_seq:
        error = missing_bundles(state.path, item.offset, next_seq=state.next_seq, found=wal_seq)
        state.damage.append(error)
    if state.begins_with is None:
        state.begins_with = wal_seq
    state.next_seq = wal_seq


def _take_bundle(state: WalState, item: Entry, visit: Visit | None) -> None:
    bundle = decode_bundle(item.frame)
    state.bundle_count += 1
    state.next_seq = bundle.wal_seq + 1
    if state.wal_seq_first is None:
        state.wal_seq_first, state.ingestion_ns_first = bundle.wal_seq, bundle.ingestion_ns
    state.wal_seq_last, state.ingestion_ns_last = bundle.wal_seq, bundle.ingestion_ns
    if visit is None:
        return
    try:
        visit(bundle)
    except DamageError as error:
        state.damage.append(error.at(state.path, base=item.offset - error.offset))
