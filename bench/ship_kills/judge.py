"""What is in the sink, against what senders were told is in the queue, and what is left over."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from bench.kills.log import lines
from bench.ship_kills.receiving import open_sink
from bench.ship_kills.setup import CORES, Setup, content
from bench.ship_kills.witness import Witness
from quiver.ship.objects import Bucket, own_key
from quiver.ship.queue import Queue
from quiver.ship.queue.changing import MANIFEST_KEY
from quiver.ship.queue.turns import TURN_KEY
from quiver.ship.sweeper.sweep import MARKER

__all__ = ["Outcome", "gone", "judge", "judge_queue", "leftovers", "look"]

_BY_THE_WAY: Final = {"CapacityError", "FencedError", "RemoteError", "UnclearError"}
"""Errors that a dead server explains, or the consumer that came before."""
_TOLD_MAX: Final = 5


@dataclass
class Outcome:
    """How much came through, and what is wrong with it."""

    acknowledged: int = 0
    """Records of which a handle said so."""
    records: int = 0
    """Records in the sink: those, and others of which nobody was told."""
    unclear: int = 0
    """Calls of which nobody knew."""
    made_again: int = 0
    """Calls that failed and were made again."""
    bundles: int = 0
    """Bundles of the store; all of them were shipped."""
    segments: int = 0
    batches: int = 0
    repeats: int = 0
    """Entries that came twice into the queue, for nobody could tell; the consumer dropped them."""
    swept: int = 0
    """Batches of the queue that are gone at the end."""
    problems: list[str] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        """Add another play."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


def judge(setup: Setup, bundles: dict[int, int] | None = None) -> Outcome:
    """Look at the sink and the logs: of a play that goes on, or with its bundles at the end."""
    outcome = Outcome()
    with closing(open_sink(setup.sink)) as sink:
        sink.execute("BEGIN")  # All of it is of one moment.
        outcome.problems += _judge_batches(sink, outcome)
        outcome.problems += _judge_records(sink, setup, outcome, is_end=bundles is not None)
        outcome.problems += _judge_bundles(sink, setup, outcome, bundles=bundles)
    outcome.problems += _judge_logs(setup)
    return outcome


def _judge_batches(sink: sqlite3.Connection, outcome: Outcome) -> Iterator[str]:
    rows = sink.execute("SELECT sequence, location FROM batches ORDER BY rowid").fetchall()
    outcome.batches = len(rows)
    sequences = [sequence for sequence, _ in rows]
    if sequences != sorted(sequences):
        yield "sequences of the sink are out of order"
    yield from _twice("batch", (location for _, location in rows))


def _judge_records(
    sink: sqlite3.Connection, setup: Setup, outcome: Outcome, *, is_end: bool
) -> Iterator[str]:
    rows = sink.execute(
        "SELECT life, call, number, sequence, content FROM records ORDER BY rowid"
    ).fetchall()
    (newest,) = sink.execute("SELECT max(sequence) FROM batches").fetchone()
    outcome.records = len(rows)
    place = {row[:3]: row[3] for row in rows}
    yield from _twice("record", (f"{number} of life {life}" for life, _, number, *_ in rows))
    wrong = [row[:3] for row in rows if is_end and bytes(row[4]) != content(row[0], row[2])]
    if wrong:
        yield f"{len(wrong)} records are not what was sent, the first {wrong[0]}"
    for life in {row[0] for row in rows}:
        order = [row[1:3] for row in rows if row[0] == life]
        if order != sorted(order):
            yield f"records of life {life} of the producer are out of order"
    upto = None if is_end else -1 if newest is None else newest
    yield from _judge_handles(setup, place, outcome, upto=upto)


def _judge_handles(
    setup: Setup, place: dict[Any, int], outcome: Outcome, *, upto: int | None
) -> Iterator[str]:
    """Hold what handles said against where records are, as far as the sink has come."""
    lost, late = [], []
    for words in lines(setup.log("producer"), "acked"):
        life, call, first, count, sequence = map(int, words[1:])
        if upto is not None and sequence > upto:
            continue
        outcome.acknowledged += count
        calls = [(life, call, number) for number in range(first, first + count)]
        lost += [each for each in calls if each not in place]
        late += [each for each in calls if place.get(each, 0) > sequence]
    if lost:
        yield f"{len(lost)} acknowledged records are lost, the first {lost[0]}"
    if late:
        yield f"{len(late)} records came later than was said, the first {late[0]}"
    for words in lines(setup.log("producer"), "failed"):
        outcome.made_again += 1
        life, call, first = map(int, words[1:4])
        if (life, call, first) in place:
            yield f"call {call} of life {life} failed and is there all the same"
    outcome.unclear = len(list(lines(setup.log("producer"), "unclear")))


def _judge_bundles(
    sink: sqlite3.Connection, setup: Setup, outcome: Outcome, *, bundles: dict[int, int] | None
) -> Iterator[str]:
    for core in range(CORES):
        find = "SELECT number FROM {} WHERE core = ? ORDER BY rowid"
        found = [row[0] for row in sink.execute(find.format("bundles"), [core])]
        segments = [row[0] for row in sink.execute(find.format("segments"), [core])]
        outcome.bundles += len(found)
        outcome.segments += len(segments)
        count = len(found) if bundles is None else bundles[core]
        if found != list(range(count)):
            lost = len(set(range(count)) - set(found))
            yield (
                f"core {core} has {count} bundles, the sink {len(found)}: {lost} lost, "
                f"{len(found) - len(set(found))} twice; {_odd(found)}"
            )
        if segments != sorted(set(segments)):
            yield f"segments of core {core} are out of order or twice: {_odd(segments)}"
        durable = max(
            (int(w[1]) for w in lines(setup.log(f"writer-{core}"), "durable")), default=-1
        )
        if bundles is not None and durable >= count:
            yield f"core {core} has lost bundles that were durable"


def _judge_logs(setup: Setup) -> Iterator[str]:
    for name in ("shipper", "consumer", "sweeper", "producer"):
        for words in lines(setup.log(name), "wrong"):
            yield f"{name}: {' '.join(words[1:])}"
        kinds: Counter[str] = Counter()
        first: dict[str, str] = {}
        for words in lines(setup.log(name), "error"):
            kinds[words[1]] += 1
            first.setdefault(words[1], " ".join(words[2:]))
        for kind in sorted(set(kinds) - _BY_THE_WAY):
            yield f"{name}: {kinds[kind]} times {kind}: {first[kind]}"
    with open(os.path.join(setup.folder, "stderr.txt"), encoding="utf-8") as file:
        text = file.read().strip()
    if text:
        yield f"somebody said on stderr: ...{text[-2000:]}"


def look(queue: Queue) -> list[str]:
    """See that each batch in the queue is there, in a play that goes on."""
    before = {entry.location for entry in queue.read().entries()}
    there = {each.key for each in queue.bucket.list("")}
    named = before & {entry.location for entry in queue.read().entries()}
    gone = [location for location in named if own_key(queue.bucket, location) not in there]
    return [f"{location} is gone and waits in the queue" for location in sorted(gone)]


def judge_queue(setup: Setup, witness: Witness, outcome: Outcome) -> list[str]:
    """Hold the sink against all that ever was in the queue, at the end."""
    outcome.repeats = witness.repeats
    with closing(open_sink(setup.sink)) as sink:
        there = {row[0] for row in sink.execute("SELECT location FROM batches")}
    lost, strange = witness.locations - there, there - witness.locations
    found = list(witness.problems)
    if lost:
        found.append(f"{len(lost)} batches of the queue are not in the sink, as {min(lost)}")
    if strange:
        found.append(f"{len(strange)} batches of the sink never were in the queue")
    return found


def gone(bucket: Bucket, witness: Witness) -> int:
    """Count the batches that ever were in the queue and are not there any more."""
    there = {each.key for each in bucket.list("")}
    return sum(own_key(bucket, location) not in there for location in witness.locations)


def leftovers(bucket: Bucket) -> list[str]:
    """List what is there though nobody names it, once all is consumed and the grace is over."""
    named = {own_key(bucket, entry.location) for entry in Queue(bucket).read().entries(kept=True)}
    named |= {MANIFEST_KEY, TURN_KEY, MARKER}
    keys = [each.key for each in bucket.list("") if each.key not in named]
    return [f"{len(keys)} objects are left, as {', '.join(keys[:_TOLD_MAX])}"] if keys else []


def _twice(what: str, found: Iterable[Any]) -> list[str]:
    many = [each for each, count in Counter(found).items() if count > 1]
    return [f"{len(many)} times a {what} is there twice, as {many[0]}"] if many else []


def _odd(numbers: list[int]) -> str:
    """Say where numbers do not count up by one."""
    for before, after in zip([-1, *numbers], numbers, strict=False):
        if after != before + 1:
            return f"{after} comes behind {before}"
    return f"it ends with {numbers[-1]}" if numbers else "there are none"
