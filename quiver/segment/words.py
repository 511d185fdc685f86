"""The words of one dictionary column of a stream, as they come: each once, in order of appearance.

The rest of ``dictionaries`` looks at all chunks of a stream at once. Here a stream grows chunk by
chunk, and a chunk's indices are final once it is in: only their width grows with the words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from quiver.casts.picking import rows_at
from quiver.schemas import Field, Kind, is_extension
from quiver.segment.dictionaries import addressable, narrow_index
from quiver.segment.tables import Column
from quiver.segment.vocabulary import Numbers, comparison, numbers_of

__all__ = ["Survey", "Words", "can_grow"]


def can_grow(field: Field) -> bool:
    """Whether the dictionaries of a column can be united one after the other.

    They can if the column itself is the only dictionary, has no order, and its values are of a
    type without children that pyarrow tells apart by bytes.
    """
    kind = field.type
    if is_extension(field) or not isinstance(kind, pa.DictionaryType) or kind.ordered:
        return False
    return _is_simple(kind.value_type)


def _is_simple(kind: Kind) -> bool:
    if kinds.is_fixed_size_binary(kind):
        return bool(kind.byte_width)
    return bool(
        kinds.is_integer(kind)
        or kinds.is_floating(kind)
        or kinds.is_decimal(kind)
        or kinds.is_boolean(kind)
        or (kinds.is_temporal(kind) and not kinds.is_interval(kind))
        or kinds.is_string(kind)
        or kinds.is_large_string(kind)
        or kinds.is_binary(kind)
        or kinds.is_large_binary(kind)
    )


@dataclass(frozen=True, slots=True)
class Survey:
    """What the words of some chunks would become in the stream, the first ones of which may fit.

    ``table`` has the new index of each value of the chunks' dictionaries, put one after the other
    where they differ; a chunk's own are ``[start, end)`` of it. ``counts`` says how many words the
    stream has once each chunk is in.
    """

    known: Column
    fresh: Column
    table: Numbers
    starts: Numbers
    ends: Numbers
    counts: Numbers


class Words:
    """The words of one column so far. Not safe for several threads at once."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.values: Column = None
        """None before the first chunk."""
        self._same = comparison(kind.value_type)
        self._dtype: Any = kind.index_type.to_pandas_dtype()

    @property
    def count(self) -> int:
        """How many there are."""
        return 0 if self.values is None else len(self.values)

    @property
    def index_type(self) -> Kind:
        """The index type that is stored: the narrowest that tells the words apart."""
        return narrow_index(self.kind, self.count)

    def survey(self, arrays: Sequence[Column]) -> Survey:
        """Give the words of chunks numbers behind those that are in.

        Raises ArrowInvalid if they are too much text for one array.
        """
        distinct: list[Column] = []
        which = []
        for array in arrays:
            each = array.dictionary
            if not distinct or not self._same(each, distinct[-1]):
                distinct.append(each)
            which.append(len(distinct) - 1)
        known = distinct[0] if self.values is None else self.values
        values = _concat(distinct if self.values is None else [known, *distinct])
        numbers = numbers_of(values)
        head, rest = numbers[: len(known)], numbers[self.count :]
        lengths = np.array([len(each) for each in distinct])
        behind = np.cumsum(lengths)
        highest = np.maximum.accumulate(np.concatenate(([head.max(initial=-1)], rest)))
        fresh = rows_at(values, np.flatnonzero(np.diff(highest)) + self.count)
        counts = len(known) + highest - highest[0]
        chunk = np.array(which)
        return Survey(
            known,
            fresh,
            _places(head, rest, lengths),
            (behind - lengths)[chunk],
            behind[chunk],
            counts[behind[chunk]],
        )

    def fitting(self, survey: Survey, cardinality: int) -> int:
        """Say how many of the chunks fit into the stream, in their order."""
        counts = survey.counts
        before = np.concatenate(([self.count], counts[:-1]))
        fits = (counts == before) | (counts <= cardinality)
        room = addressable(self.kind.index_type)
        for chunk in np.flatnonzero(fits & (counts > room)).tolist():
            part = survey.table[survey.starts[chunk] : survey.ends[chunk]]
            # Its indices stay as they are, so that they surely have room.
            fits[chunk] = counts[chunk] == before[chunk] and np.array_equal(
                part, np.arange(len(part))
            )
        if self.values is None:
            fits[0] = True  # One chunk alone always fits.
        refused = np.flatnonzero(~fits)
        return int(refused[0]) if len(refused) else len(counts)

    def take(self, arrays: Sequence[Column], survey: Survey) -> list[Column]:
        """Take chunks in, of which ``survey`` may tell more; their new indices."""
        count = int(survey.counts[len(arrays) - 1])
        new = survey.fresh[: count - len(survey.known)]
        self.values = _concat([survey.known, new]) if len(new) else survey.known
        index_type = self.index_type
        table = survey.table.astype(index_type.to_pandas_dtype())
        # Chunk by chunk, in little memory: to touch much that is new costs more than the calls.
        ends = np.cumsum([len(array) for array in arrays]).tolist()
        found = np.empty(ends[-1], table.dtype)
        spans = zip(survey.starts.tolist(), survey.ends.tolist(), strict=True)
        nothing = np.zeros(1, table.dtype)  # Where all indices are null.
        columns, begin = [], 0
        for array, span, end in zip(arrays, spans, ends, strict=False):
            indices = array.indices
            validity, data = indices.buffers()
            if end > begin:
                places = np.frombuffer(data, self._dtype, end - begin)
                # What stands in place of a null may be any number.
                words = table[slice(*span)] if span[0] < span[1] else nothing
                np.take(words, places, out=found[begin:end], mode="clip")
            buffers = [validity, pa.py_buffer(found[begin:end].data)]
            columns.append(pa.Array.from_buffers(index_type, end - begin, buffers))
            begin = end
        return columns


def _concat(arrays: Sequence[Column]) -> Column:
    return pa.concat_arrays(arrays)


def _places(head: Numbers, rest: Numbers, lengths: Numbers) -> Numbers:
    """Say where each value of dictionaries will be among the words, which ``head`` begins.

    Equal numbers are equal words. A word that is in ``head`` twice, since a stream's first
    dictionary stays as it is, means its first place; but a dictionary that is the beginning of all
    words keeps its indices.
    """
    known = int(head.max(initial=-1)) + 1
    places = rest + (len(head) - known)
    if known == len(head):
        return places
    first = np.unique(head, return_index=True)[1]
    places = np.where(rest < known, first[np.minimum(rest, known - 1)], places)
    within = np.arange(len(rest)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    words = np.concatenate((head, np.arange(known, rest.max(initial=-1) + 1)))
    padded = np.concatenate((words, np.full(max(0, within.max(initial=0) + 1 - len(words)), -1)))
    owner = np.repeat(np.arange(len(lengths)), lengths)
    wrong = np.bincount(owner, padded[within] != rest, minlength=len(lengths))
    return np.where(wrong[owner] == 0, within, places)
