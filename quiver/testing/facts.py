"""What a store had promised by the time of a crash: marks, added up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from quiver.testing.acts import Mark

__all__ = ["Facts", "Known"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a store had promised when it crashed."""

    sent: int
    """Bundles below this number may be there."""
    durable: int
    """Bundles below this number must be there."""
    segment_seq: int
    """The highest that was given out; -1 for none."""
    acked: tuple[tuple[str, frozenset[int]], ...]
    """For each subscriber what it may not get any more."""
    settled: tuple[tuple[str, frozenset[int]], ...]
    """For each subscriber what it must not get any more."""
    left: frozenset[str]
    """Who must not be there any more."""
    done: frozenset[int]
    """What need not be there: every subscriber of some moment had acked it, or it never was."""
    rejected: frozenset[int] = frozenset()
    """Of which a copy must be among the dead letters."""
    given_up: tuple[tuple[str, frozenset[int]], ...] = ()
    """For each subscriber of which a copy must be there, unless the subscriber still gets it."""
    followed: frozenset[int] = frozenset()
    """What was read from a source, and says so."""
    dropped: frozenset[int] = frozenset()
    """What the store gave up, so that a source may be read from there again."""


@dataclass(slots=True)
class Known:
    """Facts as they grow, mark by mark."""

    sent: int = 0
    durable: int = 0
    segment_seq: int = -1
    acked: dict[str, set[int]] = field(default_factory=dict)
    settled: dict[str, set[int]] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)
    given_up: dict[str, set[int]] = field(default_factory=dict)
    follows: bool = False
    followed: set[int] = field(default_factory=set)
    dropped: set[int] = field(default_factory=set)

    def add(self, mark: Mark) -> None:
        """Learn what one mark says."""
        said: dict[str, Any] = dict(mark.facts)
        match mark.label:
            case "sent":
                self.sent = max(self.sent, said["number"] + 1)
                # The number may have been sent before, and lost with a crash.
                self.followed -= {said["number"]}
                self.followed |= {said["number"]} if self.follows else set()
            case "acknowledged":
                self.durable = max(self.durable, said["number"] + 1)
            case "skipped":
                self.done |= set(range(said["first"], said["end"]))
                self.dropped |= set(range(said["first"], said["end"]))
            case "dropping":
                self.dropped |= set(said["numbers"])
            case "follows" | "begins":
                self.follows = mark.label == "follows"
            case "rejected":
                self.rejected.add(said["number"])
            case "finalized":
                self.segment_seq = max(self.segment_seq, said["segment_seq"])
            case "registering" | "registered" | "leaving" | "left":
                self._add_of(said["subscriber"], mark.label, said)
            case "acked" | "rejecting" | "settled":
                self._add_of(said["subscriber"], mark.label, said)

    def _add_of(self, name: str, label: str, said: dict[str, Any]) -> None:
        match label:
            case "registering":
                self.left.discard(name)
            case "registered":
                self.acked.setdefault(name, set())
            case "leaving":
                self.acked.pop(name, None)
                self.settled.pop(name, None)
                self.given_up.pop(name, None)
            case "left":
                self.left.add(name)
            case "acked":
                self.acked[name].add(said["number"])
                self.given_up.get(name, set()).discard(said["number"])
            case "rejecting":
                self.acked[name].add(said["number"])
                self.given_up.setdefault(name, set()).add(said["number"])
            case "settled":
                self.settled.setdefault(name, set()).update(said["numbers"])
        if label in ("acked", "rejecting", "leaving") and self.acked:
            self.done |= set.intersection(*self.acked.values())

    def facts(self) -> Facts:
        """Give what is known so far."""
        return Facts(
            sent=self.sent,
            durable=self.durable,
            segment_seq=self.segment_seq,
            acked=_frozen(self.acked),
            settled=_frozen(self.settled),
            left=frozenset(self.left),
            done=frozenset(self.done),
            rejected=frozenset(self.rejected),
            given_up=_frozen(self.given_up),
            followed=frozenset(self.followed),
            dropped=frozenset(self.dropped),
        )


def _frozen(numbers: dict[str, set[int]]) -> tuple[tuple[str, frozenset[int]], ...]:
    return tuple((name, frozenset(some)) for name, some in numbers.items())
