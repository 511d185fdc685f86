"""Which columns an expression uses: all that it does, and no others where that can be told."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from quiver.scan.expressions import columns_of, mentioned

SCHEMA = pa.schema(
    [
        ("a", pa.int64()),
        ("data", pa.string()),
        ("s", pa.struct([("p", pa.int64())])),
        ("d", pa.dictionary(pa.int8(), pa.string())),
        ("t.u", pa.int32()),
    ]
)


@pytest.mark.parametrize(
    "expression, names",
    [
        (pc.field("data") == "a", ["data"]),
        (pc.field("s", "p") > 1, ["s"]),
        (pc.field(1) == "x", SCHEMA.names),
        (pc.scalar(True), []),
        (pc.field("t.u") + pc.field("a"), ["a", "t.u"]),
        (pc.field("d").isin(["x", "a"]) & pc.field("a").is_valid(), ["a", "d"]),
        (pc.field("data") == "FieldPath", ["data"]),
        (pc.field("data") == "FieldPath(", SCHEMA.names),
    ],
    ids=str,
)
def test_the_columns_of_an_expression_are_found(expression, names) -> None:
    assert columns_of(expression, SCHEMA) == names


def test_an_expression_that_fits_no_schema_is_refused() -> None:
    with pytest.raises(pa.ArrowInvalid, match="zz"):
        columns_of(pc.field("zz") > 1, SCHEMA)


@pytest.mark.parametrize(
    "expression, names",
    [
        (pc.field("zz") > 1, ["zz"]),
        (pc.field("data") == "zz", ["data", "a", "t", "zz"]),
        (pc.field("t.u") > 1, ["t.u", "t"]),
        (pc.field(1) == "x", ["data", "a", "t.u", "t", "zz"]),
    ],
    ids=str,
)
def test_without_a_schema_too_many_columns_are_named_and_never_too_few(expression, names) -> None:
    assert mentioned(expression, ["data", "a", "t.u", "t", "zz", "a"]) == names
