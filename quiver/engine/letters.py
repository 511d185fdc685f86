"""Dead letters, read from the folders that ``dead_letters`` writes, and removed when they are done.

Nobody has to have the store open to read them. A letter is there once the reason is beside it: a
segment without one is what a crash left, and its bundles are open still.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from quiver.disk import Disk, remove
from quiver.engine.dead_letters import FOLDER
from quiver.engine.numbers import core_folder
from quiver.errors import DamageError, MissingError

__all__ = ["Letter", "list_letters", "remove_letters"]

_NAME: Final = re.compile(r"([0-9a-f]{16})\.([0-9]{1,10})\+([0-9]{1,10})\.qseg\.json")
_NUMBER: Final = re.compile(r"[0-9]{1,19}")
_ABOUT: Final = ".json"
_ABOUT_BYTES_MAX: Final = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One dead letter: bundles in a row that a subscriber gave up, and why."""

    core: int
    subscriber_id: int
    subscriber: str
    """The name that it had then."""
    segment_seq: int
    bundle_first: int
    bundle_count: int
    attempts: int
    outcome: str
    reason: str
    at: str
    """When, in ISO 8601."""
    path: str
    """Of the segment, below the store."""
    file_bytes: int

    @property
    def name(self) -> str:
        """Which of all letters of the store it is: core, subscriber, segment, bundles."""
        where = f"{self.core}/{self.subscriber_id}/{self.segment_seq}"
        return f"{where}.{self.bundle_first}+{self.bundle_count}"


def list_letters(disk: Disk, core: int) -> Iterator[Letter | DamageError]:
    """Go through the letters of a core, oldest segments first for each subscriber.

    One whose reason cannot be read is told in its place.
    """
    above = posixpath.join(core_folder(core), FOLDER)
    for folder in sorted(_names(disk, above), key=lambda name: (len(name), name)):
        if not _NUMBER.fullmatch(folder):
            continue
        inside = posixpath.join(above, folder)
        found = sorted(
            (int(match[1], 16), int(match[2]), match)
            for match in map(_NAME.fullmatch, _names(disk, inside))
            if match is not None
        )
        for segment_seq, first, match in found:
            place = segment_seq, first, int(match[3])
            path = posixpath.join(inside, match[0].removesuffix(_ABOUT))
            try:
                yield _read(disk, path, core=core, subscriber_id=int(folder), place=place)
            except MissingError:
                continue  # Its owner took it away just now.
            except DamageError as error:
                yield error


def _names(disk: Disk, folder: str) -> list[str]:
    try:
        return [] if disk.stat(folder) is None else [each.name for each in disk.list_dir(folder)]
    except MissingError:
        return []


def _read(
    disk: Disk, path: str, *, core: int, subscriber_id: int, place: tuple[int, int, int]
) -> Letter:
    about = _about(disk, path + _ABOUT)
    stat = disk.stat(path)
    if stat is None:
        raise DamageError("a dead letter is gone, its reason is there", path=disk.locate(path))
    segment_seq, first, count = place
    attempts = about.get("attempts")
    return Letter(
        core=core,
        subscriber_id=subscriber_id,
        subscriber=_text(about, "subscriber"),
        segment_seq=segment_seq,
        bundle_first=first,
        bundle_count=count,
        attempts=attempts if isinstance(attempts, int) else 0,
        outcome=_text(about, "outcome"),
        reason=_text(about, "reason"),
        at=_text(about, "at"),
        path=path,
        file_bytes=stat.size,
    )


def _about(disk: Disk, path: str) -> dict[str, Any]:
    data = disk.map(path)
    try:
        found = json.loads(bytes(data)) if len(data) <= _ABOUT_BYTES_MAX else None
    except (ValueError, RecursionError):
        found = None
    finally:
        data.release()
    if not isinstance(found, dict):
        raise DamageError("the reason of a dead letter cannot be read", path=disk.locate(path))
    return found


def _text(about: dict[str, Any], key: str) -> str:
    value = about.get(key)
    return value if isinstance(value, str) else ""


def remove_letters(disk: Disk, letters: Iterable[Letter]) -> None:
    """Remove letters for good: the reasons first, for without one a segment is no letter.

    A power cut leaves no reason without its segment. For whoever has the store open: a subscriber
    may be about to write one of the same name.
    """
    paths = [letter.path for letter in letters]
    folders = {posixpath.dirname(path) for path in paths}
    for suffix in (_ABOUT, ""):
        for path in paths:
            remove(disk, path + suffix)
        for folder in folders:
            disk.sync_dir(folder)
