"""Files read and written in pieces: as large as it may be, a bucket is never whole in memory."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from persist_kit import DEFINITION, Rig, hashes_of

from quiver.errors import DamagedEntry, InputError
from quiver.ship.objects import FolderBucket, MemoryBucket
from quiver.upsert.persist import checking, close_all, reading, rows_as_of, write_base, writing
from quiver.upsert.persist.opened import open_file
from quiver.upsert.persist.ranges import ranges
from quiver.upsert.rows import Definition
from quiver.upsert.tending import Limits, tend

SEEDS = 3 if os.environ.get("QUIVER_UPSERT") == "all" else 1
ONE = Definition(DEFINITION.key, DEFINITION.value, 1)


@pytest.fixture(autouse=True, scope="module")
def _any_hash() -> Iterator[None]:
    """Keys are hashed otherwise here, so that many share a hash."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checking, "HASHES_SEEN", 0)
        yield


def value(n: int) -> dict[str, object]:
    return {"text": str(n), "n": n}


def eight_hashes(keys: pa.StructArray) -> np.ndarray:
    """Hash as nobody should: eight numbers for all keys, so that ranges and batches meet them."""
    return np.array([key["id"] % 8 * 1000 for key in keys.to_pylist()], np.uint64)


@pytest.fixture
def small(monkeypatch) -> None:
    """Make ranges and batches so small that a few rows are many of them."""
    monkeypatch.setattr(writing, "BATCH_BYTES", 256)
    monkeypatch.setattr(reading, "READ_ROWS", 3)
    monkeypatch.setattr(reading, "READ_BYTES", 512)
    real = ranges
    monkeypatch.setattr(
        reading, "ranges", lambda parts, rows_max=7: real(parts, rows_max=min(rows_max, 7))
    )
    close_all()


@pytest.mark.parametrize("hashes", [hashes_of, eight_hashes], ids=["hashes", "eight hashes"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_folds_and_merges_in_pieces_keep_every_epoch(small, hashes, seed) -> None:
    lot = random.Random(seed)
    rig = Rig(MemoryBucket(), ONE, hashes=hashes)
    limits = Limits(live_runs_max=2, past_runs_max=2, fold_rows_min=20)
    for _ in range(12):
        keys = lot.sample(range(80), 25)
        rig.apply({key: value(lot.randrange(9)) if lot.random() < 0.8 else None for key in keys})
        tend(rig.writer, limits, clock=rig.clock)
        close_all()
    base = rig.snapshot.base(0)
    assert base is not None
    if hashes is hashes_of:
        assert len(open_file(rig.store, rig.snapshot, base)) > 3
    rig.check_all()
    assert rig.look(range(100)) == rig.model()


def test_ranges_part_rows_but_no_hash(small) -> None:
    rig = Rig(MemoryBucket(), ONE, hashes=eight_hashes)
    for first in (0, 20, 40):
        rig.apply({n: value(n) for n in range(first, first + 30)})
    parts = [p for ref in rig.snapshot.files for p in open_file(rig.store, rig.snapshot, ref)]
    seen: list[set[int]] = []
    rows = 0
    for some in ranges(parts, rows_max=10):
        assert len(some) == len(parts)
        seen.append({int(each) for part in some for each in part.hashes})
        for part in some:
            assert part.rows.column("hash").to_pylist() == part.hashes.tolist()
            rows += part.rows.num_rows
    assert rows == sum(ref.rows for ref in rig.snapshot.files)
    assert len(seen) > 4
    flat = [each for hashes in seen for each in sorted(hashes)]
    assert flat == sorted(set(flat))


def test_a_range_has_few_more_rows_than_it_may() -> None:
    rig = Rig(MemoryBucket(), ONE)
    for _ in range(3):
        rig.apply({n: value(n) for n in range(2000)})
    parts = [p for ref in rig.snapshot.files for p in open_file(rig.store, rig.snapshot, ref)]
    sizes = [sum(len(part.hashes) for part in some) for some in ranges(parts, rows_max=500)]
    assert sum(sizes) == 10_000
    assert max(sizes) <= 2 * 500


def test_a_base_asks_for_rows_when_those_before_are_written(monkeypatch, tmp_path) -> None:
    rig = Rig(FolderBucket(str(tmp_path)), ONE)
    rig.apply({n: value(n) for n in range(300)})
    monkeypatch.setattr(writing, "BATCH_BYTES", 256)
    monkeypatch.setattr(reading, "READ_ROWS", 10)
    sizes = []

    def asked():
        for batch in rows_as_of(rig.store, rig.snapshot, 0):
            sizes.append(sum(f.stat().st_size for f in (tmp_path / "bases").iterdir()))
            yield batch

    ref = write_base(rig.store, rig.snapshot, asked(), bucket=0, epoch=1)
    assert len(sizes) == 30
    assert len(set(sizes)) > 20
    assert sizes[-1] > ref.byte_count // 2


def test_rows_that_do_not_come_by_hash_make_no_base(small, tmp_path) -> None:
    rig = Rig(FolderBucket(str(tmp_path)), ONE)
    rig.apply({n: value(n) for n in range(60)})
    batches = list(rows_as_of(rig.store, rig.snapshot, 0))
    with pytest.raises(InputError, match="do not come by hash"):
        write_base(rig.store, rig.snapshot, batches[::-1], bucket=0, epoch=1)
    assert list(rig.store.list("bases/")) == []
    assert [f.name for f in (tmp_path / "bases").iterdir()] == []


def test_what_contradicts_itself_in_a_later_range_makes_no_base(small, tmp_path) -> None:
    rig = Rig(FolderBucket(str(tmp_path)), ONE)
    rig.apply({n: value(n) for n in range(60)})
    rig.fold(0)
    last = max(range(60), key=lambda n: int(rig.hashes(_keys([n]))[0]))
    rig.states[1].pop(last)  # The model forgets a key, so that it comes twice.
    rig.apply({last: value(0)})
    rows = rows_as_of(rig.store, rig.snapshot, 0)
    with pytest.raises(DamagedEntry, match="contradict"):
        write_base(rig.store, rig.snapshot, rows, bucket=0, epoch=2)
    assert [f.name for f in (tmp_path / "bases").iterdir()] == [
        rig.snapshot.base(0).name.partition("/")[2]
    ]


def _keys(ids: list[int]) -> pa.StructArray:
    return pa.array([{"id": n} for n in ids], pa.struct(list(DEFINITION.key)))
