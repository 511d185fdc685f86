"""Every type comes back from every format with its values, or is refused by name."""

from __future__ import annotations

import io
import json

import every_type
import export_kit
import pyarrow as pa
import pytest

from quiver.errors import CapacityError, InputError
from quiver.export.formats import FORMATS, check_schema, holds_one_batch, write_rows
from quiver.export.text import json_rows

WORDS = pa.dictionary(pa.int8(), pa.string())


def written(kind: str, *batches: pa.RecordBatch) -> bytes:
    check_schema(kind, batches[0].schema)
    file = io.BytesIO()
    write_rows(kind, file.write, batches)
    return file.getvalue()


def texts(*batches: pa.RecordBatch) -> list[str]:
    """Give rows as text, which knows neither dictionaries nor units of time."""
    return [row for batch in batches for row in json_rows(batch)]


@pytest.mark.parametrize("kind", every_type.TYPES, ids=map(str, range(len(every_type.TYPES))))
def test_three_batches_of_a_type_come_back_with_their_values(kind) -> None:
    schema = pa.schema([pa.field("c", kind, metadata={"k": "v"})], metadata={"a": "b"})
    columns = [every_type.column(kind, number) for number in range(3)]
    batches = [pa.RecordBatch.from_arrays([column], schema=schema) for column in columns]
    one_by_one = holds_one_batch("arrow", schema)
    for group in [[batch] for batch in batches] if one_by_one else [batches]:
        table = export_kit.read(".arrow", written("arrow", *group))
        assert texts(*table.to_batches()) == texts(*group)
        assert table.schema.metadata == {b"a": b"b"}
        assert table.schema.field("c").metadata[b"k"] == b"v"
        if one_by_one or not pa.types.is_dictionary(kind):
            assert len(group) > 1 or table.schema.field("c").type == kind
    try:
        data = written("parquet", *batches)
    except InputError as error:
        refusal = str(error)
    else:
        refusal = "Parquet cannot hold column 'c': "
        assert texts(*export_kit.read(".parquet", data).to_batches()) == texts(*batches)
    assert refusal.startswith("Parquet cannot hold column 'c': ")


@pytest.mark.parametrize("to", FORMATS)
def test_common_values_come_back_from_each_format(to) -> None:
    batch = pa.record_batch(
        {
            "n": pa.array([1, None, -(1 << 50)], pa.int64()),
            "word": pa.array(["a", None, 'quo"ted, and\nmore']).dictionary_encode(),
            "at": pa.array([0, None, 1_700_000_000_123_456_789], pa.timestamp("ns", "UTC")),
            "x": pa.array([1.5, None, 0.1]),
            "flag": pa.array([True, None, False]),
        }
    )
    table = export_kit.read(f".{to}", written(to, batch, batch))
    if to in ("parquet", "arrow"):
        assert table.schema.equals(batch.schema)
        assert table.to_pylist() == pa.Table.from_batches([batch, batch]).to_pylist()
        return
    expected = [json.loads(row) for row in texts(batch, batch)]
    if to == "csv":
        found = [{k: v or None for k, v in row.items()} for row in table.to_pylist()]
        expected = [
            {k: None if v is None else str(v).replace("True", "true").replace("False", "false")
             for k, v in row.items()}
            for row in expected
        ]  # fmt: skip
        assert found == expected
    else:
        assert table.to_pylist() == expected


def words(*values: str | None) -> pa.RecordBatch:
    return pa.record_batch({"w": pa.array(values).dictionary_encode().cast(WORDS)})


@pytest.mark.parametrize("to", ["parquet", "arrow"])
def test_words_of_many_bundles_are_more_than_a_narrow_index_counts(to) -> None:
    """Such a Parquet file is written by pyarrow and cannot be read by it."""
    batches = [words(*(f"{number}-{word}" for word in range(100))) for number in range(5)]
    table = export_kit.read(f".{to}", written(to, *batches))
    assert table.schema.field("w").type == pa.dictionary(pa.int32(), pa.string())
    assert table["w"].to_pylist() == [v for b in batches for v in b["w"].to_pylist()]


def test_the_type_of_a_column_does_not_depend_on_how_many_bundles_share_a_file() -> None:
    for to in ("parquet", "arrow"):
        one, two = (
            export_kit.read(f".{to}", written(to, *batches)).schema
            for batches in ([words("a")], [words("a"), words("b", None)])
        )
        assert one == two


def test_nested_columns_are_no_csv() -> None:
    for kind in (pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.map_("string", "int8")):
        with pytest.raises(InputError, match=r"CSV cannot hold column 'c': .* is nested"):
            check_schema("csv", pa.schema([("c", kind)]))


@pytest.mark.parametrize("to", ["parquet", "csv"])
def test_rows_without_columns_are_refused_where_they_would_be_lost(to) -> None:
    with pytest.raises(InputError, match="rows without columns"):
        check_schema(to, pa.schema([]))


@pytest.mark.parametrize("to", ["arrow", "ndjson"])
def test_rows_without_columns_are_kept_elsewhere(to) -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
    data = written(to, batch)
    if to == "arrow":
        assert sum(found.num_rows for found in pa.ipc.open_file(data).read_all().to_batches()) == 2
    else:
        assert data == b"{}\n{}\n"


def test_names_that_are_there_twice_are_no_json() -> None:
    schema = pa.schema([("a", "int8"), ("a", "int8")])
    with pytest.raises(InputError, match="'a' is there twice"):
        check_schema("ndjson", schema)


@pytest.mark.parametrize("number", [1 << 62, -(1 << 62)])
def test_seconds_that_parquet_has_no_room_for_are_refused(number) -> None:
    batch = pa.record_batch({"at": pa.array([number], pa.timestamp("s"))})
    with pytest.raises(InputError, match="Parquet cannot hold column 'at'"):
        written("parquet", batch)


@pytest.mark.parametrize("to", FORMATS)
def test_what_the_disk_raises_comes_through(to) -> None:
    def refuse(_: object) -> None:
        raise CapacityError("the disk is full")

    batch = pa.record_batch({"n": list(range(100_000))})
    with pytest.raises(CapacityError, match="the disk is full"):
        write_rows(to, refuse, [batch, batch])
