"""What one look at a store sees, as values: nothing in here knows a disk or a screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from quiver.cli.live.nodes import Nodes

__all__ = ["CoreLook", "Look", "SegmentSize", "SubscriberLook", "Writer"]


@dataclass(frozen=True, slots=True)
class SegmentSize:
    """How large one segment is."""

    bundle_count: int
    byte_count: int


@dataclass(frozen=True, slots=True)
class Writer:
    """Whether a process holds the lock of a core; None where the system does not tell."""

    is_there: bool | None = None
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class SubscriberLook:
    """How far one subscriber is in one core, as ``quiver lag`` says it."""

    name: str
    bundle_count: int = 0
    byte_count: int = 0
    oldest_age_ns: int | None = None
    retrying_count: int = 0
    dead_letter_count: int = 0
    unfolded_count: int = 0
    """Of the open bundles, those that a process of its own is done with."""
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class CoreLook:
    """One core. ``problem`` is why it could not be read; the rest is then what was seen last.

    The three ``next_`` numbers never go back in a sound store.
    """

    core: int
    next_wal_seq: int = 0
    next_finalized_seq: int = 0
    open_bundle_count: int = 0
    open_bytes: int = 0
    """Payloads of the bundles that are in no segment yet."""
    wal_file_count: int = 0
    wal_bytes: int = 0
    next_segment_seq: int = 0
    segments: Mapping[int, SegmentSize] = field(default_factory=dict)
    acks_bytes: int = 0
    quarantine_bytes: int = 0
    used_bytes: int = 0
    """What counts for the cap."""
    subscribers: tuple[SubscriberLook, ...] = ()
    writer: Writer = Writer()
    damage: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def segment_bytes(self) -> int:
        """Sizes of all segments together."""
        return sum(segment.byte_count for segment in self.segments.values())

    @property
    def dead_letter_count(self) -> int:
        """Bundles that its subscribers gave up."""
        return sum(each.dead_letter_count for each in self.subscribers)


@dataclass(frozen=True, slots=True)
class Look:
    """A store at one moment. ``problem`` is why there is nothing of it to see.

    ``at_ns`` is wall time, ``monotonic_ns`` is for differences, ``took_ns`` is what looking took,
    and ``footer_count`` how many segments had to be opened for it.
    """

    at_ns: int
    monotonic_ns: int
    took_ns: int = 0
    footer_count: int = 0
    store_id: str | None = None
    cores: tuple[CoreLook, ...] = ()
    staged_bytes: int = 0
    """What waits for the commits of sinks, in no core yet."""
    problem: str | None = None
    nodes: Nodes | None = None
    """Those of a running pipeline, if its page was asked."""

    def core(self, number: int) -> CoreLook | None:
        """Give one core, if there is one of that number."""
        return next((core for core in self.cores if core.core == number), None)

    @property
    def used_bytes(self) -> int:
        """What all cores take together."""
        return sum(core.used_bytes for core in self.cores)

    @property
    def subscribers(self) -> tuple[SubscriberLook, ...]:
        """All subscribers in order of name, each once, its cores added up."""
        found: dict[str, list[SubscriberLook]] = {}
        for core in self.cores:
            for each in core.subscribers:
                found.setdefault(each.name, []).append(each)
        return tuple(_sum(name, found[name]) for name in sorted(found))

    @property
    def faults(self) -> Iterator[tuple[int | None, str]]:
        """Go through all that is wrong, each with its core."""
        if self.problem is not None:
            yield None, self.problem
        if self.nodes is not None and self.nodes.problem is not None:
            yield None, self.nodes.problem
        for core in self.cores:
            if core.problem is not None:
                yield core.core, core.problem
            yield from ((core.core, fault) for fault in core.damage)


def _sum(name: str, parts: list[SubscriberLook]) -> SubscriberLook:
    return SubscriberLook(
        name,
        sum(each.bundle_count for each in parts),
        sum(each.byte_count for each in parts),
        max((e.oldest_age_ns for e in parts if e.oldest_age_ns is not None), default=None),
        sum(each.retrying_count for each in parts),
        sum(each.dead_letter_count for each in parts),
        sum(each.unfolded_count for each in parts),
        any(each.is_paused for each in parts),
    )
