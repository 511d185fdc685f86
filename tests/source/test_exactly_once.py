"""Whatever happens in whatever order: the output of committed epochs is exactly the input.

Two executors share the splits of one source. A coordinator sends barriers, moves splits from one
to the other, and commits epochs; readers fail, executors die and restart from the last commit.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from toy_source import ToySource, state_place

from quiver.errors import SourceError
from quiver.source import (
    AssignSplits,
    Barrier,
    BarrierPassed,
    Snapshots,
    SourceChunk,
    SourceExecutor,
    SourceOptions,
    Split,
    SplitState,
    assign,
)
from quiver.testing import ManualClock, MemoryDisk

SPLITS = ("a", "b", "c")
NAMES = ("one", "two")
OPTIONS = SourceOptions(threads=False, retries_max=1 << 30)

STEP = st.tuples(
    st.sampled_from(
        ["read", "read", "read", "feed", "feed", "barrier", "move", "commit", "fail", "crash"]
    ),
    st.integers(0, 5),
    st.integers(0, 2),
)


@dataclass
class World:
    """The source, its two executors, and what they have put out, epoch by epoch."""

    source: ToySource = field(
        default_factory=lambda: ToySource({name: [] for name in SPLITS}, batch_rows=3)
    )
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    clock: ManualClock = field(default_factory=ManualClock)
    runs: dict[str, SourceExecutor] = field(default_factory=dict)
    owners: dict[str, str | None] = field(default_factory=dict)
    epoch: int = 0
    committed: int = 0
    fed: int = 0
    states: dict[int, dict[str, SplitState]] = field(default_factory=dict)
    pending: dict[str, list[SourceChunk]] = field(default_factory=lambda: defaultdict(list))
    output: dict[int, list[SourceChunk]] = field(default_factory=lambda: defaultdict(list))

    def start(self) -> None:
        """Begin at the last commit; whoever had a split before may not have it now."""
        for run in self.runs.values():
            run.close()
        self.epoch = max(self.epoch, self.committed)
        for late in [epoch for epoch in self.output if epoch > self.committed]:
            del self.output[late]
        self.pending.clear()
        self.runs = {
            name: SourceExecutor(
                self.source,
                Snapshots(self.disk, f"epochs-{name}", connector="toy"),
                epoch=self.committed,
                clock=self.clock,
                options=OPTIONS,
            )
            for name in NAMES
        }
        shares = assign(self.source.splits(), dict.fromkeys(NAMES, ()))
        self.owners = {split.id: name for name, share in shares.items() for split in share}
        self.barrier(self.states.get(self.committed, {}))

    def barrier(self, given: dict[str, SplitState]) -> None:
        """End an epoch in both executors, and look that each lets it through at once."""
        self.epoch += 1
        passed: dict[str, SplitState] = {}
        for name, run in self.runs.items():
            own = tuple(Split(split) for split, owner in self.owners.items() if owner == name)
            run.send(Barrier(self.epoch, (AssignSplits(own, given),)))
            event = run.next(0)
            assert isinstance(event, BarrierPassed)
            assert event.barrier.epoch == self.epoch
            for split, state in event.states.items():
                if split not in passed or state.as_of > passed[split].as_of:
                    passed[split] = state
            self.output[self.epoch] += self.pending.pop(name, [])
        self.states[self.epoch] = passed

    def move(self, split: str, name: str) -> None:
        """Take a split from its executor at one barrier, give it to another one at the next."""
        self.owners[split] = None
        self.barrier({})
        given = self.states[self.epoch]
        self.owners[split] = name
        self.barrier(given)

    def read(self, name: str) -> None:
        self.clock.step(0.6)
        event = self.runs[name].next(0)
        if event is not None:
            assert isinstance(event, SourceChunk)
            self.pending[name].append(event)

    def act(self, act: str, number: int, which: int) -> None:
        split, name = SPLITS[which], NAMES[number % 2]
        match act:
            case "read":
                self.read(name)
            case "feed":
                self.source.feed(split, range(self.fed, self.fed + number))
                self.fed += number
            case "barrier":
                self.barrier({})
            case "move":
                self.move(split, name)
            case "commit":
                self.commit()
            case "fail":
                self.source.failing[split] = SourceError("no answer", retryable=True)
            case "crash":
                self.start()

    def commit(self) -> None:
        self.committed = self.epoch
        for run in self.runs.values():
            run.commit(self.committed)
            run.acker.tell()

    def finish(self) -> None:
        """Read all that is left and commit it."""
        self.source.failing.clear()
        for _ in range(self.fed + 10):
            self.clock.step(2)
            for name in NAMES:
                self.read(name)
        self.barrier({})
        self.commit()


@settings(max_examples=70, deadline=None)
@given(st.lists(STEP, min_size=30, max_size=80))
def test_the_output_of_committed_epochs_is_exactly_the_input(steps) -> None:
    world = World()
    world.start()
    for act, number, which in steps:
        if world.epoch - world.committed >= 12:
            world.commit()
        world.act(act, number, which)
        acked = {s: state_place(t) for told in world.source.acked for s, t in told.items()}
        safe = world.states.get(world.committed, {})
        assert all(place <= state_place(safe[s].state) for s, place in acked.items())
    world.finish()
    for split in SPLITS:
        chunks = [c for epoch in sorted(world.output) for c in world.output[epoch]]
        own = [c for c in chunks if c.split == split]
        assert [v for c in own for v in c.batch["value"].to_pylist()] == world.source.rows[split]
        places = [place for c in own for place in c.offsets.to_pylist()]
        assert places == list(range(len(places)))
