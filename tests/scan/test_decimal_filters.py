"""What bounds of decimals leave out holds no row that passes, whatever the filter makes of them."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from quiver.scan.predicate import ColumnFacts, possible

KINDS = [
    pa.decimal32(5, 2),
    pa.decimal32(9, 1),
    pa.decimal64(12, 2),
    pa.decimal64(18, 4),
    pa.decimal128(20, 2),
    pa.decimal256(50, 3),
]
FEW = st.integers(-6, 6).map(lambda n: Decimal(n) / 2)


def facts_of(column):
    known = [value for value in column if value.is_valid]
    if not known:
        return ColumnFacts(all_null=True)
    ends = (choose(known, key=lambda value: value.as_py()) for choose in (min, max))
    return ColumnFacts(*ends, column.null_count > 0)


@st.composite
def terms(draw, fields):
    """A column, or something that Arrow computes of one or two."""
    one, other = draw(st.sampled_from(fields)), draw(st.sampled_from(fields))
    number = pa.scalar(draw(FEW), draw(st.sampled_from(KINDS)))
    return draw(
        st.sampled_from(
            [
                one,
                one,
                one + other,
                one - number,
                one * number,
                one / number,
                one.cast(pa.float64()),
                one.cast(pa.decimal128(30, 4)),
                one.cast(pa.string()),
                pc.negate(one),
                pc.abs(one),
                pc.round(one),
                pc.coalesce(one, other),
            ]
        )
    )


@st.composite
def conditions(draw, fields, depth=2):
    if depth and draw(st.booleans()):
        one, other = (draw(conditions(fields, depth - 1)) for _ in range(2))
        return draw(st.sampled_from([one & other, one | other, ~one]))
    term = draw(terms(fields))
    number = draw(FEW)
    value = draw(
        st.sampled_from(
            [
                *(pa.scalar(number, kind) for kind in KINDS),
                pa.scalar(int(number)),
                pa.scalar(float(number)),
                pa.scalar(str(number)),
            ]
        )
    )
    ways = [term == value, term != value, term < value, term <= value, term > value, term >= value]
    return draw(st.sampled_from([*ways, term.is_null(), term.is_valid()]))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_rows_that_cannot_be_there_are_not(data):
    kinds = data.draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=2))
    names = ["a", "b"][: len(kinds)]
    count = data.draw(st.integers(1, 3))
    values = [st.lists(st.none() | FEW, min_size=count, max_size=count) for _ in kinds]
    columns = [pa.array(data.draw(v), kind) for v, kind in zip(values, kinds, strict=True)]
    table = pa.table(dict(zip(names, columns, strict=True)))
    where = data.draw(conditions([pc.field(name) for name in names]))
    try:
        kept = table.filter(where)
    except pa.ArrowException:
        assume(False)  # A scan refuses it as well, or fails on these very rows.
    facts = {name: facts_of(column) for name, column in zip(names, columns, strict=True)}
    (may,) = possible(where, table.schema, [facts])
    assert may or not kept.num_rows


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_decimals_of_each_width_are_compared_with_their_bounds(kind):
    schema = pa.schema([("a", kind)])
    low, high, out = (pa.scalar(Decimal(n), kind) for n in (2, 5, 9))
    facts = [{"a": ColumnFacts(low, high, may_be_null=False)}]
    field = pc.field("a")
    for where in (
        field == out,
        field > high,
        field < low,
        field >= out,
        (field > low) & ~(field < out),
    ):
        assert possible(where, schema, facts) == [False], where
    for where in (field == low, field >= high, field != low, field.is_valid()):
        assert possible(where, schema, facts) == [True], where
