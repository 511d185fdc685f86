"""What every manifest of a collection keeps, whoever wrote it. Pure.

It speaks of shapes alone, so that both ways through ``format`` can ask it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

__all__ = ["BUCKETS_MAX", "EPOCH_MAX", "NAME", "fault_in"]

BUCKETS_MAX: Final = 1 << 16
EPOCH_MAX: Final = (1 << 64) - 1
NAME: Final = re.compile(r"(run|base)s/[0-7][0-9A-HJKMNP-TV-Z]{25}\.arrow")
"""A file's key beside the manifest: what it is, and a ULID."""

_ID: Final = re.compile(r"[0-9a-f]{32}")
_U32: Final = (1 << 32) - 1
_U63: Final = (1 << 63) - 1
_TEXT_MAX: Final = 1024


def fault_in(manifest: Any) -> str:  # noqa: ANN401
    """Say what is wrong with a manifest; "" if nothing is."""
    return next(_faults(manifest), "")


def _faults(manifest: Any) -> Iterator[str]:  # noqa: ANN401
    if not isinstance(manifest.collection, str) or not _ID.fullmatch(manifest.collection):
        yield "its id is not 32 hexadecimal digits"
    if not _within(manifest.buckets, 1, BUCKETS_MAX):
        yield f"there are no {manifest.buckets!r:.20} buckets, but 1 to {BUCKETS_MAX:,}"
        return
    for name in ("writer", "change"):
        if not _within(getattr(manifest, name), 0, EPOCH_MAX):
            yield f"{name} is {getattr(manifest, name)!r:.30}"
    upper, since = manifest.upper, manifest.since
    if not (_within(upper, 1, EPOCH_MAX) and _within(since, 0, upper - 1)):
        yield f"since {since!r:.30} is not below upper {upper!r:.30}"
        return
    if len(manifest.times) != upper - since:
        yield f"there are {len(manifest.times):,} times for {upper - since:,} epochs"
    if not all(_within(time, -_U63, _U63) for time in manifest.times):
        yield "a time is out of range"
    for name, source in manifest.sources.items():
        yield from _faults_of_source(name, source)
    yield from _faults_of_files(manifest.files, manifest.buckets, upper)
    yield from _faults_of_dropped(manifest)


def _within(number: object, least: int, most: int) -> bool:
    return type(number) is int and least <= number <= most


def _is_text(text: object) -> bool:
    return isinstance(text, str) and len(text) <= _TEXT_MAX


def _faults_of_source(name: object, source: Any) -> Iterator[str]:  # noqa: ANN401
    if not name or not _is_text(name) or not _is_text(source.query):
        yield f"{name!r:.60} is no source"
    if not _within(source.batch, -_U63, _U63):
        yield f"source {name!r:.60} is at batch {source.batch!r:.30}"
    if not isinstance(source.splits, Mapping):
        yield f"source {name!r:.60} has no splits"
        return
    for split, place in source.splits.items():
        if not _is_text(split) or not _within(place, 0, EPOCH_MAX):
            yield f"split {split!r:.60} of source {name!r:.60} is at {place!r:.30}"


def _faults_of_files(files: Sequence[Any], buckets: int, upper: int) -> Iterator[str]:
    names: set[str] = set()
    before: tuple[int, int] = (-1, 0)
    for ref in files:
        kind = NAME.fullmatch(ref.name) if isinstance(ref.name, str) else None
        if kind is None or kind[1] != ref.kind or ref.name in names:
            yield f"{ref.name!r:.60} is no name of a {ref.kind!r:.10} of its own"
        names.add(ref.name)
        sound = (
            _within(ref.bucket, 0, buckets - 1)
            and _within(ref.rows, 0 if ref.kind == "base" else 1, _U63)
            and _within(ref.errors, 0, ref.rows)
            and _within(ref.byte_count, 1, _U63)
            and _within(ref.crc32c, 0, _U32)
            and _within(ref.last, 0, upper - 1)
            and _within(ref.first, 1 if ref.kind == "run" else ref.last, ref.last)
        )
        if not sound:
            yield f"the numbers of {ref.name!r:.60} make no sense"
            return
        # A base stands before its runs; runs follow each other and share no epoch.
        place = (ref.bucket, 0 if ref.kind == "base" else ref.first)
        if place <= before:
            yield f"{ref.name!r:.60} is not where it should stand, or shares an epoch"
        before = (ref.bucket, 0 if ref.kind == "base" else ref.last)


def _faults_of_dropped(manifest: Any) -> Iterator[str]:  # noqa: ANN401
    names = {ref.name for ref in manifest.files}
    for dropped in manifest.dropped:
        if not isinstance(dropped.name, str) or not NAME.fullmatch(dropped.name):
            yield f"{dropped.name!r:.60} is no name of a file"
            return
        if dropped.name in names:
            yield f"{dropped.name!r:.60} is both used and dropped, or dropped twice"
        names.add(dropped.name)
        if not _within(dropped.epoch, 0, manifest.upper) or not _within(
            dropped.wall_ms, -_U63, _U63
        ):
            yield f"{dropped.name!r:.60} was dropped at no time"
