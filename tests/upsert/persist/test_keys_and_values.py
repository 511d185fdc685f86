"""Keys of any type, keys that share a hash, values that grow wider."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from crc32c import crc32c
from persist_kit import DEFINITION, Rig, error, keys_of

from quiver.errors import DamagedEntry, InputError
from quiver.ipc import encode_file
from quiver.ship.objects import FolderBucket, MemoryBucket
from quiver.upsert.persist import (
    Collection,
    FileRef,
    Snapshot,
    State,
    WholeState,
    checking,
    rows_as_of,
    widen,
    write_base,
)
from quiver.upsert.persist.opened import open_file
from quiver.upsert.rows import Definition

ONE = Definition(DEFINITION.key, DEFINITION.value, 1)


@pytest.fixture(autouse=True, scope="module")
def _any_hash() -> Iterator[None]:
    """Keys are hashed otherwise here, so that many share a hash."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checking, "HASHES_SEEN", 0)
        yield


def value(n: int) -> dict[str, object]:
    return {"text": str(n), "n": n}


def three_hashes(keys: pa.StructArray) -> np.ndarray:
    """Hash as nobody should: three numbers for all keys."""
    return np.array([key["id"] % 3 * 1000 for key in keys.to_pylist()], np.uint64)


@pytest.mark.parametrize("seed", range(3))
def test_keys_that_share_a_hash_are_told_apart(seed) -> None:
    lot = random.Random(seed)
    rig = Rig(MemoryBucket(), ONE, hashes=three_hashes)
    for _ in range(8):
        keys = lot.sample(range(40), 20)
        rig.apply({key: value(lot.randrange(9)) if lot.random() < 0.8 else None for key in keys})
        if lot.random() < 0.5:
            rig.fold(0, lot.randrange(rig.snapshot.upper))
        if lot.random() < 0.5:
            rig.merge(0, 3)
    rig.check_all()
    assert rig.look(range(100, 130)) == {}


def test_keys_that_share_a_hash_are_out_of_order_in_no_file() -> None:
    rig = Rig(MemoryBucket(), ONE, hashes=three_hashes)
    rig.apply({n: value(n) for n in (0, 3, 6)})
    snapshot = rig.snapshot
    (batch,) = rows_as_of(rig.store, snapshot, 0)
    shuffled = [batch.take(pa.array(order)) for order in ([2, 0, 1], [1, 2, 0])]
    refs = [write_base(rig.store, snapshot, [b], bucket=0, epoch=1) for b in (*shuffled, batch)]
    data = [bytes(rig.store.get(ref.name).data) for ref in refs]
    assert data[0] == data[1] == data[2]
    table = pa.Table.from_batches([shuffled[0]])
    data = encode_file(table.schema, table.to_batches())
    name = "bases/01ARZ3NDEKTSV4RRFFQ69G5FAV.arrow"
    rig.store.put(name, data)
    ref = FileRef("base", 0, name, 3, 0, data.size, crc32c(data), 1, 1)
    with pytest.raises(DamagedEntry, match="not in order"):
        open_file(rig.store, snapshot, ref)


def test_rows_of_a_base_come_in_any_order() -> None:
    rig = Rig(MemoryBucket(), ONE)
    rig.apply({n: value(n) for n in range(50)})
    snapshot = rig.snapshot
    (batch,) = rows_as_of(rig.store, snapshot, 0)
    order = np.random.default_rng(1).permutation(50)
    ref = write_base(rig.store, snapshot, [batch.take(pa.array(order))], bucket=0, epoch=1)
    rig.replace([ref], snapshot.files)
    assert rig.state() == rig.model()
    rig.check_all(replace(rig.snapshot, manifest=replace(rig.snapshot.manifest, since=1)))


def test_a_key_of_another_type_with_the_same_bytes_is_the_same_key() -> None:
    texts = Definition(pa.schema([("id", pa.string())]), DEFINITION.value, 1)
    rig = Rig(MemoryBucket(), texts)
    rig.apply({str(n): value(n) for n in range(9)})
    asked = pa.array([{"id": str(n)} for n in range(5, 12)], pa.struct([("id", pa.large_string())]))
    looked = State(rig.store, rig.snapshot, 0).lookup(rig.hashes(asked), asked)
    assert list(looked.index >= 0) == [True] * 4 + [False] * 3


def test_thousands_of_keys_with_one_hash_cost_what_others_cost() -> None:
    """A look-up that compared each with each would hold 400 million pairs."""
    count = 20_000

    def one_hash(keys: pa.StructArray) -> np.ndarray:
        return np.zeros(len(keys), np.uint64)

    rig = Rig(MemoryBucket(), ONE, hashes=one_hash)
    rig.apply({n: value(n) for n in range(count)})
    rig.apply({n: value(-n) for n in range(0, count, 2)})
    keys = keys_of(ONE, range(count // 2, count * 2))
    looked = State(rig.store, rig.snapshot, 0).lookup(one_hash(keys), keys)
    assert list(looked.index >= 0) == [n < count for n in range(count // 2, count * 2)]
    found = looked.rows.column("value").combine_chunks().take(pa.array(looked.index[: count // 2]))
    numbers = [n if n % 2 else -n for n in range(count // 2, count)]
    assert found.field("n").to_pylist() == numbers
    assert len(rig.state()) == count


ODD = Definition(
    pa.schema(
        [
            pa.field("text", pa.string()),
            pa.field("number", pa.float64()),
            pa.field("at", pa.timestamp("us", "UTC")),
            pa.field("exact", pa.decimal128(10, 2)),
            pa.field("tags", pa.list_(pa.struct([pa.field("a", pa.int8())]))),
            pa.field("raw", pa.binary()),
        ]
    ),
    pa.schema([pa.field("deep", pa.map_(pa.string(), pa.list_(pa.int64())))]),
    3,
)


def odd(n: int) -> tuple[object, ...]:
    return (
        "x" * (n % 3) if n % 5 else None,
        n / 4,
        datetime.fromtimestamp(n, UTC) if n % 2 else None,
        Decimal(n) / 4,
        tuple({"a": child} for child in range(n % 4)) if n % 7 else None,
        bytes(n % 3),
    )


class Frozen(dict):
    def __hash__(self) -> int:
        return hash(tuple(self.items()))


def test_composite_and_nested_keys_and_values(tmp_path) -> None:
    rig = Rig(FolderBucket(str(tmp_path)), ODD)

    def key(n: int) -> tuple[object, ...]:
        return tuple(
            tuple(map(Frozen, part)) if isinstance(part, tuple) else part for part in odd(n)
        )

    def at(n: int) -> dict[str, object]:
        return {"deep": [("k", [n, None])] if n % 2 else None}

    rig.apply({key(n): at(n) for n in range(30)})
    rig.apply({key(n): at(n + 1) for n in range(0, 30, 3)} | {key(1): None, key(2): error("bad")})
    rig.fold(1)
    snapshot = rig.snapshot
    names = [key(n) for n in range(40)]
    keys = keys_of(ODD, names)
    looked = WholeState(rig.store, snapshot).lookup(rig.hashes(keys), keys)
    assert [place >= 0 for place in looked.index] == [name in rig.now for name in names]
    rows = looked.rows.take(pa.array(looked.index[looked.index >= 0])).to_pylist()
    for row, name in zip(rows, [name for name in names if name in rig.now], strict=True):
        wanted = rig.now[name]
        if isinstance(wanted, Exception):
            assert (row["value"], row["error"]) == (None, "bad")
        else:
            assert (row["value"], row["error"]) == (wanted, None)
    count = [sum(b.num_rows for b in rows_as_of(rig.store, snapshot, n)) for n in range(3)]
    assert sum(count) == len(rig.now)
    assert snapshot.error_rows == 1


def test_keys_may_be_asked_for_in_any_order_and_more_than_once(tmp_path) -> None:
    rig = Rig(FolderBucket(str(tmp_path)))
    rig.apply({n: value(n) for n in range(10)})
    asked = [3, 99, 3, 0, 9, 3, 99, 1]
    keys = keys_of(DEFINITION, asked)
    looked = WholeState(rig.store, rig.snapshot).lookup(rig.hashes(keys), keys)
    found = looked.rows.column("value").combine_chunks().field("n").to_pylist()
    assert [found[i] if i >= 0 else None for i in looked.index] == [
        n if n < 10 else None for n in asked
    ]
    nothing = WholeState(rig.store, rig.snapshot).lookup(np.empty(0, np.uint64), keys[:0])
    assert (len(nothing.index), nothing.rows.num_rows) == (0, 0)
    assert nothing.rows.schema.equals(DEFINITION.state)


def test_a_value_grows_wider_and_what_was_written_before_is_read(tmp_path) -> None:
    rig = Rig(FolderBucket(str(tmp_path)))
    rig.apply({n: value(n) for n in range(8)})
    old = rig.snapshot
    wider = pa.schema([("n", pa.int64()), ("more", pa.list_(pa.float32())), ("text", pa.string())])
    rig.apply({1: {"n": 1 << 40, "more": [0.5], "text": "a"}, 2: None}, value=wider)
    assert rig.snapshot.definition.value == pa.schema(
        [("text", pa.string()), ("n", pa.int64()), ("more", pa.list_(pa.float32()))]
    )
    rig.check_all()
    for bucket in range(4):
        rig.fold(bucket, lot := bucket % 3)
        assert rig.snapshot.base(bucket).last == lot
    rig.apply({3: value(4)}, value=DEFINITION.value)
    rig.apply({4: {"n": 1, "more": [], "text": None}})
    rig.check_all()
    assert old.definition.value == DEFINITION.value
    assert rig.state(1, old) == {n: value(n) for n in range(8)}
    Collection.open(rig.store, DEFINITION)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (pa.int64(), pa.float64()),
        (pa.decimal128(5, 0), pa.float64()),
        (pa.timestamp("s"), pa.timestamp("ns")),
        (pa.duration("ms"), pa.duration("us")),
        (pa.list_(pa.int64()), pa.list_(pa.float64())),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.float64())),
        (pa.struct([("a", pa.int64())]), pa.struct([("a", pa.float64())])),
        (pa.string(), pa.int8()),
        (pa.bool_(), pa.int8()),
    ],
)
def test_a_value_that_could_not_be_read_any_more_is_not_widened(old, new) -> None:
    definition = Definition(DEFINITION.key, pa.schema([("v", old)]), 1)
    with pytest.raises(InputError, match="'v'"):
        widen(definition, pa.schema([("v", new)]))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (pa.null(), pa.string()),
        (pa.int32(), pa.float64()),
        (pa.int8(), pa.float32()),
        (pa.uint32(), pa.float32()),
        (pa.float32(), pa.float64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.int8(), pa.uint64()),
        (pa.string(), pa.large_string()),
        (pa.date32(), pa.date64()),
        (pa.list_(pa.int8()), pa.large_list(pa.int64())),
        (pa.struct([("a", pa.int8())]), pa.struct([("b", pa.int8()), ("a", pa.int16())])),
        (pa.map_(pa.string(), pa.int8()), pa.map_(pa.string(), pa.int16())),
        (pa.dictionary(pa.int8(), pa.string()), pa.string()),
    ],
)
def test_every_value_of_a_type_that_is_widened_is_read_under_the_wider_one(old, new) -> None:
    schema = pa.schema([("v", old)])
    rig = Rig(MemoryBucket(), Definition(DEFINITION.key, schema, 1))
    extremes = {
        pa.int32(): -(1 << 31),
        pa.int8(): -128,
        pa.uint64(): (1 << 64) - 1,
        pa.float32(): 1e38,
        pa.date32(): datetime(9999, 1, 1, tzinfo=UTC).date(),
    }
    given = extremes.get(old)
    kept = pa.array([given], rig.snapshot.definition.value.field("v").type)[0].as_py()
    rig.apply({1: {"v": given}})
    rig.apply({}, value=pa.schema([("v", new)]))
    assert rig.look([1])[1]["v"] == kept
    assert rig.state() == rig.look([1])


def test_a_snapshot_travels() -> None:
    rig = Rig()
    rig.apply({n: value(n) for n in range(8)}, sources={})
    snapshot = pickle.loads(pickle.dumps(rig.snapshot))
    assert isinstance(snapshot, Snapshot)
    assert snapshot == rig.snapshot
    assert rig.state(snapshot=snapshot) == rig.model()
    assert snapshot.widened(DEFINITION.value) is snapshot
