"""``gc``: what subscribers in other processes did is taken over where nobody has the store open."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

import quiver


def segments(store) -> list[Path]:
    return sorted((store / "core_0/segments").iterdir())


def finish(store, *names: str) -> None:
    """Let subscribers, each in a process of its own as it were, take all that there is."""
    for name in names:
        with quiver.subscribe(store, name, worker=False) as consumer:
            while (handle := consumer.poll()) is not None:
                handle.ack()


def test_what_all_have_is_deleted(run, store) -> None:
    run("finalize", store)
    with quiver.open(store, worker=False) as opened:
        opened.reset("spark")  # It would wait for an hour.
    finish(store, "parquet", "spark")
    assert len(segments(store)) == 2
    freed = sum(path.stat().st_size for path in segments(store))
    (core,) = run("gc", store, "--json").document["cores"]
    assert (core["folded_bundle_count"], core["deleted_segment_count"]) == (9, 2)
    assert (core["deleted_bytes"], core["segment_count"], core["segment_bytes"]) == (freed, 0, 0)
    assert core["writer_pid"] is None
    assert segments(store) == []


def test_what_one_still_needs_stays(run, store) -> None:
    finish(store, "parquet")
    result = run("gc", store)
    assert result.code == 0
    text = "2 bundles taken over from subscribers, 0 segments deleted; 2 segments, "
    assert result.out.startswith(text)
    assert "0 bundles taken over" in run("gc", store).out
    assert len(segments(store)) == 2


def test_one_who_is_new_is_registered_and_counts(run, store) -> None:
    finish(store, "new")
    assert run("gc", store, "--json").document["cores"][0]["folded_bundle_count"] == 3
    names = [item["name"] for item in run("ls", store, "subscribers", "--json").lines]
    assert names == ["new", "parquet", "spark"]


def test_a_core_that_somebody_writes_is_left_alone(run, store) -> None:
    with quiver.open(store, core=2, worker=False) as second:
        second.append({"logs": pa.table({"n": [1]})})
        result = run("gc", store)
        found = run("gc", store, "--json").document["cores"]
    assert result.code == 0
    first, other = result.out.splitlines()
    assert first.startswith("core 0: 0 bundles taken over")
    assert other == f"core 2: left alone: process {os.getpid()} writes it, and does this by itself"
    assert [core["writer_pid"] for core in found] == [None, os.getpid()]
    assert found[1]["deleted_bytes"] is None


def test_damage_met_while_opening_is_told(run, store, kit) -> None:
    log = store / "core_0/wal/quiver.wal"
    bundles = [i for i in run("dump", log, "--json").lines if i["kind"] == "bundle"]
    kit.flip(log, bundles[3]["offset"] + 100)
    result = run("gc", store)
    assert result.code == 0
    assert "quiver: set aside while opening:" in result.err


def test_no_store_is_exit_code_3(run, tmp_path) -> None:
    assert run("gc", tmp_path).code == 3
    assert list(tmp_path.iterdir()) == []
