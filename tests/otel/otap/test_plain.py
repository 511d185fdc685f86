"""Ids out of what senders make of them: as the specification shows, and as Go's sender does."""

import pyarrow as pa
import pytest
from otap_kit import drawn_batch, told

from quiver.errors import InputError
from quiver.otel import Batch, Signal
from quiver.otel.otap.columns import check_columns
from quiver.otel.otap.plain import plain_batch
from quiver.otel.otap.transport import encode_ids

U8, U16, U32 = pa.uint8(), pa.uint16(), pa.uint32()


def said(how: str) -> dict[bytes, bytes]:
    return {b"encoding": how.encode()}


def rows(*columns: tuple[str, pa.Array, str | None]) -> pa.RecordBatch:
    fields = [pa.field(n, a.type, metadata=said(how) if how else None) for n, a, how in columns]
    return pa.record_batch([array for _, array, _ in columns], schema=pa.schema(fields))


def attributes(parents, keys, types, **values) -> pa.RecordBatch:
    columns = [("parent_id", pa.array(parents, U16), None), ("key", pa.array(keys), None)]
    columns += [("type", pa.array(types, U8), None)]
    return rows(*columns, *((name, array, None) for name, array in values.items()))


def test_differences_are_summed_and_nulls_are_no_part_of_it() -> None:
    ids = pa.array([0, None, 1, 1, None, 1], U16)
    plain = plain_batch("logs", rows(("id", ids, None)))
    assert plain["id"].to_pylist() == [0, None, 1, 2, None, 3]
    assert plain.schema.field("id").metadata is None


def test_ids_inside_a_struct_are_too_and_it_keeps_its_nulls() -> None:
    inner = [pa.array([0, None, 0, 1, 1], U16), pa.array(["a", None, "a", "b", "c"])]
    mask = pa.array([False, True, False, False, False])
    resource = pa.StructArray.from_arrays(inner, names=["id", "schema_url"], mask=mask)
    plain = plain_batch("spans", rows(("resource", resource, None)))
    found = [row and row["id"] for row in plain["resource"].to_pylist()]
    assert found == [0, None, 0, 1, 2]
    assert plain["resource"].null_count == 1


def test_parents_of_attributes_grow_while_type_key_and_value_stay() -> None:
    batch = attributes(
        [1] * 16,
        ["k1"] * 5 + ["k2"] * 11,
        [1] * 7 + [2, 2, 0, 0, 5, 5, 6, 6, 1],
        str=pa.array(["v1"] * 3 + ["v2"] * 4 + [None] * 9),
        int=pa.array([None] * 7 + [1, 1] + [None] * 7, pa.int64()),
        ser=pa.array([None] * 11 + [b"\xa0"] * 2 + [b"\x80"] * 2 + [None], pa.binary()),
    )
    check_columns("log_attrs", batch.schema)
    plain = plain_batch("log_attrs", batch)["parent_id"].to_pylist()
    # Empty values, maps, slices and nulls are never the same as the row before.
    assert plain == [1, 2, 3, 1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 1, 1]


def test_a_null_is_not_the_same_as_a_null() -> None:
    batch = attributes([1, 1, 1], ["k"] * 3, [1] * 3, str=pa.array(["a", None, None]))
    assert plain_batch("log_attrs", batch)["parent_id"].to_pylist() == [1, 1, 1]


def test_words_that_are_in_a_dictionary_twice_are_the_same() -> None:
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], U8), pa.array(["a", "a", "b"]))
    batch = attributes([3, 1, 1], ["k"] * 3, [1] * 3, str=words)
    assert plain_batch("span_attrs", batch)["parent_id"].to_pylist() == [3, 4, 1]


@pytest.mark.parametrize(
    ("slot", "groups"),
    [
        ("span_events", {"name": ["a", "a", "b", "b"]}),
        ("span_links", {"trace_id": [b"a" * 16, b"a" * 16, None, None]}),
        ("number_dp_exemplars", {"int_value": [1, 1, None, None], "double_value": [None] * 4}),
    ],
)
def test_parents_of_other_children_go_by_their_columns(slot: str, groups) -> None:
    kinds = {"trace_id": pa.binary(16), "int_value": pa.int64(), "double_value": pa.float64()}
    columns = [(name, pa.array(v, kinds.get(name)), None) for name, v in groups.items()]
    kind = U32 if slot.endswith("exemplars") else U16
    batch = rows(("parent_id", pa.array([2, 1, 0, 5], kind), None), *columns)
    check_columns(slot, batch.schema)
    assert plain_batch(slot, batch)["parent_id"].to_pylist() == [2, 3, 0, 5]


def test_data_points_have_plain_differences_that_wrap_around_as_in_go() -> None:
    batch = rows(("parent_id", pa.array([3, 65535, 0], U16), None))
    assert plain_batch("number_data_points", batch)["parent_id"].to_pylist() == [3, 2, 2]


def test_wide_parents_may_be_a_dictionary() -> None:
    parents = pa.DictionaryArray.from_arrays(pa.array([0, 1], U8), pa.array([7, 1], U32))
    batch = rows(("parent_id", parents, None), ("int_value", pa.array([1, 1]), None))
    check_columns("number_dp_exemplars", batch.schema)
    plain = plain_batch("number_dp_exemplars", batch)["parent_id"]
    assert plain.type == U32
    assert plain.to_pylist() == [7, 8]


def test_what_the_metadata_says_goes_first() -> None:
    batch = rows(("id", pa.array([5, 3], U16), "plain"))
    assert plain_batch("logs", batch)["id"].to_pylist() == [5, 3]
    batch = attributes([1, 1], ["k"] * 2, [1] * 2, str=pa.array(["a", "b"]))
    field = batch.schema.field("parent_id").with_metadata(said("delta"))
    batch = batch.set_column(0, field, batch.column(0))
    assert plain_batch("log_attrs", batch)["parent_id"].to_pylist() == [1, 2]
    stored = rows(("id", pa.array([5, 3], U16), None))
    assert plain_batch("logs", stored, unsaid_is_plain=True)["id"].to_pylist() == [5, 3]


@pytest.mark.parametrize("zone", ["UTC", "+00:00", None])
def test_times_of_any_sender_are_stored_alike_and_sent_as_utc(zone: str | None) -> None:
    times = pa.array([1, None], pa.timestamp("ns", zone))
    batch = rows(("time_unix_nano", times, None))
    check_columns("logs", batch.schema)
    plain = plain_batch("logs", batch)
    assert plain.schema.field(0).type == pa.timestamp("ns")
    sent = encode_ids(Batch(Signal.LOGS, {"logs": plain})).bundle["logs"]
    assert sent.schema.field(0).type == pa.timestamp("ns", "UTC")
    assert sent.column(0).view(pa.int64()).to_pylist() == [1, None]


SAME = pa.array(["v", "v"])


@pytest.mark.parametrize(
    ("slot", "batch", "why"),
    [
        ("logs", rows(("id", pa.array([1, 0], U16), None)), "same id"),
        ("logs", rows(("id", pa.array([1], U16), "zigzag")), "unknown encoding 'zigzag'"),
        ("logs", rows(("id", pa.array([1], U16), "quasidelta")), "unknown encoding"),
        ("log_attrs", attributes([1, None], ["k"] * 2, [1] * 2, str=SAME), "without a value"),
        ("log_attrs", attributes([1, 1], ["k", None], [1] * 2, str=SAME), "without a value"),
        ("log_attrs", attributes([1, 1], ["k"] * 2, [1, None], str=SAME), "without a value"),
        ("log_attrs", attributes([1, 1], ["k"] * 2, [1, 8], str=SAME), "unknown type 8"),
    ],
)
def test_ids_that_cannot_be_are_refused(slot: str, batch: pa.RecordBatch, why: str) -> None:
    with pytest.raises(InputError, match=why):
        plain_batch(slot, batch)


@pytest.mark.parametrize(
    ("slot", "columns", "why"),
    [
        ("logs", {"id": U32}, "logs.id has the type uint32"),
        ("logs", {"id": pa.dictionary(U8, U16)}, "logs.id has the type"),
        ("logs", {"resource": pa.utf8()}, "logs.resource has the type"),
        ("logs", {"resource": pa.struct([("id", U32)])}, "logs.resource.id"),
        ("logs", {"time_unix_nano": pa.timestamp("us")}, "time_unix_nano"),
        ("logs", {"time_unix_nano": pa.timestamp("ns", "Europe/Bern")}, "time_unix_nano"),
        ("logs", {"severity_text": pa.dictionary(pa.int32(), pa.utf8())}, "severity_text"),
        ("logs", {"severity_text": pa.large_utf8()}, "severity_text"),
        ("spans", {"trace_id": pa.binary(8)}, "trace_id"),
        ("log_attrs", {"key": pa.utf8(), "type": U8}, "no column 'parent_id'"),
        ("log_attrs", {"parent_id": U16, "type": U8}, "no column 'key'"),
        ("log_attrs", {"parent_id": U32, "key": pa.utf8(), "type": U8}, "parent_id has the type"),
        ("summary_data_points", {"parent_id": U16, "quantile": pa.list_(U8)}, "quantile"),
        ("histogram_data_points", {"parent_id": U16, "bucket_counts": pa.list_(U8)}, "bucket"),
    ],
)
def test_columns_of_other_types_are_refused(slot: str, columns, why: str) -> None:
    with pytest.raises(InputError, match=why):
        check_columns(slot, pa.schema(list(columns.items())))


def test_a_column_that_is_there_twice_is_refused_and_one_that_nobody_knows_is_kept() -> None:
    with pytest.raises(InputError, match="two columns"):
        check_columns("logs", pa.schema([("id", U16), ("id", U16)]))
    check_columns("logs", pa.schema([("id", U16), ("of_tomorrow", pa.list_(pa.utf8()))]))


def test_a_scope_that_resources_share_keeps_its_attributes_in_each() -> None:
    resource = pa.StructArray.from_arrays([pa.array([0, 1, 0, 1], U16)], names=["id"])
    scope = pa.StructArray.from_arrays([pa.array([9, 9, 4, 4], U16)], names=["id"])
    logs = rows(("id", pa.array([3, 2, 1, 0], U16), None), ("resource", resource, None))
    logs = logs.append_column("scope", scope)
    slots = {
        "logs": logs,
        "scope_attrs": attributes([9, 4], ["a", "b"], [1, 1], str=pa.array(["x", "y"])),
        # The second hangs from nothing, and is left out.
        "log_attrs": attributes([2, 7], ["c", "d"], [1, 1], str=pa.array(["z", "z"])),
    }
    sent = encode_ids(Batch(Signal.LOGS, slots)).bundle
    assert sent["scope_attrs"].num_rows == 4
    assert sent["log_attrs"].num_rows == 1
    plain = {slot: plain_batch(slot, each) for slot, each in sent.items()}
    assert plain["logs"]["id"].to_pylist() == [0, 1, 2, 3]
    kept = {**slots, "log_attrs": slots["log_attrs"].slice(0, 1)}
    assert told(Batch(Signal.LOGS, plain)) == told(Batch(Signal.LOGS, kept))


def test_what_tells_batches_apart_sees_a_parent_that_is_wrong() -> None:
    batch = drawn_batch(Signal.LOGS, 7)
    moved = dict(batch.bundle)
    parents = moved["log_attrs"]["parent_id"].to_pylist()
    parents[0] = next(each for each in parents if each != parents[0])
    moved["log_attrs"] = moved["log_attrs"].set_column(0, "parent_id", pa.array(parents, U16))
    assert told(Batch(Signal.LOGS, moved)) != told(batch)
    # And that ids as they travel are not ids as they are.
    sent = encode_ids(batch)
    unread = {slot: plain_batch(slot, each) for slot, each in sent.bundle.items()}
    unread["log_attrs"] = sent.bundle["log_attrs"]
    assert told(Batch(Signal.LOGS, unread)) != told(batch)
