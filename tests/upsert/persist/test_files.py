"""Bytes from a store are believed once they were checked; what is wrong is told with its place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from crc32c import crc32c
from held_files import files_held
from persist_kit import DEFINITION, Rig, as_dict, diffs_of, error

from quiver.disk import is_mapped
from quiver.errors import DamagedEntry, DamageError, InputError, MissingError
from quiver.ipc import encode_file
from quiver.ship.objects import FolderBucket, MemoryBucket
from quiver.upsert.persist import (
    Collection,
    FileRef,
    Snapshot,
    State,
    changes,
    close_all,
    gathering,
    opened,
    reading,
    rows_as_of,
    write_base,
    write_run,
    writing,
)
from quiver.upsert.persist.opened import open_file
from quiver.upsert.rows import Definition


def value(n: int) -> dict[str, object]:
    return {"text": str(n), "n": n}


ONE = Definition(DEFINITION.key, DEFINITION.value, 1)


@pytest.fixture
def rig(tmp_path) -> Rig:
    """One bucket, a base and two runs, in a folder."""
    rig = Rig(FolderBucket(str(tmp_path)), ONE)
    rig.apply({n: value(n) for n in range(6)})
    rig.apply({1: None, 2: value(20), 9: error("bad")})
    rig.fold(0, 1)
    close_all()
    return rig


def damaged(rig: Rig, ref: FileRef, data: bytes) -> None:
    rig.store.put(ref.name, data)
    close_all()


@pytest.mark.parametrize("kind", ["base", "run"])
def test_each_byte_of_a_file_counts(kind) -> None:
    rig = Rig(MemoryBucket(), ONE)
    rig.apply({n: value(n) for n in range(6)})
    rig.fold(0)
    ref = next(ref for ref in rig.snapshot.files if ref.kind == kind)
    data = bytes(rig.store.get(ref.name).data)
    for place in range(0, len(data), 7):
        wrong = data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :]
        damaged(rig, ref, wrong)
        with pytest.raises(DamagedEntry, match=r"checksum of a file is wrong in .*\.arrow"):
            open_file(rig.store, rig.snapshot, ref)
    for wrong in (b"", data[:-1], data + b"\0"):
        damaged(rig, ref, wrong)
        with pytest.raises(DamageError, match="another size"):
            open_file(rig.store, rig.snapshot, ref)
    damaged(rig, ref, data)
    assert rig.state() == rig.model()


def test_a_file_that_is_gone_is_told_with_its_place(rig) -> None:
    snapshot = rig.snapshot
    for ref in snapshot.files:
        data = bytes(rig.store.get(ref.name).data)
        rig.store.delete([ref.name])
        close_all()
        with pytest.raises(MissingError, match="a file of the collection is gone") as gone:
            rig.check_all(snapshot)
        assert ref.name in gone.value.path
        rig.store.put(ref.name, data)
    rig.check_all(snapshot)


def test_a_file_that_was_deleted_stays_readable_for_who_has_it_open(rig) -> None:
    snapshot = rig.snapshot
    before = rig.state(snapshot=snapshot)
    rows = rows_as_of(rig.store, snapshot, 0, epoch=1)
    first = next(rows)
    rig.store.delete([ref.name for ref in snapshot.files])
    assert as_dict([first, *rows]) == rig.model(1)
    assert rig.state(snapshot=snapshot) == before


def test_files_of_a_folder_are_mapped(rig) -> None:
    ref = rig.snapshot.files[0]
    assert is_mapped(memoryview(rig.store.read(ref.name)).cast("B"))
    (part,) = open_file(rig.store, rig.snapshot, ref)
    assert not part.hashes.flags.owndata


class Counting(MemoryBucket):
    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.wrong = 0

    def read(self, key):
        self.reads += 1
        data = bytes(super().read(key))
        if self.wrong:
            self.wrong -= 1
            return b"x" + data[1:]
        return data


def test_a_file_is_checked_once_and_kept_up_to_a_limit(monkeypatch) -> None:
    rig = Rig(Counting(), ONE)
    for number in range(4):
        rig.apply({number: value(number)})
    checked = []
    real = opened.check_rows
    monkeypatch.setattr(opened, "check_rows", lambda *args: checked.append(args[2]) or real(*args))
    for _ in range(3):
        assert rig.state() == rig.model()
    assert (rig.store.reads, len(checked)) == (4, 4)
    monkeypatch.setattr(opened, "KEPT_BYTES_MAX", 2 << 14)  # Small ones count 16 KiB.
    close_all()
    for _ in range(3):
        assert rig.state() == rig.model()
    assert (rig.store.reads, len(checked)) == (16, 8)
    monkeypatch.setattr(opened, "KNOWN_MAX", 2)
    assert rig.state() == rig.model()
    assert rig.state() == rig.model()
    assert len(checked) > 8


@pytest.mark.parametrize("copied", [1 << 16, 0])
def test_files_that_are_kept_open_hold_few_descriptors(monkeypatch, tmp_path, copied) -> None:
    monkeypatch.setattr(opened, "_COPIED_MAX", copied)
    monkeypatch.setattr(opened, "KEPT_BYTES_MAX", 4 << 20)
    rig = Rig(FolderBucket(str(tmp_path)), ONE)
    for number in range(24):
        rig.apply({number: value(number)})
    close_all()
    before = len(files_held(tmp_path))
    assert rig.look(range(24)) == rig.model()
    assert len(files_held(tmp_path)) <= before + (0 if copied else 4)


def test_bytes_that_came_wrong_are_asked_for_once_more() -> None:
    rig = Rig(Counting(), ONE)
    rig.apply({1: value(1)})
    rig.store.wrong = 1
    assert rig.state() == rig.model()
    close_all()
    rig.store.wrong = 2
    with pytest.raises(DamagedEntry, match="checksum"):
        rig.state()


def test_known_files_that_come_through_a_network_are_summed_up_again(monkeypatch) -> None:
    rig = Rig(Counting(), ONE)
    rig.apply({1: value(1)})
    monkeypatch.setattr(opened, "KEPT_BYTES_MAX", 0)
    assert rig.state() == rig.model()
    rig.store.wrong = 2
    with pytest.raises(DamagedEntry, match="checksum"):
        rig.state()


def forged(rig: Rig, table: pa.Table, *, kind: str = "run", **fields: int) -> Snapshot:
    """Put a file that has a right checksum and is wrong inside, and name it in a manifest."""
    data = encode_file(table.schema, table.to_batches())
    name = f"{kind}s/01ARZ3NDEKTSV4RRFFQ69G5FAV.arrow"
    rig.store.put(name, data)
    close_all()
    has_errors = "error" in table.schema.names and pa.types.is_string(table.field("error").type)
    errors = len(table) - table["error"].null_count if has_errors else 0
    first = 1 if kind == "run" else 2
    ref = FileRef(kind, 0, name, len(table), errors, data.size, crc32c(data), first, 2)
    ref = ref._replace(**fields)
    snapshot = rig.snapshot
    return replace(snapshot, manifest=replace(snapshot.manifest, files=(ref,)))


def sound_run() -> pa.Table:
    table = diffs_of(ONE, [(1, None, value(1)), (2, value(3), value(2))], 2)
    return table.take(
        pa.array([1, 2, 0] if table["hash"][0].as_py() > table["hash"][1].as_py() else [0, 1, 2])
    )


def column(table: pa.Table, name: str, array: object) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.field(at).with_type(pa.array(array).type), pa.array(array))


def wrong_tables() -> dict[str, pa.Table]:
    good = sound_run()
    order = good["diff"].to_pylist()
    minus = order.index(-1)
    nullable = pa.schema([field.with_nullable(True) for field in good.schema])
    loose = good.cast(nullable)
    swapped = list(range(3))
    swapped[minus], swapped[minus + 1] = minus + 1, minus
    texts = pa.array([["a"], ["b"], ["c"]])
    return {
        "unsorted": good.take(pa.array([2, 1, 0]))
        if minus == 0
        else good.take(pa.array([1, 2, 0])),
        "plus before minus": good.take(pa.array(swapped)),
        "twice": good.take(pa.array([minus, minus, minus + 1])),
        "null time": column(loose, "time", pa.array([2, None, 2], pa.uint64())),
        "null hash": column(loose, "hash", pa.array([None, 2, 2], pa.uint64())),
        "null diff": column(loose, "diff", pa.array([None, 1, 1], pa.int64())),
        "null key": column(loose, "key", pa.array([None] * 3, good.schema.field("key").type)),
        "other epoch": column(good, "time", pa.array([2, 2, 3], pa.uint64())),
        "epoch before": column(good, "time", pa.array([0, 2, 2], pa.uint64())),
        "diff of two": column(good, "diff", pa.array([-1, 1, 2], pa.int64())),
        "hash of other type": column(good, "hash", pa.array([1, 2, 3], pa.int64())),
        "key of other type": column(good, "key", pa.array([{"id": "1"}] * 3)),
        "value that is no struct": column(good, "value", texts),
        "value of other type": column(good, "value", pa.array([{"text": 1, "n": 2}] * 3)),
        "value with another column": column(good, "value", pa.array([{"more": 1.5}] * 3)),
        "error of other type": column(good, "error", pa.array([1, 2, 3])),
        "fewer columns": good.drop_columns(["error"]),
        "more columns": good.append_column("more", pa.array([1, 2, 3])),
        "columns in another order": good.select([1, 0, 2, 3, 4, 5]),
    }


@pytest.mark.parametrize("name", wrong_tables())
def test_a_file_that_is_wrong_inside_is_damage_though_its_checksum_is_right(name) -> None:
    rig = Rig(MemoryBucket(), ONE)
    rig.apply({})
    rig.apply({})
    snapshot = forged(rig, wrong_tables()[name])
    with pytest.raises(DamagedEntry) as wrong:
        rig.state(snapshot=snapshot)
    assert wrong.value.path.endswith("AV.arrow")
    with pytest.raises(DamagedEntry):
        rig.look([1, 2], snapshot)


def test_a_forged_file_that_is_right_is_read(monkeypatch) -> None:
    rig = Rig(MemoryBucket(), ONE)
    rig.apply({})
    rig.apply({})
    good = sound_run()
    assert rig.look([1, 2], forged(rig, good)) == {1: value(1), 2: value(2)}
    for fields in ({"rows": 4}, {"errors": 1}, {"first": 1, "last": 1}, {"byte_count": 5}):
        with pytest.raises(DamagedEntry):
            rig.state(snapshot=forged(rig, good, **fields))
    two = Definition(ONE.key, ONE.value, 2)
    other = replace(forged(rig, good), definition=two)
    with pytest.raises(DamagedEntry, match="another bucket"):
        open_file(rig.store, other, other.files[0])
    half = pa.concat_tables([good.slice(0, 2), good.slice(1, 2)])  # The seam of two batches.
    with pytest.raises(DamagedEntry, match="two rows at once"):
        rig.state(snapshot=forged(rig, half))


def test_a_base_with_a_key_twice_is_damage() -> None:
    rig = Rig(MemoryBucket(), ONE)
    rig.apply({})
    rig.apply({})
    row = sound_run().slice(0, 1).select(ONE.state.names)
    rig.state(snapshot=forged(rig, row, kind="base"))
    with pytest.raises(DamagedEntry, match="two rows at once"):
        rig.state(snapshot=forged(rig, pa.concat_tables([row, row]).combine_chunks(), kind="base"))


def test_a_file_with_a_batch_of_no_rows_is_damage() -> None:
    rig = Rig(MemoryBucket(), ONE)
    rig.apply({})
    rig.apply({})
    good = sound_run().combine_chunks().to_batches()[0]
    data = encode_file(good.schema, [good, good.slice(0, 0)])
    name = "runs/01ARZ3NDEKTSV4RRFFQ69G5FAV.arrow"
    rig.store.put(name, data)
    ref = FileRef("run", 0, name, 3, 0, data.size, crc32c(data), 1, 2)
    with pytest.raises(DamagedEntry, match="no rows"):
        open_file(rig.store, rig.snapshot, ref)


def test_rows_that_make_no_sense_are_not_written() -> None:
    rig = Rig()
    snapshot, store = rig.snapshot, rig.store
    table = diffs_of(DEFINITION, [(1, None, value(1))], 1)
    own = int(table["hash"][0].as_py() % 4)
    cases = {
        "of bucket": (table, (own + 1) % 4),
        "of one key, and of one diff": (pa.concat_tables([table, table]), own),
        "neither": (column(table, "diff", pa.array([0], pa.int64())), own),
        "epoch 0": (column(table, "time", pa.array([0], pa.uint64())), own),
        "lack": (table.drop_columns(["error"]), own),
        "'value'": (column(table, "value", pa.array([{"text": 1}])), own),
        "no bucket": (table, 4),
    }
    for match, (rows, bucket) in cases.items():
        with pytest.raises(InputError, match=match):
            write_run(store, snapshot, rows, bucket=bucket)
    loose = pa.schema([field.with_nullable(True) for field in table.schema])
    nothing = column(table.cast(loose), "time", pa.array([None], pa.uint64()))
    with pytest.raises(InputError, match="null"):
        write_run(store, snapshot, nothing, bucket=own)
    state = table.select(DEFINITION.state.names).to_batches()
    with pytest.raises(InputError, match="of one key"):
        write_base(store, snapshot, state * 2, bucket=own, epoch=0)
    assert [seen.key for seen in store.list("")] == ["manifest"]
    assert write_run(store, snapshot, table.slice(0, 0), bucket=own) is None


def test_an_empty_base_says_that_nothing_is_left(tmp_path) -> None:
    rig = Rig(FolderBucket(str(tmp_path)), ONE)
    rig.apply({1: value(1)})
    rig.apply({1: None})
    rig.fold(0)
    base = rig.snapshot.base(0)
    assert base is not None
    assert (base.rows, base.last) == (0, 2)
    assert rig.look([1]) == {}
    for epoch in (0, 1, 2):
        assert rig.state(epoch) == rig.model(epoch)


def test_what_is_too_large_for_one_batch_is_taken_from_many(monkeypatch) -> None:
    """As a bucket is whose text has more than the 2 GiB that one column of Arrow's holds."""
    monkeypatch.setattr(gathering, "WHOLE_BYTES_MAX", 200)
    monkeypatch.setattr(reading, "READ_ROWS", 4)
    rig = Rig(MemoryBucket(), ONE)
    for number in range(5):
        rig.apply({n: value(n * number) if n % 4 else None for n in range(number, 40, number + 1)})
    rig.merge(0, 3)
    rig.check_all()
    rig.fold(0, 2)
    rig.fold(0)
    parts = open_file(rig.store, rig.snapshot, rig.snapshot.base(0))
    assert all(part.rows.nbytes <= 300 or part.rows.num_rows == 1 for part in parts)
    assert len(parts) > 3
    rig.check_all()


def test_large_files_have_many_batches(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(writing, "BATCH_ROWS", 3)
    rig = Rig(FolderBucket(str(tmp_path)), ONE)
    rig.apply({n: value(n) for n in range(20)})
    rig.apply({n: value(-n) if n % 3 else None for n in range(0, 20, 2)})
    rig.merge(0, 2)
    rig.check_all()
    rig.fold(0, 1)
    assert len(open_file(rig.store, rig.snapshot, rig.snapshot.base(0))) == 7
    rig.check_all()
    for asked in ([0], [19], list(range(20)), [7, 7, 99]):
        assert rig.look(asked) == {n: found for n, found in rig.model().items() if n in asked}
    monkeypatch.setattr(writing, "BATCH_ROWS", 1000)
    monkeypatch.setattr(writing, "BATCH_BYTES", 100)
    rig.fold(0)
    assert len(open_file(rig.store, rig.snapshot, rig.snapshot.base(0))) > 4
    rig.check_all()


def test_what_is_asked_of_no_bucket_or_epoch_is_refused(rig) -> None:
    snapshot, store = rig.snapshot, rig.store
    for epoch in (-1, 3):
        with pytest.raises(InputError, match="it can from 0 to 2"):
            rows_as_of(store, snapshot, 0, epoch=epoch)
        with pytest.raises(InputError):
            changes(store, snapshot, 0, after=epoch)
    with pytest.raises(InputError, match="before they begin"):
        changes(store, snapshot, 0, after=2, through=1)
    with pytest.raises(InputError, match="no bucket 1"):
        State(store, snapshot, 1)
    two = Rig(MemoryBucket())
    keys = diffs_of(DEFINITION, [(1, None, value(1))], 1)
    (own,) = (keys["hash"].to_numpy() % np.uint64(4)).tolist()
    state = State(two.store, two.snapshot, (own + 1) % 4)
    with pytest.raises(InputError, match="not of bucket"):
        state.lookup(keys["hash"].to_numpy(), keys["key"].combine_chunks())


def test_no_collection_is_made_among_the_files_of_a_store() -> None:
    bucket = MemoryBucket("store")
    bucket.put("quiver.json", b"{}")
    with pytest.raises(InputError, match="no place for a collection"):
        Collection.open(bucket, DEFINITION, create=True)
    assert [each.key for each in bucket.list("")] == ["quiver.json"]
