"""An append is in as a whole or not at all, and once, whatever answer is lost."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pytest
from faulty_bucket import FaultyBucket
from persist_kit import DEFINITION, Rig

from quiver.errors import (
    ConfigError,
    DamageError,
    FencedError,
    InputError,
    MissingError,
    RemoteError,
)
from quiver.ship.objects import FolderBucket, Found, MemoryBucket, UnclearError
from quiver.testing import ManualClock
from quiver.upsert.persist import MANIFEST_KEY, Collection, Source, changing
from quiver.upsert.persist.definitions import encode_schema
from quiver.upsert.persist.format import encode_manifest
from quiver.upsert.rows import Definition


class Store(FaultyBucket):
    """Faults come to conditional puts alone."""


def value(n: int) -> dict[str, object]:
    return {"text": str(n), "n": n}


@pytest.fixture
def rig() -> Rig:
    return Rig(Store())


def test_an_epoch_that_is_in_is_dropped_whole_and_told(rig) -> None:
    rig.apply({1: value(1)})
    refs = rig.write({1: value(2)})
    before = rig.snapshot
    for epoch in (0, 1):
        again = [ref and ref._replace(first=epoch, last=epoch) for ref in refs]
        appended = rig.writer.append(again, epoch, sources={"s": Source("", 0, {"a": 9})})
        assert appended.was_persisted
        assert appended.snapshot == before
    assert rig.state() == rig.model()


def test_a_gap_is_refused(rig) -> None:
    rig.apply({1: value(1)})
    with pytest.raises(InputError, match="the next is 2"):
        rig.writer.append([], 3)
    assert rig.snapshot.upper == 2


def test_an_epoch_without_rows_is_an_epoch(rig) -> None:
    rig.clock.step("5s")
    snapshot = rig.apply({}, sources={"s": Source("q", 4, {"a": 7})})
    assert (snapshot.upper, snapshot.files) == (2, ())
    assert snapshot.sources["s"].splits == {"a": 7}
    assert snapshot.time_ms(1) - snapshot.time_ms(0) == 5000


@pytest.mark.parametrize("fault", ["lost", "repeated", "missed", "late", "refused"])
@pytest.mark.parametrize("times", [1, 2, 4])
def test_an_answer_that_was_lost_neither_doubles_nor_loses_an_append(rig, fault, times) -> None:
    rig.apply({1: value(1), 2: value(2)})
    for number in range(3):
        rig.store.faults.extend([fault] * times)
        rig.apply(
            {1: value(number), number: None}, sources={"s": Source("", number, {"a": number})}
        )
        rig.store.faults.clear()
        rig.store.arrive()
        assert rig.state() == rig.model()
    snapshot = rig.snapshot
    assert snapshot.upper == 5
    assert snapshot.sources["s"].batch == 2


@pytest.mark.parametrize("fault", ["lost", "repeated", "missed", "late", "refused"])
def test_a_fence_is_raised_whatever_answer_is_lost(rig, fault) -> None:
    older = rig.writer
    rig.store.faults.append(fault)
    newer = rig.collection.writer()
    assert newer.fence > older.fence
    assert newer.append([], 1).snapshot.upper == 2
    with pytest.raises(FencedError):
        older.append([], 2)


def test_a_store_that_never_answers_leaves_it_unclear(rig) -> None:
    refs = rig.write({1: value(1)})
    rig.store.faults.extend(["missed"] * 100)
    with pytest.raises(UnclearError):
        rig.writer.append(refs, 1)
    rig.store.faults.clear()
    assert not rig.writer.append(refs, 1).was_persisted
    assert rig.look([1]) == {1: value(1)}


@pytest.mark.parametrize("kind", ["for a while", "for good", "damaged"])
@pytest.mark.parametrize("fault", ["lost", "missed", "repeated"])
def test_what_goes_wrong_once_a_try_may_be_in_is_unclear(rig, fault, kind) -> None:
    refs = rig.write({1: value(1)})
    rig.store.faults.append(fault)
    inner, count = rig.store.get_if_changed, iter(range(3 if kind == "for a while" else 99))

    def look(key, tag):
        if next(count, None) is None:
            return inner(key, tag)
        if kind == "damaged":
            return Found(b"junk", "junk")
        raise RemoteError("no", path=key, retryable=kind == "for a while")

    rig.store.get_if_changed = look
    if kind == "for a while":
        assert not rig.writer.append(refs, 1).was_persisted
    else:
        with pytest.raises(UnclearError, match="nobody knows whether memory:/manifest was changed"):
            rig.writer.append(refs, 1)
        del rig.store.get_if_changed
        assert rig.writer.append(refs, 1).was_persisted == (fault != "missed")
    assert rig.look([1]) == {1: value(1)}


def test_a_read_that_fails_before_any_try_is_told_as_it_is(rig) -> None:
    rig.collection.writer()
    writer = rig.collection.writer()
    rig.store.meanwhile.append(lambda: rig.store.delete([MANIFEST_KEY]))
    for _ in range(2):  # Refused by the store as well: nothing is unclear.
        with pytest.raises(MissingError):
            writer.append([], 1)


def test_an_append_that_came_in_after_it_was_given_up_is_told_the_next_time(rig) -> None:
    refs = rig.write({1: value(1)})
    rig.store.faults.extend(["missed"] * 7 + ["lost"])
    with pytest.raises(UnclearError):
        rig.writer.append(refs, 1)
    assert rig.writer.append(refs, 1).was_persisted
    assert rig.look([1]) == {1: value(1)}


def test_an_append_that_comes_in_while_its_epoch_is_written_anew_is_told(rig) -> None:
    refs, others = rig.write({1: value(1)}), rig.write({1: value(2)})
    rig.store.faults.extend(["missed"] * 7 + ["late"])
    with pytest.raises(UnclearError):
        rig.writer.append(refs, 1)
    assert rig.store.under_way  # It comes in behind the next read.
    assert rig.writer.append(others, 1).was_persisted
    assert rig.look([1]) == {1: value(1)}


def test_the_newest_writer_goes_on_and_older_ones_are_fenced(rig) -> None:
    refs = rig.write({1: value(1)})
    newer = rig.collection.writer()
    for act in (
        lambda: rig.writer.append(refs, 1),
        lambda: rig.writer.append([], 0),
        rig.writer.snapshot,
        lambda: rig.writer.change(lambda now: replace(now.manifest, files=())),
    ):
        with pytest.raises(FencedError) as refused:
            act()
        assert (refused.value.epoch, refused.value.current) == (1, 2)
    assert newer.append(refs, 1).snapshot.upper == 2
    assert rig.collection.snapshot().manifest.writer == 2


def test_a_fence_that_comes_while_an_append_is_made_stops_it(rig) -> None:
    refs = rig.write({1: value(1)})
    rig.store.meanwhile.append(lambda: Collection.open(rig.store).writer())
    with pytest.raises(FencedError):
        rig.writer.append(refs, 1)
    assert rig.snapshot.files == ()


def test_an_append_whose_answer_was_lost_and_then_fenced_was_in(rig) -> None:
    refs = rig.write({1: value(1)})
    rig.store.faults.append("lost")
    inner = rig.store.get

    def get(key):
        rig.store.get = inner
        Collection.open(rig.store).writer()
        return inner(key)

    rig.store.get_if_changed = lambda key, tag: get(key)
    with pytest.raises(FencedError):
        rig.writer.append(refs, 1)
    del rig.store.get_if_changed
    assert rig.look([1]) == {1: value(1)}


@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_of_many_who_create_one_does_and_of_many_writers_one_is_left(kind, tmp_path) -> None:
    store = FolderBucket(str(tmp_path)) if kind == "folder" else MemoryBucket()
    barrier = threading.Barrier(4)

    def open_and_write(number: int) -> str:
        barrier.wait(60)
        collection = Collection.open(store, DEFINITION, create=True)
        writer = collection.writer()
        try:
            for epoch in range(1, 6):
                writer.append([], epoch, sources={f"{number}": Source(batch=epoch)})
        except FencedError:
            pass
        return collection.snapshot().manifest.collection

    with ThreadPoolExecutor(4) as pool:
        ids = set(pool.map(open_and_write, range(4)))
    assert len(ids) == 1
    manifest = Collection.open(store).snapshot().manifest
    assert manifest.writer == 4
    assert manifest.upper == len(manifest.times) <= 6
    assert manifest.upper == 6


def test_sources_go_forward_and_others_stay(rig) -> None:
    rig.apply({}, sources={"a": Source("q", 1, {"x": 5, "y": 1}), "b": Source()})
    rig.apply({}, sources={"a": Source("r", 0, {"x": 5, "y": 2, "z": 0})})
    assert set(rig.snapshot.sources) == {"a", "b"}
    for splits in ({"x": 4, "y": 2, "z": 0}, {"x": 5, "y": 2}):
        with pytest.raises(InputError, match="cannot go back"):
            rig.writer.append([], 3, sources={"a": Source("r", 1, splits)})
    assert rig.snapshot.upper == 3


def test_refs_of_something_else_are_refused(rig) -> None:
    refs = [ref for ref in rig.write({n: value(n) for n in range(20)}) if ref]
    one = refs[0]
    for wrong in (
        [one._replace(first=2, last=2)],
        [one._replace(kind="base")],
        [one._replace(bucket=9)],
        [one, one],
        [one, one._replace(name=refs[1].name)],
        [one._replace(name="runs/x")],
        [one._replace(rows=0)],
    ):
        with pytest.raises(InputError):
            rig.writer.append(wrong, 1)
    assert rig.snapshot.upper == 1
    rig.writer.append([*refs, None], 1)
    with pytest.raises(InputError, match="of its own"):
        rig.writer.append([one._replace(first=2, last=2)], 2)


def test_a_collection_is_opened_by_what_it_is(rig) -> None:
    store, text = rig.store, pa.schema([pa.field("text", pa.string())])
    Collection.open(store, DEFINITION)
    Collection.open(store, Definition(DEFINITION.key, text, 4))
    for other, what in (
        (Definition(DEFINITION.key, DEFINITION.value, 5), "4 buckets, not 5"),
        (Definition(text, DEFINITION.value, 4), "another key: id int64, not text string"),
    ):
        with pytest.raises(ConfigError, match=what):
            Collection.open(store, other, create=True)
    numbers = pa.schema([pa.field("text", pa.int64())])
    with pytest.raises(InputError, match="text"):
        Collection.open(store, Definition(DEFINITION.key, numbers, 4))
    with pytest.raises(ConfigError, match="definition"):
        Collection.open(store, create=True)


def test_there_is_no_collection_until_it_is_made() -> None:
    store = MemoryBucket()
    for definition in (None, DEFINITION):
        with pytest.raises(MissingError, match="there is no collection in memory:"):
            Collection.open(store, definition)
    assert list(store.list("")) == []


@pytest.mark.parametrize(
    "wrong",
    [
        Definition(pa.schema([]), DEFINITION.value, 4),
        Definition(DEFINITION.key, DEFINITION.value, 0),
        Definition(DEFINITION.key, DEFINITION.value, 1 << 17),
        Definition(pa.schema([("a", pa.int8()), ("a", pa.int8())]), DEFINITION.value, 4),
        Definition(DEFINITION.key, pa.schema([("a", pa.int8()), ("a", pa.int8())]), 4),
    ],
)
def test_a_definition_by_which_nothing_can_be_kept_is_refused(wrong) -> None:
    with pytest.raises(InputError):
        Collection.open(MemoryBucket(), wrong, create=True)


def test_a_damaged_manifest_is_told_with_its_place(rig) -> None:
    data = bytearray(rig.store.get(MANIFEST_KEY).data)
    data[30] ^= 1
    rig.store.put(MANIFEST_KEY, bytes(data))
    with pytest.raises(UnclearError, match="the checksum of a manifest is wrong"):
        rig.writer.append([], 1)  # By what it saw last, which is not there.
    for act in (rig.collection.snapshot, lambda: rig.writer.append([], 1), rig.collection.writer):
        with pytest.raises(DamageError, match="memory:/manifest"):
            act()
    with pytest.raises(DamageError):
        Collection.open(rig.store, DEFINITION, create=True)


@pytest.mark.parametrize("fault", ["lost", "repeated", "missed", "late", "refused"])
def test_a_collection_is_made_once_whatever_answer_is_lost(fault) -> None:
    store = Store()
    store.faults.extend([fault] * 2)
    clock = ManualClock()
    made = Collection.open(store, DEFINITION, create=True, clock=clock).snapshot()
    store.arrive()
    assert Collection.open(store, DEFINITION, create=True).snapshot() == made
    assert made.upper == 1


def test_nobody_tries_for_ever(rig, monkeypatch) -> None:
    monkeypatch.setattr(changing, "_TRIES_MAX", 5)
    empty, clock = Store(), ManualClock()
    for fault, error in (("refused", RemoteError), ("missed", UnclearError)):
        for store in (rig.store, empty):
            store.faults.extend([fault] * 100)
        if fault == "missed":
            monkeypatch.undo()
        with pytest.raises(error):
            rig.writer.append([], 1)
        with pytest.raises(error):
            Collection.open(empty, DEFINITION, create=True, clock=clock)
        rig.store.faults.clear()
        empty.faults.clear()
    assert rig.snapshot.upper == 1
    assert list(empty.list("")) == []


@pytest.mark.parametrize(
    "schema",
    [
        b"",
        b"junk" * 9,
        pa.schema([("a", pa.int8()), ("a", pa.int8())]),
        pa.schema([("a", pa.dictionary(pa.int8(), pa.string()))]),
        pa.schema([("a", pa.sparse_union([pa.field("b", pa.int8())]))]),
        pa.schema([("a", pa.string_view())]),
        pa.schema([pa.field("a", pa.int8(), nullable=False)]),
        pa.schema([pa.field("a", pa.int8())], metadata={"a": "b"}),
    ],
    ids=lambda schema: f"{schema!s:.25}",
)
def test_a_manifest_with_a_schema_that_is_none_of_ours_is_damage(rig, schema) -> None:
    manifest = rig.snapshot.manifest
    data = schema if isinstance(schema, bytes) else encode_schema(schema)
    for field in ("key", "value"):
        wrong = replace(manifest, **{field: data})
        rig.store.put(MANIFEST_KEY, encode_manifest(wrong))
        with pytest.raises(DamageError, match=r"in memory:"):
            rig.collection.snapshot()


class Heedless(MemoryBucket):
    """A store that does not look at conditions."""

    def put_if(self, key, data, tag):
        return self.put(key, data)


def test_a_store_without_conditional_puts_is_no_place_to_write(monkeypatch) -> None:
    store = Heedless()
    collection = Collection.open(store, DEFINITION, create=True)
    module = sys.modules["quiver.ship.objects.probe"]
    monkeypatch.setattr(module, "MemoryBucket", FaultyBucket)  # Which it is not.
    with pytest.raises(RemoteError, match="no store for queues and collections: it puts over"):
        collection.writer()
    assert [seen.key for seen in store.list("")] == [MANIFEST_KEY]


def test_times_find_epochs() -> None:
    clock = ManualClock()
    rig = Rig()
    rig.clock.jump_to(clock.wall_ns())
    start = rig.snapshot.time_ms(0)
    for _ in range(3):
        rig.clock.step("10s")
        rig.apply({})
    snapshot = rig.snapshot
    for after_ms, epoch in ((0, 0), (9_999, 0), (10_000, 1), (25_000, 2), (10**9, 3)):
        assert snapshot.epoch_at(start + after_ms) == epoch
    with pytest.raises(InputError, match="before"):
        snapshot.epoch_at(start - 1)
    for epoch in (-1, 4):
        with pytest.raises(InputError, match="it can from 0 to 3"):
            snapshot.time_ms(epoch)
