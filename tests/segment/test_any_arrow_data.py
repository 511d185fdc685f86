"""Whatever Arrow can keep goes in and comes out, bit by bit, on every way through a store."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import quiver
from quiver.disk import LocalDisk
from quiver.errors import InputError
from quiver.ipc import decode_stream, encode_stream
from quiver.segment import SegmentReader
from quiver.testing.same import difference, plain
from quiver.testing.strategies import batches, schemas
from tests.kit.every_type import TYPES, Colour, column, known
from tests.kit.store_kit import abandon

FEW = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def opened(folder: str) -> quiver.Store:
    return quiver.open(
        folder, slots=["a"], worker=False, config={"wal": {"durability": "interval"}}
    )


def bundles_of(folder: str) -> list[pa.RecordBatch]:
    disk = LocalDisk(f"{folder}/core_0/segments")
    found = []
    for entry in disk.list_dir(""):
        with SegmentReader.open(disk, entry.name) as reader:
            reader.verify()
            found += [reader.bundle(index)[0] for index in range(reader.bundle_count)]
    disk.close()
    return found


def claimed(store: quiver.Store) -> list[pa.RecordBatch]:
    subscription, found = store.subscribe("reader"), []
    while (handle := subscription.poll()) is not None:
        with handle:
            found.append(handle["a"])
    return found


def assert_same(expected: list[pa.RecordBatch], found: list[pa.RecordBatch]) -> None:
    assert len(found) == len(expected)
    for index, (one, other) in enumerate(zip(expected, found, strict=True)):
        assert difference(one, other) is None, f"bundle {index}: {difference(one, other)}"


def live_through(given_batches: list[pa.RecordBatch], *, crash: bool) -> None:
    """Append batches, crash or not, finalize, and compare what each reader gets."""
    with tempfile.TemporaryDirectory() as folder:
        store = opened(folder)
        for batch in given_batches:
            store.append({"a": batch})
        if crash:
            abandon(store)
            store = opened(folder)
            assert store.recovery.replayed_bundles == len(given_batches)
        store.finalize()
        assert_same(given_batches, bundles_of(folder))
        if len({batch.schema.serialize().to_pybytes() for batch in given_batches}) == 1:
            assert_same(given_batches, list(quiver.scan(folder, slot="a").to_reader()))
        assert_same(given_batches, claimed(store))
        store.close()


@st.composite
def lives(draw: st.DrawFn) -> list[pa.RecordBatch]:
    kinds = draw(st.lists(schemas(columns_max=3), min_size=1, max_size=2))
    count = draw(st.integers(1, 4))
    return [draw(batches(draw(st.sampled_from(kinds)), rows_max=4)) for _ in range(count)]


@FEW
@given(lives(), st.booleans())
def test_any_batches_come_back_bit_by_bit(given_batches, crash):
    live_through(given_batches, crash=crash)


@pytest.mark.parametrize("crash", [False, True])
def test_each_type_comes_back_bit_by_bit(crash):
    columns = [[column(kind, number) for kind in TYPES] for number in range(3)]
    for rows in (0, 3):
        places = [i for i, array in enumerate(columns[0]) if len(array) == rows or not rows]
        made = [
            pa.RecordBatch.from_arrays(
                [each[place].slice(0, rows) for place in places], [str(p) for p in places]
            )
            for each in columns
        ]
        live_through(made, crash=crash)


DICTIONARY = pa.dictionary(pa.int8(), pa.string())


@pytest.mark.parametrize(
    "kind",
    [
        pa.dictionary(pa.int8(), DICTIONARY),
        pa.dictionary(pa.int8(), pa.uuid()),
        pa.opaque(pa.uuid(), "type", "vendor"),
        pa.list_(pa.dictionary(pa.int8(), pa.uuid())),
    ],
    ids=str,
)
def test_what_arrow_cannot_keep_is_refused_and_nothing_is_written(kind):
    with tempfile.TemporaryDirectory() as folder, opened(folder) as store:
        before = Path(folder, "core_0/wal/quiver.wal").read_bytes()
        with pytest.raises(InputError, match="cannot keep"):
            store.append({"a": pa.RecordBatch.from_arrays([pa.nulls(0, kind)], ["c"])})
        assert Path(folder, "core_0/wal/quiver.wal").read_bytes() == before
        assert store._core.next_wal_seq == 0


@pytest.mark.parametrize("storage", [pa.int32(), DICTIONARY, pa.list_(DICTIONARY)], ids=str)
@pytest.mark.parametrize("crash", [False, True])
def test_an_extension_type_comes_back_whoever_reads_it_knows_it_or_not(tmp_path, storage, crash):
    kind = Colour(storage, "lab")
    with known(kind):
        made = [
            pa.RecordBatch.from_arrays(
                [pa.ExtensionArray.from_storage(kind, column(storage, number))], ["c"]
            )
            for number in range(3)
        ]
        live_through(made, crash=crash)
        with opened(tmp_path) as store:
            for batch in made:
                store.append({"a": batch})
    # The store was closed, and with it a segment written, by one that knows the type.
    plain_field = pa.field(
        "c",
        storage,
        metadata={
            "ARROW:extension:name": "quiver.tests.colour",
            "ARROW:extension:metadata": "lab",
        },
    )
    bare = [
        pa.RecordBatch.from_arrays([b.column(0).storage], schema=pa.schema([plain_field]))
        for b in made
    ]
    for batch, found in zip(bare, bundles_of(tmp_path), strict=True):
        assert found.schema.equals(batch.schema, check_metadata=True)
        assert plain(found.column(0)) == plain(batch.column(0))
    live_through(bare, crash=crash)
    with known(kind):
        for batch, found in zip(made, bundles_of(tmp_path), strict=True):
            assert difference(batch, found) is None


def test_columns_without_dictionaries_keep_the_bytes_of_their_encoding():
    kinds = [kind for kind in TYPES if "dictionary" not in str(kind) and kind.num_fields < 4]
    arrays = [array for kind in kinds if len(array := column(kind, 7))]
    batch = pa.RecordBatch.from_arrays(arrays, [str(i) for i in range(len(arrays))])
    taken = decode_stream(encode_stream(batch))
    with tempfile.TemporaryDirectory() as folder:
        with opened(folder) as store:
            store.append({"a": batch})
        (found,) = bundles_of(folder)
    assert encode_stream(found).equals(encode_stream(taken))


def test_the_names_of_the_children_of_a_map_are_those_that_arrow_gives_them():
    kind = pa.map_(pa.field("word", pa.string(), nullable=False), pa.field("count", pa.int8()))
    batch = pa.RecordBatch.from_arrays([column(kind, 1)], ["m"])
    with tempfile.TemporaryDirectory() as folder:
        with opened(folder) as store:
            store.append({"a": batch})
        (found,) = bundles_of(folder)
    assert found.column(0).type == pa.map_(pa.string(), pa.int8())
    assert (found.column(0).type.key_field.name, found.column(0).type.item_field.name) == (
        "key",
        "value",
    )
    assert plain(found.column(0)) == plain(batch.column(0))


def uuid_lists(*, large: bool = False) -> pa.Array:
    values = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"a" * 16] * 3, pa.binary(16)))
    if large:
        return pa.LargeListArray.from_arrays(pa.array([0, 1, 3], pa.int64()), values)
    return pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), values)


def numbered(index_type: pa.DataType) -> pa.RecordBatch:
    indices = pa.array([0, 1, 1, 0], index_type)
    return pa.record_batch({"x": pa.DictionaryArray.from_arrays(indices, uuid_lists())})


def in_runs(*, large: bool) -> pa.RecordBatch:
    ends = pa.array([3, 4], pa.int32())
    return pa.record_batch({"x": pa.RunEndEncodedArray.from_arrays(ends, uuid_lists(large=large))})


@pytest.mark.parametrize(
    "pair",
    [
        (numbered(pa.int8()), numbered(pa.int32())),
        (in_runs(large=False), in_runs(large=True)),
        (numbered(pa.uint16()), in_runs(large=True)),
    ],
    ids=["indices", "runs", "both"],
)
def test_types_that_pyarrow_takes_for_equal_are_kept_apart(tmp_path, pair):
    """Dictionaries and runs around an extension type: see ``quiver.schemas.same_type``."""
    appended = [*pair, *pair[::-1], *pair]
    with opened(str(tmp_path)) as store:
        store.subscribe("reader")
        for batch in appended:
            store.append({"a": batch})
        store.finalize()
        assert_same(appended, bundles_of(str(tmp_path)))
        table = quiver.scan(tmp_path, slot="a").to_table()
        assert_same(appended, claimed(store))
    table.validate(full=True)
    values = [value for batch in pair for value in batch["x"].to_pylist()]
    assert sorted(map(str, table["x"].to_pylist())) == sorted(map(str, values * 3))
