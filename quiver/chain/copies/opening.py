"""A copy as it is found when a node starts: its state, and what belongs to it."""

from __future__ import annotations

from collections.abc import Collection

from quiver.chain.copies.copy import BlockCopy
from quiver.chain.copies.format import STATE_BYTES_MAX, CopyState, decode_state
from quiver.chain.copies.log import BlockLog
from quiver.chain.copies.names import ASIDE, LOG, SEGMENT, STATE, file_of
from quiver.chain.copies.rules import CopyRules
from quiver.chain.peers import BlockName
from quiver.disk import Disk, remove
from quiver.errors import DamagedEntry, DamageError, InputError

__all__ = ["open_copy", "read_small"]


def open_copy(
    disk: Disk, name: BlockName, kinds: Collection[str], *, rules: CopyRules
) -> BlockCopy:
    """Open a copy of which there are files of these kinds; raises DamageError, StorageError."""
    state = _state(disk, name)
    if ASIDE in kinds and (SEGMENT if state.is_settled else LOG) not in kinds:
        raise DamagedEntry(
            "it was set aside: it was rotten, or older than it should have been",
            path=disk.locate(file_of(name, ASIDE)),
        )
    if state.finished is not None and SEGMENT not in kinds:
        if state.is_settled or LOG not in kinds:
            raise DamagedEntry("its segment is gone", path=disk.locate(file_of(name, SEGMENT)))
        state = state._replace(finished=None)  # It is made again of its log.
    if state.is_settled:
        for kind in (LOG, ASIDE):
            if kind in kinds:
                remove(disk, file_of(name, kind))
        return BlockCopy(disk, state, log=None, rules=rules)
    if LOG not in kinds:
        raise DamagedEntry("its log is gone", path=disk.locate(file_of(name, LOG)))
    log = BlockLog.open(
        disk,
        file_of(name, LOG),
        name,
        entry_bytes_max=rules.entry_bytes_max,
        is_same_boot=state.boot == rules.boot,
    )
    copy = BlockCopy(disk, state, log=log, rules=rules)
    try:
        copy.cut_again()
    except BaseException as error:
        copy.close()
        if isinstance(error, InputError):
            raise DamagedEntry(
                f"it is not what was sealed: {error}", path=disk.locate(file_of(name, LOG))
            ) from error
        raise
    return copy


def _state(disk: Disk, name: BlockName) -> CopyState:
    path = file_of(name, STATE)
    try:
        state = decode_state(read_small(disk, path))
        if state.name != name:
            raise DamagedEntry("it is of another block", found=state.name)
    except DamageError as error:
        raise error.at(disk.locate(path)) from error
    return state


def read_small(disk: Disk, path: str) -> bytes:
    """Read a file that has few bytes."""
    file = disk.open(path)
    try:
        return file.read(0, STATE_BYTES_MAX)
    finally:
        file.close()
