"""What was read against a dictionary that did what was appended, and what is left over."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from bench.kills.log import Log, lines
from bench.upsert_kills.model import Model, digest_of, rows_of
from bench.upsert_kills.reading import state_as_of
from bench.upsert_kills.setup import LIMITS, SOURCE, Setup
from quiver.ship.objects import Bucket
from quiver.upsert.persist import MANIFEST_KEY, Collection, Snapshot, WholeState, changes
from quiver.upsert.rows import key_bytes, key_hashes
from quiver.upsert.tending import MARKER

__all__ = ["Judge", "Outcome", "judge_collection", "leftovers", "look"]

_READERS: Final = ("reader", "follower")
_BY_THE_WAY: Final = {"RemoteError", "UnclearError"}
"""Errors that a dead server explains."""
_TOLD_MAX: Final = 5


@dataclass
class Outcome:
    """How much came through, and what is wrong with it."""

    epochs: int = 0
    reads: int = 0
    """States that were read, and were what they had to be."""
    steps: int = 0
    """States that followers came to by changes alone."""
    folded: int = 0
    merged: int = 0
    fenced: int = 0
    """How often a writer found out that another one had taken over."""
    unsaid: int = 0
    """Epochs whose writer was killed before he could say that they were in."""
    problems: list[str] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        """Add another play."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


class Judge:
    """Holds logs against the dictionary, again and again as they grow."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.model = Model()

    def judge(self) -> Outcome:
        """Look at all that was said so far; epochs of which nobody knows yet are left out."""
        outcome = Outcome()
        owners: dict[int, tuple[int, int]] = {}
        said: set[int] = set()
        for word in ("appended", "found"):
            for words in lines(self.setup.log("writer"), word):
                epoch, *owner = map(int, words[1:])
                if owners.setdefault(epoch, (owner[0], owner[1])) != tuple(owner):
                    outcome.problems.append(f"epoch {epoch} was appended twice")
                if word == "appended":
                    said.add(epoch)
        while self.model.upper in owners:
            self.model.append(owners[self.model.upper][0])
        outcome.epochs = self.model.upper - 1
        outcome.unsaid = len(set(owners) - said)
        outcome.problems += self._gaps(owners)
        fences = [owners[epoch][1] for epoch in sorted(owners)]
        if fences != sorted(fences):
            outcome.problems.append("an older writer has appended behind a newer one")
        for name in _READERS:
            outcome.problems += self._judge_states(name, outcome)
        outcome.problems += self._judge_words(outcome)
        return outcome

    def close(self, snapshot: Snapshot) -> None:
        """Learn of the last epoch, whose life may have been killed before it could say so."""
        source = snapshot.sources.get(SOURCE)
        if source is not None:
            Log(self.setup.log("writer")).say("found", snapshot.latest, *source.query.split())

    def _gaps(self, owners: dict[int, tuple[int, int]]) -> Iterator[str]:
        """Nobody knows of the last epoch of a life before the next one has begun; of all others."""
        unknown = set(range(1, max(owners, default=0))) - set(owners)
        if unknown:
            yield f"nobody knows who appended epoch {min(unknown)}"

    def _judge_states(self, name: str, outcome: Outcome) -> Iterator[str]:
        wrong = []
        for words in lines(self.setup.log(name), "state"):
            epoch = int(words[1])
            if epoch >= self.model.upper:
                continue
            outcome.reads += 1
            outcome.steps += name == "follower"
            if words[2] != self.model.digests[epoch]:
                wrong.append(epoch)
        if wrong:
            found = ", ".join(map(str, wrong[:_TOLD_MAX]))
            yield f"the {name} saw {len(wrong)} states that never were, as of {found}"

    def _judge_words(self, outcome: Outcome) -> Iterator[str]:
        for words in lines(self.setup.log("writer"), "tended"):
            outcome.folded += int(words[1])
            outcome.merged += int(words[2])
        outcome.fenced = len(list(lines(self.setup.log("writer"), "fenced")))
        for name in ("writer", *_READERS):
            for words in lines(self.setup.log(name), "wrong"):
                yield f"{name}: {' '.join(words[1:])}"
            kinds: Counter[str] = Counter()
            first: dict[str, str] = {}
            for words in lines(self.setup.log(name), "error"):
                kinds[words[1]] += 1
                first.setdefault(words[1], " ".join(words[2:]))
            for kind in sorted(set(kinds) - _BY_THE_WAY):
                yield f"{name}: {kinds[kind]} times {kind}: {first[kind]}"
        path = os.path.join(self.setup.folder, "stderr.txt")
        with open(path, encoding="utf-8") as file:
            text = file.read().strip()
        if text:
            yield f"somebody said on stderr: ...{text[-2000:]}"


def look(store: Bucket) -> list[str]:
    """See that each file that is named is there, in a play that goes on."""
    collection = Collection.open(store)
    before = {ref.name for ref in collection.snapshot().files}
    there = {each.key for each in store.list("")}
    named = before & {ref.name for ref in collection.snapshot().files}
    return [f"{name} is gone and is named" for name in sorted(named - there)]


def judge_collection(store: Bucket, snapshot: Snapshot, model: Model) -> Iterator[str]:
    """Read all that can be read, in each way, at the end."""
    if snapshot.upper != model.upper:
        yield f"there are {snapshot.upper} epochs, {model.upper} were appended"
        return
    for epoch in range(snapshot.since, snapshot.upper):
        if digest_of(state_as_of(store, snapshot, epoch)) != model.digests[epoch]:
            yield f"the state as of {epoch} is not what was appended"
    sums: Counter[object] = Counter()
    for key, value in state_as_of(store, snapshot, snapshot.since).items():
        sums[key, value] += 1
    for bucket in range(snapshot.buckets):
        rows = rows_of(changes(store, snapshot, bucket, after=snapshot.since))
        for key, value, _, diff in rows:
            sums[key, value] += diff
    if {each: count for each, count in sums.items() if count} != dict.fromkeys(
        model.state.items(), 1
    ):
        yield "differences do not add up to one row for each living key"
    keys = snapshot.definition.state.field("key").type
    asked = pa.array([{"id": number, "part": part} for number, part in model.state], keys)
    looked = WholeState(store, snapshot).lookup(key_hashes(key_bytes(asked)), asked)
    rows = rows_of([looked.rows])
    found = {rows[at][0]: rows[at][1] for at in looked.index if at >= 0}
    if found != model.state:
        yield "a look-up does not find what was appended"


def leftovers(store: Bucket, snapshot: Snapshot) -> list[str]:
    """List what is there though nobody names it, once the grace is over, and what is too much."""
    named = {ref.name for ref in snapshot.files} | {MANIFEST_KEY, MARKER}
    keys = [each.key for each in store.list("") if each.key not in named]
    found = [f"{len(keys)} objects are left, as {', '.join(keys[:_TOLD_MAX])}"] if keys else []
    if snapshot.manifest.dropped:
        found.append(f"{len(snapshot.manifest.dropped)} files are dropped for ever")
    most = snapshot.buckets * (2 + 2 * LIMITS.live_runs_max + LIMITS.past_runs_max)
    if len(snapshot.files) > most:
        found.append(f"there are {len(snapshot.files)} files, {most} at most should be")
    return found
