"""Write a segment: group payloads into streams, lay the file out, make it durable in one step.

Equal bundles and an equal label give an equal file, byte for byte.
"""

from __future__ import annotations

import operator
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from quiver.config import SegmentConfig
from quiver.disk import SEALED_MODE, Bytes, Disk, write_new
from quiver.errors import InputError
from quiver.payload import EncodedBundle
from quiver.segment.builder import Builder, BuiltStreams, SegmentBuilder
from quiver.segment.catalog import SegmentInfo, describe
from quiver.segment.contents import Contents, SegmentLabel
from quiver.segment.format import BUNDLES_MAX, STREAMS_MAX, Footer, segment_name
from quiver.segment.keeper import Keeper
from quiver.segment.layout import InTheMeantime, lay_out
from quiver.segment.rest import Rest, no_rest
from quiver.slots import SlotTable

__all__ = ["SegmentLabel", "encode_segment", "write_segment"]

_DEFAULT_CONFIG: Final = SegmentConfig()


def write_segment(
    disk: Disk,
    folder: str,
    bundles: Sequence[EncodedBundle],
    *,
    label: SegmentLabel,
    lost: Mapping[int, tuple[int, ...]] | None = None,
    config: SegmentConfig = _DEFAULT_CONFIG,
    trusted: bool = False,
    builder: Builder | None = None,
    name: str | None = None,
    progress: bytes = b"",
    keep: bool = False,
    rest: Rest = no_rest,
) -> SegmentInfo:
    """Write bundles as the segment file of ``label`` in ``folder``, read-only from the start.

    ``name`` is for a file that does not stand among the segments of a store. ``progress`` is a
    table of ``quiver.progress``: how far sources were read with these bundles.
    ``lost`` names slots of bundles, by their index, that damage took before: see ``Description``.
    ``config`` says how: its ``compression`` and ``dictionary_cardinality``. Payloads are
    ``trusted`` if this process encoded or checked them; others are validated first. ``builder`` has
    taken the first of the same bundles already, if it is given, and takes the others; with ``keep``
    it is a ``Keeper``. ``rest`` is called now and then, by two threads.
    When this returns the file and its name survive a power cut; if it raises, a file of that name
    is as it was, or all new. Any Arrow data can be written and reads back value for value.
    Raises InputError for no bundles, too many, or a slot that ``label`` does not know, and
    DamagedEntry for a payload that is not what it says.
    """
    parts = _parts(
        bundles,
        label=label,
        lost=lost,
        config=config,
        trusted=trusted,
        builder=builder,
        progress=progress,
        keep=keep,
        rest=rest,
    )
    path = posixpath.join(folder, name or segment_name(label.segment_seq))
    size = write_new(disk, path, parts, mode=SEALED_MODE)
    return describe(disk, path, parts.footer, file_bytes=size)


def encode_segment(
    bundles: Sequence[EncodedBundle],
    *,
    label: SegmentLabel,
    config: SegmentConfig = _DEFAULT_CONFIG,
) -> list[Bytes]:
    """Give the bytes of the file that ``write_segment`` would write, one part behind the other.

    Payloads are trusted. Raises what ``write_segment`` raises.
    """
    return list(_parts(bundles, label=label, config=config, trusted=True))


def _parts(
    bundles: Sequence[EncodedBundle],
    *,
    label: SegmentLabel,
    config: SegmentConfig,
    trusted: bool,
    lost: Mapping[int, tuple[int, ...]] | None = None,
    builder: Builder | None = None,
    progress: bytes = b"",
    keep: bool = False,
    rest: Rest = no_rest,
) -> _Parts:
    if not bundles:
        raise InputError("an empty segment cannot be written", hint="append a bundle first")
    if len(bundles) > BUNDLES_MAX:
        raise InputError(f"a segment holds at most {BUNDLES_MAX:,} bundles")
    if keep and config.compression == "none":
        fresh: Builder = Keeper(config, trusted=trusted, rest=rest)
    else:
        fresh = SegmentBuilder(config, trusted=trusted)
    built = _built(bundles, label.slots, begun=builder, fresh=fresh)
    stream_count = sum(each.streams.body.stream_count for each in built)
    if stream_count > STREAMS_MAX:
        raise InputError(f"a segment holds at most {STREAMS_MAX:,} streams, not {stream_count:,}")
    return _Parts(Contents(bundles, built, label, lost or {}, config, progress, rest))


class _Parts:
    """The bytes of a segment file, in order; its end is made while they are taken."""

    footer: Footer
    """There once all of them have been taken."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents

    def __iter__(self) -> Iterator[Bytes]:
        placed = lay_out(each.streams.body for each in self._contents.built)
        size = placed[-1].end if placed else 0
        ending = InTheMeantime(lambda: self._contents.encode_end(placed), size)
        try:
            for each in placed:
                yield from each.parts()
        finally:
            end, self.footer = ending.result()
        yield from end


def _built(
    bundles: Sequence[EncodedBundle], slots: SlotTable, *, begun: Builder | None, fresh: Builder
) -> list[BuiltStreams]:
    """Have all bundles built, of which one that was ``begun`` may have some already."""
    builder = fresh
    if isinstance(begun, type(fresh)) and begun.sound and _begin_with(bundles, begun.bundles):
        builder = begun
    builder.add(bundles[len(builder.bundles) :], slots)
    return builder.finish()


def _begin_with(bundles: Sequence[EncodedBundle], first: Sequence[EncodedBundle]) -> bool:
    """Whether bundles begin with these very ones."""
    return len(first) <= len(bundles) and all(map(operator.is_, first, bundles))
