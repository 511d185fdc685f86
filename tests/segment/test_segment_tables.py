from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from quiver.config import LimitsConfig
from quiver.errors import DamagedEntry, VersionError
from quiver.ipc import encode_file
from quiver.segment.directory import Description, decode_directory, encode_directory
from quiver.segment.format import Footer
from quiver.segment.manifest import Manifest
from quiver.segment.tables import BundleEntry, SlotRef
from quiver.slots import SlotTable
from tests.kit.manifests import A_STREAM, manifest_of

FIRST = A_STREAM
SECOND = replace(FIRST, stream_id=4, slot_id=63, byte_offset=128, event_ns_min=1, event_ns_max=2)
ABOUT = Description("id", 2, 7, SlotTable.of(["events"]))
FOOTER = Footer(2, 3, 228, 50, 278, 50)
END = 328
SCHEMA = pa.schema([("a", pa.int64())])

BUNDLES = [
    BundleEntry(0, (SlotRef(0, 0, 0), SlotRef(63, 4, 2)), 10, 5, None, None, 80),
    BundleEntry(1, (), 11, 6, 1, 2, 0),
    BundleEntry(2, (SlotRef(63, 4, 0),), 12, 6, None, None, None),
]


def decode(streams, footer=FOOTER):
    return decode_directory(encode_directory(streams, ABOUT, {0: SCHEMA}), footer, end=END)


def with_metadata(key: bytes, value: bytes | None) -> pa.Buffer:
    """A good directory, but for one value of its metadata."""
    file = pa.ipc.open_file(encode_directory([FIRST, SECOND], ABOUT, {0: SCHEMA}))
    metadata = {**file.schema.metadata, key: value}
    schema = file.schema.with_metadata({k: v for k, v in metadata.items() if v is not None})
    return encode_file(schema, [file.get_batch(0).replace_schema_metadata(schema.metadata)])


def with_column(table: pa.Buffer, name: str, column: pa.Array | None) -> pa.Buffer:
    """A good table, but for one column, or without it."""
    batch = pa.ipc.open_file(table).get_batch(0)
    place = batch.schema.get_field_index(name)
    batch = batch.remove_column(place)
    if column is not None:
        batch = batch.add_column(place, name, column)
    return encode_file(batch.schema, [batch])


def test_streams_and_description_come_back_as_they_were_written():
    streams, about = decode([FIRST, SECOND])
    assert streams == (FIRST, SECOND)
    assert (about.store_id, about.core, about.segment_seq, about.slots) == ("id", 2, 7, ABOUT.slots)
    assert about.schema(0, LimitsConfig()) == SCHEMA
    assert about.schema(63, LimitsConfig()) is None


def test_what_damage_took_from_bundles_comes_back_as_it_was_written():
    about = Description("id", 2, 7, ABOUT.slots, lost={3: (0,), 1: (5, 0), 4: ()})
    table = encode_directory([FIRST, SECOND], about, {0: SCHEMA})
    assert decode_directory(table, FOOTER, end=END)[1].lost == {1: (5, 0), 3: (0,), 4: ()}
    assert decode([FIRST, SECOND])[1].lost == {}


DAMAGED_STREAMS = [
    ("stream_id twice", {"stream_id": 0}, "twice"),
    ("slot_id 64", {"slot_id": 64}, "impossible slot"),
    ("offset on the stream before", {"byte_offset": 99}, "overlaps stream 0"),
    ("offset behind the footer", {"byte_offset": END}, "outside"),
    ("offset beyond u63", {"byte_offset": 2**64 - 1}, "outside"),
    ("length zero", {"byte_length": 0}, "outside"),
    ("length into the directory", {"byte_length": 101}, "the directory overlaps stream 4"),
    ("length beyond the file", {"byte_length": 2**63}, "outside"),
    ("too many chunks", {"chunk_count": 10_000_001}, "too many chunks"),
]


@pytest.mark.parametrize("what,change,message", DAMAGED_STREAMS)
def test_each_impossible_value_of_a_stream_is_named(what, change, message):
    with pytest.raises(DamagedEntry, match=message):
        decode([FIRST, replace(SECOND, **change)])


def test_a_directory_with_another_number_of_streams_than_the_footer_says_is_damage():
    with pytest.raises(DamagedEntry, match="disagree about its rows") as caught:
        decode([FIRST])
    assert (caught.value.expected, caught.value.found) == (2, 1)


REQUIRED = ["stream_id", "slot_id", "schema_fingerprint", "byte_offset", "byte_length"]
REQUIRED += ["row_count", "chunk_count"]


@pytest.mark.parametrize("name", REQUIRED)
@pytest.mark.parametrize(
    "column,message",
    [(None, "0 columns"), (pa.array(["a", "b"]), "another type")],
    ids=["missing", "of another type"],
)
def test_each_column_of_version_1_must_be_in_the_directory(name, column, message):
    table = with_column(encode_directory([FIRST, SECOND], ABOUT, {}), name, column)
    with pytest.raises(DamagedEntry, match=message):
        decode_directory(table, FOOTER, end=END)


def test_a_null_in_a_column_of_version_1_is_damage():
    table = encode_directory([FIRST, SECOND], ABOUT, {})
    table = with_column(table, "row_count", pa.array([1, None], pa.uint64()))
    with pytest.raises(DamagedEntry, match="'row_count' has nulls"):
        decode_directory(table, FOOTER, end=END)


@pytest.mark.parametrize("column", [None, pa.array(["a", "b"])], ids=["missing", "other type"])
@pytest.mark.parametrize(
    "name,field",
    [("crc32c", "crc32c"), ("event_ts_min", "event_ns_min"), ("null_counts", "null_counts")],
)
def test_a_column_that_only_we_write_may_be_missing_or_mean_another_thing(name, field, column):
    table = with_column(encode_directory([FIRST, SECOND], ABOUT, {}), name, column)
    streams, _ = decode_directory(table, FOOTER, end=END)
    assert getattr(streams[1], field) is None
    assert streams[1].row_count == 9


@pytest.mark.parametrize(
    "key,value",
    [
        (b"quiver.store_id", None),
        (b"quiver.store_id", b"\xff"),
        (b"quiver.core", b"two"),
        (b"quiver.segment_seq", None),
        (b"quiver.slots", b"{"),
        (b"quiver.slots", b"[]"),
        (b"quiver.slots", b"[1]"),
        (b"quiver.slots", b"[" * 100_000),
        (b"quiver.slots", b'[{"id":0,"name":"a"}]'),
        (b"quiver.slots", b'[{"id":64,"name":"a","payload_type_id":0,"event_time":""}]'),
        (b"quiver.slots", b'[{"id":0,"name":"a","payload_type_id":0,"event_time":1}]'),
        (b"quiver.lost", b"{"),
        (b"quiver.lost", b"[1]"),
        (b"quiver.lost", b'{"a":[0]}'),
        (b"quiver.lost", b'{"0":0}'),
        (b"quiver.lost", b'{"0":["a"]}'),
        (b"quiver.lost", b'{"0":[Infinity]}'),
    ],
)
def test_each_damaged_value_of_the_description_is_refused(key, value):
    with pytest.raises(DamagedEntry, match="metadata cannot be read"):
        decode_directory(with_metadata(key, value), FOOTER, end=END)


def test_tables_of_a_newer_format_are_refused_as_such():
    with pytest.raises(VersionError, match="format b'2'"):
        decode_directory(with_metadata(b"quiver.format", b"2"), FOOTER, end=END)


@pytest.mark.parametrize("text", [b"not base64!", b"AAAA", b""])
def test_a_representative_schema_that_cannot_be_read_is_damage(text):
    _, about = decode_directory(with_metadata(b"quiver.schema.0", text), FOOTER, end=END)
    with pytest.raises(DamagedEntry, match="schema of slot 0"):
        about.schema(0, LimitsConfig())


def test_a_representative_schema_is_held_to_the_limits():
    _, about = decode([FIRST, SECOND])
    wide = replace(about, schemas={0: about.schemas[0]})
    with pytest.raises(DamagedEntry, match="more than 1 columns"):
        two = pa.schema([("a", pa.int64()), ("b", pa.int64())])
        table = encode_directory([FIRST, SECOND], wide, {0: two})
        _, about = decode_directory(table, FOOTER, end=END)
        about.schema(0, LimitsConfig(columns=1))


def test_bundles_come_back_as_they_were_written():
    table = Manifest(manifest_of(BUNDLES), 3, [SECOND, FIRST])
    assert len(table) == 3
    assert [table.entry(index) for index in range(3)] == BUNDLES
    assert table.wal_seq_range() == (10, 12)


DAMAGED_BUNDLES = [
    ("bundle_index", replace(BUNDLES[1], bundle_index=2), "bundle 1 is out of order"),
    ("slot_id 64", replace(BUNDLES[1], refs=(SlotRef(64, 4, 0),)), "impossible slot"),
    (
        "slot_id twice",
        replace(BUNDLES[1], refs=(SlotRef(0, 0, 0), SlotRef(0, 0, 1))),
        "a slot twice",
    ),
    ("slot_id of another", replace(BUNDLES[1], refs=(SlotRef(0, 4, 0),)), "of another slot"),
    ("stream_id between", replace(BUNDLES[1], refs=(SlotRef(0, 3, 0),)), "does not exist"),
    ("stream_id above all", replace(BUNDLES[1], refs=(SlotRef(0, 2**32 - 1, 0),)), "not exist"),
    ("chunk_index", replace(BUNDLES[1], refs=(SlotRef(0, 0, 3),)), "chunk that its stream has not"),
    ("65 slots", replace(BUNDLES[1], refs=(SlotRef(0, 0, 0),) * 65), "fills more than 64"),
]


@pytest.mark.parametrize("what,entry,message", DAMAGED_BUNDLES)
def test_each_impossible_value_of_a_bundle_is_named_with_its_index(what, entry, message):
    table = manifest_of([BUNDLES[0], entry, BUNDLES[2]])
    with pytest.raises(DamagedEntry, match=message) as caught:
        Manifest(table, 3, [FIRST, SECOND])
    assert caught.value.message.startswith("bundle 1 ")


def test_a_manifest_with_another_number_of_bundles_than_the_footer_says_is_damage():
    with pytest.raises(DamagedEntry, match="disagree about its rows"):
        Manifest(manifest_of(BUNDLES), 2, [FIRST, SECOND])


def test_references_without_any_stream_are_damage():
    with pytest.raises(DamagedEntry, match="bundle 0 is filled from a stream"):
        Manifest(manifest_of(BUNDLES), 3, [])


@pytest.mark.parametrize("name", ["bundle_index", "slot_refs"])
@pytest.mark.parametrize("column", [None, pa.array([1, 2, 3])], ids=["missing", "other type"])
def test_each_column_of_version_1_must_be_in_the_manifest(name, column):
    with pytest.raises(DamagedEntry, match=name):
        Manifest(with_column(manifest_of(BUNDLES), name, column), 3, [FIRST, SECOND])


REF = pa.struct(
    [("slot_id", pa.uint16()), ("stream_id", pa.uint32()), ("chunk_index", pa.uint32())]
)
ONE = {"slot_id": 0, "stream_id": 0, "chunk_index": 0}


@pytest.mark.parametrize(
    "what,refs",
    [
        ("a null list", [[], None, []]),
        ("a null reference", [[], [None], []]),
        ("a null inside", [[], [{**ONE, "stream_id": None}], []]),
    ],
)
def test_nulls_among_references_are_damage(what, refs):
    table = with_column(manifest_of(BUNDLES), "slot_refs", pa.array(refs, pa.list_(REF)))
    with pytest.raises(DamagedEntry, match="nulls"):
        Manifest(table, 3, [FIRST, SECOND])


def test_references_without_one_of_their_fields_are_damage():
    kind = pa.list_(pa.struct([("slot_id", pa.uint16()), ("stream_id", pa.uint32())]))
    column = pa.array([[], [], []], kind)
    with pytest.raises(DamagedEntry, match="chunk_index"):
        Manifest(with_column(manifest_of(BUNDLES), "slot_refs", column), 3, [FIRST, SECOND])


@pytest.mark.parametrize("batches", [0, 2])
def test_a_table_is_exactly_one_batch(batches):
    batch = pa.ipc.open_file(manifest_of(BUNDLES)).get_batch(0)
    with pytest.raises(DamagedEntry, match="not one batch"):
        Manifest(encode_file(batch.schema, [batch] * batches), 3, [FIRST, SECOND])


def test_a_column_of_rows_without_bytes_cannot_make_a_table_huge():
    rows = pa.nulls(2**31 - 1)
    with pytest.raises(DamagedEntry, match="number of rows"):
        Manifest(
            encode_file(pa.schema([("n", pa.null())]), [pa.record_batch([rows], ["n"])]), 3, []
        )


def test_a_table_that_is_no_arrow_file_is_damage():
    with pytest.raises(DamagedEntry, match="Arrow file cannot be read"):
        Manifest(pa.py_buffer(b"no table"), 3, [FIRST])
