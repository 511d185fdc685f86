"""What was counted, and whether it is good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.demo.compare import Difference
from bench.demo.kills import Kill, Life, surprises
from bench.demo.sinks import Delivered

__all__ = ["Report"]

_INSIDE_APPEND_MIN = 2


@dataclass
class Report:
    """The figures of one run, filled in as they become known."""

    bundles: int = 0
    """How many bundles the year has."""
    planned: Sequence[Kill] = ()
    lives: list[Life] = field(default_factory=list)
    delivered: dict[str, Delivered] = field(default_factory=dict)
    """By subscriber."""
    differences: dict[str, Mapping[str, Difference]] = field(default_factory=dict)
    """By subscriber, then by slot."""
    segments_written: int = 0
    segments_after_one: int = 0
    """How many segments there were when one of two subscribers had acked everything."""
    segments_left: int = 0
    segment_bytes_left: int = 0
    store_bytes_left: int = 0
    """What all files of the store take on the disk at the end: log, acks, manifest."""
    check_failure: str = ""

    @property
    def kills(self) -> int:
        """How many writers were killed."""
        return sum(life.killed for life in self.lives)

    def kills_in(self, act: str) -> int:
        """How many of them died within one kind of act."""
        return sum(life.killed and life.act == act for life in self.lives)

    @property
    def replayed(self) -> int:
        """How many bundles recoveries brought back from the log, all together."""
        return sum(life.found.get("replayed", 0) for life in self.lives)

    @property
    def unconfirmed(self) -> int:
        """How many bundles were found durable although no append had returned for them."""
        count = acknowledged = 0
        for life in self.lives:
            count += max(0, life.found.get("next", 0) - acknowledged)
            acknowledged = max(life.acknowledged, life.found.get("next", 0), acknowledged)
        return count

    def total(self, what: str) -> int:
        """Sum one figure of the differences over subscribers and slots."""
        return sum(
            getattr(difference, what)
            for by_slot in self.differences.values()
            for difference in by_slot.values()
        )

    def problems(self) -> list[str]:
        """List everything that is not as promised; none is what success is."""
        wrong = surprises(self.lives)
        if self.kills < len(self.planned):
            wrong.append(f"{self.kills} kills of {len(self.planned)} planned")
        if self.kills_in("append") < _INSIDE_APPEND_MIN:
            wrong.append(f"only {self.kills_in('append')} kills met the writer inside an append")
        if not self.lives or self.lives[-1].acknowledged != self.bundles:
            wrong.append("the last writer did not come to the end of the year")
        if len(self.delivered) < 2:
            wrong.append("not both subscribers were served")
        for name, delivered in self.delivered.items():
            wrong += self._delivery_problems(name, delivered)
        if self.segments_after_one != self.segments_written:
            wrong.append("segments were deleted before both subscribers had them")
        if self.segments_left or self.segment_bytes_left:
            wrong.append(f"{self.segments_left} segments are left that both subscribers acked")
        if self.check_failure:
            wrong.append(self.check_failure)
        return wrong

    def _delivery_problems(self, name: str, delivered: Delivered) -> list[str]:
        wrong = []
        if delivered.repeated:
            wrong.append(f"{name}: {delivered.repeated} bundles came more than once")
        if set(delivered.bundles) != set(range(self.bundles)):
            wrong.append(f"{name}: {len(delivered.bundles)} bundles came, not {self.bundles}")
        if name not in self.differences:
            wrong.append(f"{name}: its rows were not compared")
        for slot, difference in self.differences.get(name, {}).items():
            if not difference.is_none:
                wrong.append(
                    f"{name}, {slot}: {difference.lost} rows lost, {difference.duplicates} "
                    f"doubled, {difference.foreign} not as in the source {difference.columns}"
                )
        return wrong
