"""What was read of large files does not stay in memory; hashes are those of keys."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from persist_kit import DEFINITION, Rig, diffs_of

from quiver.errors import DamagedEntry
from quiver.ship.objects import FolderBucket, MemoryBucket
from quiver.upsert.persist import close_all, opened, reading, rows_as_of, write_run
from quiver.upsert.persist.opened import open_file
from quiver.upsert.rows import HASH, Definition

ONE = Definition(DEFINITION.key, DEFINITION.value, 1)


def value(n: int) -> dict[str, object]:
    return {"text": f"{n} is a number of " + "many " * 30, "n": n}


def resident_bytes(path: str) -> int:
    """Say how much of a mapped file is memory of this process."""
    found, inside = 0, False
    with open("/proc/self/smaps", encoding="utf-8") as file:
        for line in file:
            if "-" in line.split(" ", 1)[0]:
                inside = line.rstrip().endswith(path)
            elif inside and line.startswith("Rss:"):
                found += int(line.split()[1]) << 10
    return found


@pytest.fixture
def rig(tmp_path, monkeypatch) -> Rig:
    """One bucket: a base and a run behind it, both taken for large, and a run before it."""
    monkeypatch.setattr(opened, "_LARGE", 4096)
    monkeypatch.setattr(reading, "RANGE_ROWS", 100)
    rig = Rig(FolderBucket(str(tmp_path)), ONE)
    rig.apply({n: value(n) for n in range(1500)})
    rig.fold(0)
    rig.apply({n: value(-n) for n in range(700)})
    close_all()
    return rig


def test_what_was_checked_of_a_large_file_is_not_in_memory_any_more(rig) -> None:
    for ref in rig.snapshot.files:
        parts = open_file(rig.store, rig.snapshot, ref)
        assert ref.byte_count > 100_000
        assert resident_bytes(f"{rig.store.place}/{ref.name}") == 0
        assert sum(part.rows.num_rows for part in parts) == ref.rows
    assert rig.state() == rig.model()


def test_a_large_file_is_summed_up_to_its_last_byte(rig) -> None:
    ref = rig.snapshot.files[0]
    path = os.path.join(rig.store.place, ref.name)
    for place in (0, 4095, 4096, ref.byte_count - 1):
        with open(path, "r+b") as file:
            file.seek(place)
            was = file.read(1)
            file.seek(place)
            file.write(bytes([was[0] ^ 1]))
        close_all()
        with pytest.raises(DamagedEntry, match="checksum of a file is wrong"):
            open_file(rig.store, rig.snapshot, ref)
        with open(path, "r+b") as file:
            file.seek(place)
            file.write(was)
    close_all()
    assert rig.state() == rig.model()


def test_what_is_read_range_by_range_reads_as_it_is_and_goes_out_of_memory(rig) -> None:
    snapshot = rig.snapshot
    for epoch in (1, 2):
        assert rig.state(epoch=epoch) == rig.model(epoch)
    for _ in rows_as_of(rig.store, snapshot, 0):
        pass
    paths = [f"{rig.store.place}/{ref.name}" for ref in snapshot.files]
    assert [resident_bytes(path) for path in paths] == [0] * len(paths)


@pytest.mark.parametrize("rows", [1, 2, 63, 64, 65, 300])
def test_a_writer_that_hashes_otherwise_is_found(rows: int) -> None:
    rig = Rig(MemoryBucket(), ONE)
    table = diffs_of(ONE, [(n, None, value(n)) for n in range(rows)], 1)
    at = table.schema.get_field_index(HASH)
    hashes = pa.array([each ^ 1 for each in table[HASH].to_pylist()], pa.uint64())
    ref = write_run(rig.store, rig.snapshot, table.set_column(at, HASH, hashes), bucket=0)
    with pytest.raises(DamagedEntry, match=r"hash of a row .* is not that of its key"):
        open_file(rig.store, rig.snapshot, ref)
    good = write_run(rig.store, rig.snapshot, table, bucket=0)
    assert sum(part.rows.num_rows for part in open_file(rig.store, rig.snapshot, good)) == rows
