"""A collection against a dictionary, whatever is folded and merged in between."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from persist_kit import DEFINITION, Rig, as_dict, diffs_of, error

from quiver.errors import DamagedEntry
from quiver.ship.objects import FolderBucket, MemoryBucket
from quiver.upsert.persist import Snapshot, changes, reading, rows_as_of, write_run
from quiver.upsert.rows import Definition


def value(lot: random.Random) -> object:
    if lot.random() < 0.1:
        return error(lot.choice(("bad", "worse")))
    return {"text": lot.choice(("a", "bb", "", None)), "n": lot.randrange(9)}


@pytest.mark.parametrize("seed", range(6))
def test_it_is_what_a_dictionary_is(seed, tmp_path):
    lot = random.Random(seed)
    rig = Rig(FolderBucket(str(tmp_path)) if seed % 2 else MemoryBucket())
    for _ in range(12):
        keys = lot.sample(range(60), lot.randrange(30))
        rig.apply({key: value(lot) if lot.random() < 0.8 else None for key in keys})
        if lot.random() < 0.5:
            rig.fold(lot.randrange(4), lot.randrange(rig.snapshot.upper))
        if lot.random() < 0.5:
            rig.merge(lot.randrange(4), lot.randrange(2, 5))
    rig.check(lot)


def test_a_new_collection_is_empty_as_of_epoch_0(tmp_path):
    rig = Rig(FolderBucket(str(tmp_path)))
    snapshot = rig.snapshot
    assert (snapshot.since, snapshot.upper, snapshot.latest) == (0, 1, 0)
    assert rig.state() == rig.state(0) == {}
    assert rig.look([1, 2]) == {}


def without(rig: Rig, *names: str) -> Snapshot:
    """Take files out of a snapshot, as no manifest should."""
    snapshot = rig.snapshot
    files = tuple(ref for ref in snapshot.files if ref.name not in names)
    return replace(snapshot, manifest=replace(snapshot.manifest, files=files))


def filled() -> Rig:
    rig = Rig(MemoryBucket(), Definition(DEFINITION.key, DEFINITION.value, 1))
    for n in range(5):
        rig.apply({1: good(n) if n % 2 == 0 else None, 2: good(n), n + 10: good(n)})
    return rig


def good(n: int) -> dict[str, object]:
    return {"text": "", "n": n}


def test_a_run_that_is_missing_in_a_manifest_is_noticed() -> None:
    rig = filled()
    for run in rig.snapshot.runs(0)[:-1]:
        with pytest.raises(DamagedEntry, match="contradict"):
            rig.state(snapshot=without(rig, run.name))
    rig.fold(0, 2)
    base, *runs = rig.snapshot.files
    assert base.kind == "base"
    for run, epoch in ((runs[2], 4), (runs[2], 5), (runs[3], 5)):
        with pytest.raises(DamagedEntry, match="contradict"):
            rig.state(epoch, without(rig, run.name))
    for epoch in range(3, 6):
        with pytest.raises(DamagedEntry, match="contradict"):
            rig.state(epoch, without(rig, base.name, runs[0].name))


@pytest.mark.parametrize("change", [(1, None, good(7)), (9, good(7), None), (2, good(7), None)])
def test_differences_to_what_was_not_there_are_noticed_when_all_is_read(change) -> None:
    rig = filled()
    rig.fold(0)
    diffs = diffs_of(rig.snapshot.definition, [change], 6)
    rig.writer.append([write_run(rig.store, rig.snapshot, diffs, bucket=0)], 6)
    if change[0] == 2:  # That it had another value is not compared.
        assert 2 not in rig.state()
        return
    with pytest.raises(DamagedEntry, match="contradict"):
        rig.state()
    rig.state(5)


def test_batches_that_are_read_are_not_too_large(monkeypatch) -> None:
    rig = filled()
    rig.apply({n: {"text": "x" * 1000, "n": n} for n in range(50)})
    rig.apply({n: good(1) for n in range(0, 50, 5)})
    monkeypatch.setattr(reading, "READ_BYTES", 4000)
    snapshot = rig.snapshot
    for fold in (False, True):
        if fold:
            rig.fold(0)
            snapshot = rig.snapshot
        batches = list(rows_as_of(rig.store, snapshot, 0))
        assert as_dict(batches) == rig.model()
        assert 10 < len(batches) <= 50
        assert len(list(changes(rig.store, snapshot, 0, after=5))) > 10
