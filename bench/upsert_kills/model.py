"""A dictionary to which each command is done in turn, and what a state comes to as a number."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from bench.upsert_kills.setup import commands

__all__ = ["Key", "Model", "Rows", "State", "digest_of", "rows_of"]

Key: TypeAlias = tuple[int | None, str | None]
Rows: TypeAlias = tuple[Any, ...]
"""What a key has: number, text, error."""
State: TypeAlias = dict[Key, Rows]

_ERROR = "key is null in column part"


class Model:
    """What the collection has to hold as of each epoch, one after the other."""

    def __init__(self) -> None:
        self.state: State = {}
        self.digests = [digest_of({})]

    @property
    def upper(self) -> int:
        """The next epoch."""
        return len(self.digests)

    def append(self, life: int) -> None:
        """Do what a life did as the next epoch: of several commands for a key, the greatest counts.

        Where several are as great, it is the first of them.
        """
        best: dict[Key, dict[str, Any]] = {}
        for row in commands(life, self.upper).to_pylist():
            key = row["id"], row["part"]
            if key not in best or row["at"] > best[key]["at"]:
                best[key] = row
        for key, row in best.items():
            if row["gone"]:
                self.state.pop(key, None)
            elif row["part"] is None:
                self.state[key] = None, None, _ERROR
            else:
                self.state[key] = row["n"], row["text"], None
        self.digests.append(digest_of(self.state))


def digest_of(state: Mapping[Key, Rows]) -> str:
    """Give a number for a state, with how many keys it has."""
    rows = sorted((repr(key), repr(value)) for key, value in state.items())
    return f"{len(rows)}-{hashlib.blake2b(repr(rows).encode(), digest_size=8).hexdigest()}"


def rows_of(batches: Iterable[pa.RecordBatch | pa.Table]) -> list[tuple[Key, Rows, int, int]]:
    """Give what is in rows of a collection: key, value, time and diff, or 0 where there is none."""
    found = []
    for batch in batches:
        for row in batch.to_pylist():
            key = row["key"]["id"], row["key"]["part"]
            value = row["value"] or {"n": None, "text": None}
            content = value["n"], value["text"], row["error"]
            found.append((key, content, row.get("time", 0), row.get("diff", 0)))
    return found
