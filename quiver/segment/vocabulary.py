"""Vocabularies: the dictionaries that many chunks bring to one place, as one list of words.

Each value of each dictionary gets a number: two have the same if they are the same bit for bit,
nulls and NaN included. With these numbers it is cheap to say what a stream's dictionary would be.

===========================  ====================================================================
dictionaries of a stream     its vocabulary
===========================  ====================================================================
each a prefix of the next    the longest one as it is, even if it has a value twice; no index
                             changes
of any values in any order   each value once, in order of first appearance
ordered, or of values that   may only be prefixes of each other: another one begins a new stream
cannot be numbered
===========================  ====================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from quiver.arrays import integers
from quiver.casts.picking import rows_at
from quiver.segment.tables import Column

__all__ = ["Numbers", "United", "Vocabulary", "comparison", "divide", "numbers_of"]

Numbers: TypeAlias = npt.NDArray[np.int64]

_WORD: Final = 8
"""Bytes of a number."""


@dataclass(frozen=True, slots=True)
class United:
    """What a stream makes of its chunks' dictionaries.

    ``words`` is the vocabulary. Entry ``i`` of a chunk's dictionary is word ``table[base + i]``,
    with the base of that chunk; if ``table`` is None it is word ``i``.
    """

    words: Column
    table: Numbers | None
    bases: Numbers


class Vocabulary:
    """The dictionaries of one place in chunks 0, 1, ..., and how many of them fit together.

    ``addressable`` is how many words the declared index type can tell apart.
    """

    def __init__(self, dictionaries: Sequence[Column], *, ordered: bool, addressable: int) -> None:
        """Give all values of all dictionaries numbers."""
        self._distinct: list[Column] = []
        self._which: list[int] = []
        same = comparison(dictionaries[0].type)
        for each in dictionaries:
            if not self._distinct or not same(each, self._distinct[-1]):
                self._distinct.append(each)
            self._which.append(len(self._distinct) - 1)
        self._fixed = ordered
        self._addressable = addressable
        self._number()
        self._marks = np.full(self._total, -1, np.int64)
        self._stream = -1
        self.start()

    def _number(self) -> None:
        """Give the values numbers, those of dictionaries that cannot be taken apart as wholes."""
        self._starts = [0, *accumulate(map(len, self._distinct))]
        if len(self._distinct) == 1:
            self._numbers: Numbers = np.arange(self._starts[-1])
        else:
            try:
                self._values = pa.concat_arrays(self._distinct)
                self._numbers = numbers_of(self._values)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                self._fixed = True
                self._numbers = self._whole_numbers()
        self._total = int(self._numbers.max(initial=-1)) + 1

    def _numbers_of(self, which: int) -> Numbers:
        return self._numbers[self._starts[which] : self._starts[which + 1]]

    def _whole_numbers(self) -> Numbers:
        first: dict[tuple[object, ...], int] = {}
        places = [first.setdefault(_bits(each), i) for i, each in enumerate(self._distinct)]
        spans = [np.arange(len(each)) for each in self._distinct]
        return np.concatenate([self._starts[i] + s for i, s in zip(places, spans, strict=True)])

    def always_fits(self, cardinality: int) -> bool:
        """Whether all chunks can share one stream as far as this place is concerned."""
        if len(self._distinct) == 1:
            return True
        return not self._fixed and self._total <= min(cardinality, self._addressable)

    def start(self) -> None:
        """Begin an empty stream."""
        self._stream += 1
        self._count = 0
        self._longest = np.empty(0, np.int64)
        self._prefixes = True
        self._members: set[int] = set()

    def fits(self, chunk: int, cardinality: int) -> bool:
        """Whether a chunk can join the stream that was begun; one that is empty takes any."""
        which = self._which[chunk]
        if not self._members or which in self._members:
            return True
        numbers = self._numbers_of(which)
        if self._prefixes and _is_prefix(numbers, self._longest):
            return len(numbers) <= max(cardinality, len(self._longest))
        if self._fixed:
            return False
        new = self._new_words(numbers).size
        count = self._count + new
        return (not new or count <= cardinality) and count <= self._addressable

    def add(self, chunk: int) -> None:
        """Let a chunk join the stream."""
        which = self._which[chunk]
        if which in self._members:
            return
        numbers = self._numbers_of(which)
        self._prefixes = self._prefixes and _is_prefix(numbers, self._longest)
        if len(numbers) > len(self._longest):
            self._longest = numbers
        new = self._new_words(numbers)
        self._marks[new] = self._stream
        self._count += new.size
        self._members.add(which)

    def _new_words(self, numbers: Numbers) -> Numbers:
        return np.unique(numbers[self._marks[numbers] != self._stream])

    def unite(self, chunks: range) -> United:
        """Make the vocabulary of a stream of these chunks."""
        which = self._which[chunks.start : chunks.stop]
        first, last = which[0], which[-1] + 1
        longest = max(range(first, last), key=lambda i: len(self._distinct[i]))
        words = self._numbers_of(longest)
        if all(_is_prefix(self._numbers_of(i), words) for i in range(first, last)):
            return United(self._distinct[longest], None, np.zeros(len(chunks), np.int64))
        starts = np.array(self._starts)
        table = self._numbers[starts[first] : starts[last]]
        if first:
            table = _by_appearance(pa.array(table))
        # A word is new where its number exceeds all before it.
        highest = np.maximum.accumulate(table)
        firsts = np.flatnonzero(np.diff(highest, prepend=-1))
        picked = _pick(self._values, firsts + starts[first])
        return United(picked, table, starts[which] - starts[first])


def divide(vocabularies: Sequence[Vocabulary], chunk_count: int, cardinality: int) -> list[range]:
    """Divide chunks into streams, each filled in order as far as all vocabularies allow."""
    busy = [each for each in vocabularies if not each.always_fits(cardinality)]
    if not busy:
        return [range(chunk_count)]
    streams, begin = [], 0
    for chunk in range(chunk_count):
        if not all(each.fits(chunk, cardinality) for each in busy):
            streams.append(range(begin, chunk))
            begin = chunk
            for each in busy:
                each.start()
        for each in busy:
            each.add(chunk)
    return [*streams, range(begin, chunk_count)]


def _is_prefix(one: Numbers, other: Numbers) -> bool:
    """Whether one of the two is the beginning of the other, or equal."""
    length = min(len(one), len(other))
    return np.array_equal(one[:length], other[:length])


def comparison(kind: Any) -> Callable[[Column, Column], bool]:  # noqa: ANN401
    """Find out how to tell that two arrays of a type are the same bit for bit, or may not be."""
    exact = kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_integer(kind)
    return _equal if exact else _same_bits


def _equal(one: Column, other: Column) -> bool:
    return bool(one.equals(other))


def _same_bits(one: Column, other: Column) -> bool:
    """Whether two arrays of one type are surely the same, from their buffers."""
    if len(one) != len(other) or one.offset or other.offset:
        return False
    ours, theirs = one.buffers(), other.buffers()
    return len(ours) == len(theirs) and all(
        (a is None and b is None) or (a is not None and b is not None and a.equals(b))
        for a, b in zip(ours, theirs, strict=True)
    )


def _bits(array: Column) -> tuple[object, ...]:
    buffers = [None if each is None else each.to_pybytes() for each in array.buffers()]
    return len(array), array.offset, *buffers


def _pick(values: Column, places: Numbers) -> Column:
    try:
        return rows_at(values, places)
    except pa.ArrowNotImplementedError:  # Of views, for instance.
        return pa.concat_arrays([values.slice(place, 1) for place in places.tolist()])


def numbers_of(array: Column) -> Numbers:
    """Give values numbers in order of first appearance, equal ones for equal bits, nulls too.

    ``array`` was made by concatenation, so nothing in it is a slice. Raises
    ArrowNotImplementedError for types that cannot be taken apart: unions, runs, views of lists,
    dictionaries in dictionaries.
    """
    kind, count = array.type, len(array)
    if kinds.is_null(kind) or not count:
        return np.zeros(count, np.int64)
    if kinds.is_struct(kind):
        children = [numbers_of(array.field(index)[:count]) for index in range(kind.num_fields)]
        return _number_rows(array, np.array(children, np.int64).T.reshape(count, -1))
    if kinds.is_fixed_size_list(kind):
        child = numbers_of(array.values)[: count * kind.list_size]
        return _number_rows(array, child.reshape(count, -1))
    if kinds.is_map(kind):
        pairs = np.stack([numbers_of(array.keys), numbers_of(array.items)], axis=1)
        return _number_runs(array, pairs, np.int32)
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        child = numbers_of(array.values).reshape(-1, 1)
        return _number_runs(array, child, np.int32 if kinds.is_list(kind) else np.int64)
    if kind.num_fields or isinstance(kind, pa.DictionaryType | pa.BaseExtensionType):
        raise pa.ArrowNotImplementedError(f"values of {kind} have no numbers")
    return _by_appearance(_as_bytes(array))


def _as_bytes(array: Column) -> Column:
    """See numbers whose equality is not that of their bits, or that have no hash, as bytes."""
    kind = array.type
    if kinds.is_floating(kind) or kinds.is_decimal(kind) or kinds.is_interval(kind):
        return array.view(pa.binary(kind.bit_width // 8))
    return array


def _number_rows(array: Column, rows: Numbers) -> Numbers:
    """Give rows of the same number of values each numbers, by the numbers of these."""
    whole = np.ascontiguousarray(rows)
    kind = pa.binary(_WORD * whole.shape[1])
    return _by_appearance(
        pa.Array.from_buffers(kind, len(array), [array.buffers()[0], pa.py_buffer(whole.data)])
    )


def _number_runs(array: Column, rows: Numbers, offset_type: Any) -> Numbers:  # noqa: ANN401
    """Give lists numbers, by the numbers of what is in them."""
    whole = np.ascontiguousarray(rows)
    offsets = np.frombuffer(array.buffers()[1], offset_type, len(array) + 1).astype(np.int64)
    places = pa.py_buffer((offsets * (_WORD * whole.shape[1])).data)
    buffers = [array.buffers()[0], places, pa.py_buffer(whole.data)]
    return _by_appearance(pa.Array.from_buffers(pa.large_binary(), len(array), buffers))


def _by_appearance(array: Column) -> Numbers:
    encoded: Any = pc.dictionary_encode(array, null_encoding="encode")
    return integers(encoded.indices)
