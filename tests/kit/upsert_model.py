"""What upserts must come to, told by dictionaries, and a collection that is kept in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from quiver.upsert.rows import Definition, Looked, Plan, define, exact_bytes, key_bytes

KEY, VALUE, FROM = "k", "v", "from"
PLAN = Plan(key=[KEY], order_by=[FROM])


@dataclass(frozen=True)
class Command:
    """A key has a value from now on, or none; of one time the greatest ``at`` counts."""

    key: Any
    value: Any
    time: int
    at: int = 0


class Model:
    """Last command wins: by time, then by from_time, then the first that came."""

    def __init__(self) -> None:
        self.won: dict[int, dict[Hashable, Command]] = {}

    def push(self, command: Command) -> None:
        there = self.won.setdefault(command.time, {})
        before = there.get(command.key)
        if before is None or command.at > before.at:
            there[command.key] = command

    def state(self, time: int) -> dict[Hashable, Any]:
        """Give key and value of all that lives at a time."""
        found: dict[Hashable, Any] = {}
        for early in sorted(t for t in self.won if t <= time):
            for key, command in self.won[early].items():
                found.pop(key, None)
                if command.value is not None:
                    found[key] = command.value
        return found

    def diffs(self, time: int) -> Counter[tuple[Hashable, Any]]:
        """Give what a time adds to the state before it and takes from it."""
        after, before = (Counter(self.state(t).items()) for t in (time, time - 1))
        after.subtract(before)
        return Counter({row: count for row, count in after.items() if count})


def table(commands: Sequence[Command], key: Any = None, value: Any = None) -> pa.Table:
    """Write commands as the rows of a table."""
    columns = {
        KEY: pa.array([c.key for c in commands], key or pa.int64()),
        VALUE: pa.array([c.value for c in commands], value or pa.string()),
        FROM: pa.array([c.at for c in commands], pa.int64()),
    }
    return pa.table(columns)


def definition(key: Any = None, value: Any = None) -> Definition:
    return define(table([], key, value).schema, PLAN, 4)


class Memory:
    """A collection in memory: differences by epoch, and what they add up to, checked on the way."""

    def __init__(self, kind: Definition | None = None) -> None:
        self.definition = kind or definition()
        self.upper = 0
        self.epochs: list[pa.Table] = []
        self.rows = self.definition.state.empty_table()
        self.lookups: list[int] = []

    def lookup(self, hashes: Any, keys: pa.StructArray) -> Looked:
        assert len(hashes) == len(keys)
        self.lookups.append(len(keys))
        held = key_bytes(self.rows["key"].combine_chunks()).to_pylist()
        at = {data: row for row, data in enumerate(held)}
        assert len(at) == len(held), "a key with two values"
        asked = key_bytes(keys).to_pylist()
        found = {data: place for place, data in enumerate(sorted(at.keys() & set(asked)))}
        rows = self.rows.take(pa.array([at[data] for data in found], pa.int64()))
        index = [found.get(data, -1) for data in asked]
        return Looked(rows, np.array(index, np.int64))

    def append(self, time: int, diffs: Iterable[pa.Table]) -> None:
        """Append an epoch; each key must come to one row at most, each row to a count of one."""
        assert time == self.upper
        added = pa.concat_tables([self.definition.diffs.empty_table(), *diffs])
        assert added.schema == self.definition.diffs
        assert set(added["time"].to_pylist()) <= {time}
        both = pa.concat_tables([self.rows, added.select(self.definition.state.names)])
        signs = [1] * self.rows.num_rows + added["diff"].to_pylist()
        whole = both.combine_chunks().to_struct_array().combine_chunks()
        data = exact_bytes(whole).to_pylist() if len(both) else []
        counts: Counter[bytes] = Counter()
        for row, sign in zip(data, signs, strict=True):
            counts[row] += sign
        assert set(counts.values()) <= {0, 1}, "a row that is there twice, or less than not at all"
        first = {row: place for place, row in reversed(list(enumerate(data)))}
        kept = sorted(first[row] for row, count in counts.items() if count)
        self.rows = both.take(pa.array(kept, pa.int64()))
        self.epochs.append(added)
        self.upper += 1

    def state(self) -> dict[Any, Any]:
        """Give key and value of each row, or its error."""
        return {
            row["key"][KEY]: row["error"] if row["value"] is None else row["value"][VALUE]
            for row in self.rows.to_pylist()
        }

    def diffs(self, time: int) -> Counter[tuple[Any, Any]]:
        """Give the sum of the differences of an epoch, row by row."""
        found: Counter[tuple[Any, Any]] = Counter()
        for row in self.epochs[time].to_pylist():
            value = row["error"] if row["value"] is None else row["value"][VALUE]
            found[(row["key"][KEY], value)] += row["diff"]
        return Counter({row: count for row, count in found.items() if count})
