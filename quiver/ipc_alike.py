"""Arrow files of one batch each that one writer laid out alike, read many at a time.

What a file of one small batch costs is what is around the batch: footer, schema and the metadata of
each message are followed anew in each file. Files that ``ipc_around`` made of one schema differ in
the lengths of their bodies and in little else. So one is followed, as when it was made; of others
only these lengths are read, for all of them at once, and that every other byte of the footer, and
each one of the metadata that decides, is the same. Arrow then opens each of them and validates it.

The answer goes one way only: files of which this is not plainly so, or in which anything is wrong,
are left out, and ``ipc_file`` says what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.config import LimitsConfig
from quiver.errors import DamagedEntry, InputError
from quiver.ipc import ARROW_FAULTS, check_batch, check_rows
from quiver.ipc_around import FILE_HEAD, FileAround
from quiver.ipc_build import FIRST_BLOCK
from quiver.ipc_file import check_file_schema
from quiver.ipc_messages import file_footer
from quiver.ipc_plain import BLOCK, plain_messages

__all__ = ["FEW", "Alike", "Choose", "read_alike"]

Choose: TypeAlias = Callable[[pa.Schema], tuple[int, ...] | None]
"""Says which columns of a schema are wanted, by place; None is all."""
_Bytes: TypeAlias = npt.NDArray[np.uint8]
_Mask: TypeAlias = npt.NDArray[np.bool_]
_Numbers: TypeAlias = npt.NDArray[np.int64]

_SHAPES_MAX: Final = 8
"""How many layouts are told apart."""
FEW: Final = 3
"""Fewer files of one layout are read one by one sooner than together."""
_COUNT_BYTES: Final = 8
"""Between the blocks of dictionaries and that of the batch."""
_END_BYTES: Final = 8
"""What ends a stream."""
_MAGIC: Final = np.frombuffer(b"ARROW1", np.uint8)
_LENGTH_BYTES: Final = 4
_BEHIND: Final = _LENGTH_BYTES + len(_MAGIC)
_LEAST: Final = len(FILE_HEAD) + _END_BYTES + FIRST_BLOCK + _BEHIND


class Alike(NamedTuple):
    """Batches of one schema, which of the files asked for they are, and which columns they have."""

    places: list[int]
    batches: list[pa.RecordBatch]
    columns: tuple[int, ...] | None


def read_alike(
    data: pa.Buffer,
    files: Sequence[tuple[int, int]],
    *,
    limits: LimitsConfig,
    choose: Choose | None = None,
    validate: bool = True,
    values: bool = True,
) -> list[Alike]:
    """Read the files ``[start, end)`` of a buffer, in ascending order, that are alike and sound.

    Of the columns only those that ``choose`` wants. Without ``validate`` nothing is checked: only
    for bytes that were found good before; without ``values`` no value is. Whatever is not in the
    answer was not believed.
    """
    if len(files) < FEW:
        return []
    view = memoryview(data)
    whole = np.frombuffer(view, np.uint8)
    starts, ends = np.array(files, np.int64).reshape(-1, 2).T
    if starts[0] < 0 or ends[-1] > len(whole) or (starts[1:] < ends[:-1]).any():
        return []
    left = np.flatnonzero(ends - starts >= _LEAST)
    found = []
    for _ in range(_SHAPES_MAX):
        if len(left) < FEW:
            break
        layout = _layout(view[starts[left[0]] : ends[left[0]]])
        fits = np.zeros(len(left), bool)
        if layout is not None:
            fits = layout.fit(view, starts[left], ends[left], validate=validate)
        places = left[fits]
        fits[0] = True  # Whatever it is, it has been looked at.
        left = left[~fits]
        if len(places) < FEW:
            continue
        slices = map(data.slice, starts[places].tolist(), (ends - starts)[places].tolist())
        read = _read(list(slices), limits=limits, choose=choose, validate=validate, values=values)
        if read is not None:
            found.append(Alike(places.tolist(), *read))
    return found


class _Layout(NamedTuple):
    """What files have in common: the bytes at their ends, and the messages in them."""

    tail: _Bytes
    """Footer, length and magic; what is in blocks counts for nothing."""
    blocks: list[slice]
    first: int
    """Where the first message behind the schema is."""
    metadata: list[int]
    """How long each message's metadata is, with all that is in front."""

    def fit(self, data: memoryview, starts: _Numbers, ends: _Numbers, *, validate: bool) -> _Mask:
        """Say which files are laid out so; to ``validate`` is to look at their messages too.

        None of those is compressed then, and each is as long as its block says, in its place.
        """
        whole, size = np.frombuffer(data, np.uint8), len(self.tail)
        fits: _Mask = ends - starts >= len(FILE_HEAD) + _END_BYTES + size
        tails = _rows(whole, np.where(fits, ends - size, 0), size)
        others = tails == self.tail
        for part in self.blocks:
            others[:, part] = True
        fits &= others.all(axis=1)
        if not validate:
            return fits
        blocks: Any = np.concatenate([tails[:, part] for part in self.blocks], axis=1)
        blocks = np.ascontiguousarray(blocks).view(BLOCK)
        offsets, bodies = (blocks[name].astype(np.int64) for name in ("offset", "body"))
        fits &= (blocks["metadata"] == self.metadata).all(axis=1) & (blocks["padding"] == 0).all(1)
        fits &= ((bodies >= 0) & (bodies <= len(whole))).all(axis=1)
        behind = offsets + self.metadata + np.where(fits[:, None], bodies, 0)
        fits &= (offsets[:, 0] == self.first) & (offsets[:, 1:] == behind[:, :-1]).all(axis=1)
        fits &= behind[:, -1] + _END_BYTES + size == ends - starts
        rows = np.flatnonzero(fits)
        placed = blocks[rows].copy()
        placed["offset"] += starts[rows, None]
        plain = plain_messages(data, memoryview(placed.tobytes()))
        fits[rows] = plain.reshape(placed.shape).all(axis=1)
        return fits


def _layout(file: memoryview) -> _Layout | None:
    """Follow one file; None unless it is just what ``FileAround`` makes of the stream in it."""
    try:
        behind, _ = file_footer(file)
    except DamagedEntry:
        return None
    stream = file[len(FILE_HEAD) : behind]
    around = FileAround.of(stream)
    if around is None or bytes(file[behind:]) != around.tail(stream):
        return None
    messages = around.messages
    second = FIRST_BLOCK + BLOCK.itemsize * (len(messages) - 1)
    last = second + _COUNT_BYTES
    return _Layout(
        np.frombuffer(file[behind:], np.uint8),
        [slice(FIRST_BLOCK, second), slice(last, last + BLOCK.itemsize)],
        len(FILE_HEAD) + messages[0].start,
        [message.metadata_bytes for message in messages],
    )


def _rows(whole: _Bytes, places: _Numbers, size: int) -> _Bytes:
    """Copy so many bytes from each place on."""
    each = np.dtype((np.void, size))
    found = np.ndarray((len(whole) - size + 1,), each, whole, strides=(1,))[places]
    return found.view(np.uint8).reshape(len(places), size)


def _read(
    files: Sequence[pa.Buffer],
    *,
    limits: LimitsConfig,
    choose: Choose | None,
    validate: bool,
    values: bool,
) -> tuple[list[pa.RecordBatch], tuple[int, ...] | None] | None:
    """Have Arrow read files that are alike; None if it finds anything wrong with one of them."""
    try:
        readers: list[Any] = [pa.ipc.open_file(file) for file in files]
        if any(reader.num_record_batches != 1 for reader in readers):
            return None
        schema: pa.Schema = readers[0].schema
        if validate:
            check_file_schema(schema, limits)
        batches: list[pa.RecordBatch] = [reader.get_batch(0) for reader in readers]
        columns = None if choose is None else choose(schema)
        if columns is not None:
            batches = [batch.select(columns) for batch in batches]
        for batch in batches if validate else ():
            (check_batch if values else check_rows)(batch, None, limits)
    except (MemoryError, InputError, DamagedEntry, *ARROW_FAULTS):
        return None
    return batches, columns
