"""What becomes of columns that are not those of the collection."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from quiver.errors import ConfigError, InputError
from quiver.spark.upsert.fitting import fit
from quiver.upsert.rows import Definition


def definition(key: dict[str, Any], **value: Any) -> Definition:
    return Definition(pa.schema(list(key.items())), pa.schema(list(value.items())), 4)


KEY = {"k": pa.int64()}
KNOWN = definition(KEY, a=pa.int32(), s=pa.string())


def test_the_same_columns_and_fewer_of_them_fit_as_they_are() -> None:
    assert fit(KNOWN, KNOWN) is KNOWN
    assert fit(KNOWN, definition(KEY, s=pa.string())) is KNOWN
    assert fit(KNOWN, definition({"k": pa.int16()}, a=pa.int8())) is KNOWN


def test_what_is_wider_or_new_widens_the_value() -> None:
    found = fit(KNOWN, definition(KEY, a=pa.int64(), t=pa.bool_()))
    assert dict(zip(found.value.names, found.value.types, strict=True)) == {
        "a": pa.int64(),
        "s": pa.string(),
        "t": pa.bool_(),
    }
    assert found.key == KNOWN.key


def test_what_does_not_fit_ends_the_query_or_becomes_errors() -> None:
    wanted = definition(KEY, a=pa.string(), s=pa.string(), t=pa.bool_())
    with pytest.raises(InputError, match="column 'a' does not fit into the collection"):
        fit(KNOWN, wanted)
    found = fit(KNOWN, wanted, misfit="error")
    assert found.value.field("a").type == pa.int32()
    assert found.value.names == ["a", "s", "t"]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ({"k": pa.int64(), "j": pa.int64()}, "the collection has k, not k, j"),
        ({"x": pa.int64()}, "the collection has k, not x"),
        ({"k": pa.string()}, "column 'k' is int64 in the collection and comes as string"),
        ({"k": pa.float64()}, "column 'k' is int64 in the collection and comes as double"),
    ],
)
def test_another_key_is_refused_whatever_is_said(key: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        fit(KNOWN, definition(key, a=pa.int32()), misfit="error")
