"""Bounds of decimals: of every width, of streams and chunks, against the values themselves."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.segment.bounds import ColumnBounds, agrees, column_bounds

KINDS = [
    pa.decimal32(5, 2),
    pa.decimal32(9, -2),
    pa.decimal64(18, 0),
    pa.decimal128(19, 3),
    pa.decimal128(38, 10),
    pa.decimal256(76, 0),
]


def values_of(kind):
    """Values of a type, as integers without their scale: mostly small ones, and its extremes."""
    most = 10**kind.precision - 1
    return st.integers(-9, 9) | st.integers(-most, most) | st.sampled_from([-most, most])


@st.composite
def columns(draw):
    kind = draw(st.sampled_from(KINDS))
    parts = draw(st.lists(st.lists(st.none() | values_of(kind), max_size=4), max_size=5))
    return kind, parts


def array(kind, values):
    """A column of these integers; behind a value that does not count, for it has an offset."""
    width = kind.bit_width // 8
    data = b"".join((value or 0).to_bytes(width, "little", signed=True) for value in [-5, *values])
    bits = sum(1 << place for place, value in enumerate(values, 1) if value is not None)
    valid = pa.py_buffer(bits.to_bytes(len(values) // 8 + 1, "little"))
    whole = pa.Array.from_buffers(kind, len(values) + 1, [valid, pa.py_buffer(data)])
    whole.validate(full=True)
    return whole.slice(1)


def bounds_of(kind, *parts):
    chunks = [array(kind, part) for part in parts]
    (found,) = column_bounds(pa.table({"d": pa.chunked_array(chunks, kind)}))
    return found


def read(kind, bounds):
    """The least values and the greatest, as integers."""
    if bounds is None:
        return None
    width = kind.bit_width // 8
    return tuple(
        [
            int.from_bytes(data[at : at + width], "little", signed=True)
            for at in range(0, len(data), width)
        ]
        for data in bounds
    )


def ends(values):
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else None


@given(columns())
def test_bounds_of_a_stream_and_of_its_chunks_are_those_of_their_values(drawn):
    kind, parts = drawn
    found = bounds_of(kind, *parts)
    values = [value for part in parts for value in part if value is not None]
    assert read(kind, found.stream) == (([min(values)], [max(values)]) if values else None)
    if any(not -(2**63) <= value < 2**63 for value in values) or not values:
        assert found.chunks is None
        return
    lows, highs = read(kind, found.chunks)
    assert len(lows) == len(highs) == len(parts)
    for low, high, part in zip(lows, highs, parts, strict=True):
        assert ends(part) in ((low, high), None)


@pytest.mark.parametrize("kind", [pa.decimal128(38, 0), pa.decimal256(76, 0)], ids=str)
def test_chunks_have_bounds_if_eight_bytes_are_enough_for_all_values(kind):
    parts = [[-(2**63)], [2**63 - 1], [None, 0]]
    assert read(kind, bounds_of(kind, *parts).chunks)[0] == [-(2**63), 2**63 - 1, 0]
    for wide in (2**63, -(2**63) - 1, 2**64, 2**100):
        found = bounds_of(kind, *parts, [wide])
        assert found.chunks is None
        assert [wide] in read(kind, found.stream)


def test_what_lies_below_a_null_does_not_count():
    kind = pa.decimal128(38, 0)
    data = (1).to_bytes(16, "little") + (2**100).to_bytes(16, "little")
    column = pa.Array.from_buffers(kind, 2, [pa.py_buffer(b"\x01"), pa.py_buffer(data)])
    (found,) = column_bounds(pa.table({"d": column}))
    assert read(kind, found.stream) == read(kind, found.chunks) == ([1], [1])


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_decimals_in_dictionaries_have_bounds_of_the_stream(kind):
    column = pa.DictionaryArray.from_arrays(pa.array([0, 2], pa.int8()), array(kind, [3, -2, None]))
    (found,) = column_bounds(pa.table({"d": column}))
    assert found.chunks is None
    assert read(kind, found.stream) == ([-2], [3])


def test_bounds_that_an_earlier_release_did_not_know_are_no_damage(shelf, monkeypatch):
    batch = pa.record_batch({"d": pa.array([Decimal("1.5")], pa.decimal32(5, 1))})
    none = [ColumnBounds()]
    with monkeypatch.context() as patch:
        patch.setattr("quiver.segment.bounds.RunningBounds.found", lambda _: none[0])
        info = shelf.write({0: batch})
    with shelf.read(info) as reader:
        assert reader.index.columns(0, 1) == none
        reader.verify()


def test_other_bounds_than_those_of_the_values_do_not_agree():
    one, other = (b"a", b"b"), (b"a", b"c")
    assert agrees(ColumnBounds(one, other), ColumnBounds(one, other))
    assert agrees(ColumnBounds(None, None), ColumnBounds(one, other))
    assert not agrees(ColumnBounds(other), ColumnBounds(one))
    assert not agrees(ColumnBounds(one, one), ColumnBounds(one, other))
    assert not agrees(ColumnBounds(one), ColumnBounds())
