"""The commands that all sides take: keys of eight bytes, values of fifty, one in twenty deletes.

Keys are drawn anew for each command, so some come more than once in a batch; ``at`` says which of
two is the later. Five keys in a hundred more than there are rows at first: as many come as go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "COLUMNS",
    "GONE",
    "KEY",
    "ORDER",
    "VALUE",
    "VALUE_BYTES",
    "last_of_each",
    "mixed",
    "snapshot",
]

KEY: Final = "id"
ORDER: Final = "at"
VALUE: Final = "text"
GONE: Final = "gone"
VALUE_BYTES: Final = 50
COLUMNS: Final = pa.schema(
    [(KEY, pa.int64()), (ORDER, pa.int64()), (VALUE, pa.string()), (GONE, pa.bool_())]
)
_DELETES: Final = 0.05
_SPARE: Final = 1.05
_PIECE: Final = 1_000_000
_LETTERS: Final = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz012345", np.uint8)


def snapshot(keys: int, *, piece: int = _PIECE) -> Iterator[pa.Table]:
    """Give commands that insert keys 0, 1, ..., in an order that is none, in pieces."""
    rng = np.random.default_rng(keys)
    for first in range(0, keys, piece):
        count = min(piece, keys - first)
        ids = rng.permutation(np.arange(first, first + count))
        yield _commands(ids, np.zeros(count, bool), rng, first_at=first)


def mixed(count: int, keys: int, seed: int) -> pa.Table:
    """Give so many commands for keys of a collection that began with so many."""
    rng = np.random.default_rng(1000 + seed)
    ids = rng.integers(0, int(keys * _SPARE), count)
    return _commands(ids, rng.random(count) < _DELETES, rng, first_at=keys + seed * 10**9)


def _commands(ids: Any, gone: Any, rng: np.random.Generator, *, first_at: int) -> pa.Table:
    count = len(ids)
    letters = _LETTERS[rng.integers(0, len(_LETTERS), count * VALUE_BYTES, np.uint8)]
    offsets = np.arange(0, (count + 1) * VALUE_BYTES, VALUE_BYTES, dtype=np.int32)
    text: Any = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(letters))
    at = np.arange(first_at, first_at + count)
    text = pc.if_else(pa.array(gone), pa.scalar(None, pa.string()), text)
    return pa.table([pa.array(ids), pa.array(at), text, pa.array(gone)], COLUMNS)


def last_of_each(commands: pa.Table) -> pa.Table:
    """Keep the last command of each key: MERGE refuses two for one."""
    backwards = commands[KEY].to_numpy()[::-1]
    _, index = np.unique(backwards, return_index=True)
    return commands.take(pa.array(len(backwards) - 1 - index))
