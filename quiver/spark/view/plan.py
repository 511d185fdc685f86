"""Which times are read of a collection, and about how many bytes that is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import numpy.typing as npt

from quiver.errors import ConfigError, InputError, SourceError
from quiver.spark.options import Options
from quiver.spark.view import options as v
from quiver.spark.view.options import Moment
from quiver.spark.view.shares import Range
from quiver.upsert.persist import FileRef, Snapshot

__all__ = [
    "batch_range",
    "bytes_by_bucket",
    "bytes_by_epoch",
    "check_kept",
    "files_read",
    "first_epoch",
    "only_buckets",
]

_START: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def batch_range(given: Options, snapshot: Snapshot) -> Range:
    """Say what a batch reads. Raises ConfigError, InputError, SourceError for what is not there."""
    if not given.get(v.CHANGES, False):
        return Range(state=_last_epoch(given.find(v.AS_OF), snapshot))
    last = _last_epoch(given.find(v.THROUGH_EPOCH), snapshot)
    begin = given.find(v.FROM_EPOCH)
    with_state = given.get(v.STARTING_STATE, begin is None)
    if begin is None:
        first = snapshot.since if with_state else snapshot.since + 1
    else:
        first = first_epoch(begin, snapshot)
    if first > last + 1:
        raise ConfigError(
            f"{v.FROM_EPOCH.name}: epoch {first} comes behind {v.THROUGH_EPOCH.name}, {last}",
            hint="both are in the range",
        )
    check_kept(first, snapshot, with_state=with_state)
    if not with_state or first > last:
        return Range(first=first, last=last)
    return Range(first, first + 1, last)


def first_epoch(moment: Moment, snapshot: Snapshot) -> int:
    """Give the epoch to begin with: of a time, the first one that was appended then or later.

    Nothing happened at epoch 0, so 1 is the least. Raises InputError, ConfigError.
    """
    if isinstance(moment, datetime):
        try:
            # Up to a millisecond before it: what was appended in that of the time itself is in.
            found = snapshot.epoch_at(_wall_ms(moment) - 1) + 1
        except InputError:
            if snapshot.since:
                raise
            found = 0  # It is older than the collection, of which nothing is forgotten.
        return max(1, found)
    if moment > snapshot.upper:
        raise ConfigError(
            f"{v.FROM_EPOCH.name}: {snapshot.place} has no epoch {moment} yet",
            hint=f"the last one is {snapshot.latest}",
        )
    return max(1, moment)


def check_kept(first: int, snapshot: Snapshot, *, with_state: bool) -> None:
    """Raise SourceError unless one can begin with an epoch: with its state, or its changes."""
    if (first if with_state else first - 1) < snapshot.since:
        raise SourceError(
            f"{snapshot.place} has forgotten epoch {first}: it can be read as of epochs "
            f"{snapshot.since} to {snapshot.latest}, and has the changes after {snapshot.since}",
            split=snapshot.place,
            hint="how many epochs it keeps is an option of who tends it",
        )


def _last_epoch(moment: Moment | None, snapshot: Snapshot) -> int:
    """Give the epoch that was the last at a moment, now without one; raises InputError."""
    if isinstance(moment, datetime):
        return snapshot.epoch_at(_wall_ms(moment))
    return snapshot.latest if moment is None else snapshot.check_epoch(moment)


def _wall_ms(moment: datetime) -> int:
    return (moment - _START) // _MILLISECOND


def only_buckets(snapshot: Snapshot, buckets: Iterable[int]) -> Snapshot:
    """Give the same without what nobody needs who reads these buckets."""
    wanted = set(buckets)
    files = tuple(ref for ref in snapshot.files if ref.bucket in wanted)
    manifest = replace(snapshot.manifest, files=files, times=(), sources={}, dropped=())
    return replace(snapshot, manifest=manifest)


def files_read(snapshot: Snapshot, span: Range) -> Iterator[FileRef]:
    """Give the files that are read for a range of times; one that has a state and changes twice."""
    folded = {file.bucket: file.last for file in snapshot.files if file.kind == "base"}
    for file in snapshot.files:
        is_base = file.kind == "base"
        if span.state is not None:
            low, high = sorted((span.state, folded.get(file.bucket, 0)))
            if is_base or (file.last > low and file.first <= high):
                yield file
        if span.has_changes and not is_base and file.last >= span.first and file.first <= span.last:
            yield file


def bytes_by_bucket(
    snapshot: Snapshot, span: Range, *, only_errors: bool = False
) -> dict[int, int]:
    """Say how many bytes of files are read of each bucket that has any for a range of times.

    With ``only_errors`` buckets are left out that had none.
    """
    files = list(files_read(snapshot, span))
    suspects = {file.bucket for file in files if file.errors}
    found: dict[int, int] = {}
    for file in files:
        if not only_errors or file.bucket in suspects:
            found[file.bucket] = found.get(file.bucket, 0) + file.byte_count
    return found


def bytes_by_epoch(snapshot: Snapshot) -> npt.NDArray[np.float64]:
    """Say about how many bytes of changes each epoch after ``since`` has, the first one first.

    A file that has the changes of several counts as if they were equally many.
    """
    since = snapshot.since
    found = np.zeros(snapshot.upper - since - 1)
    for file in snapshot.files:
        if file.kind == "run" and file.last > since:
            each = file.byte_count / (file.last - file.first + 1)
            found[max(0, file.first - since - 1) : file.last - since] += each
    return found
