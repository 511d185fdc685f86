"""``finalize``: what a stopped process left in the WAL is in segments then."""

from __future__ import annotations

import pyarrow as pa

import quiver


def test_bundles_of_the_log_become_a_segment(run, store) -> None:
    assert quiver.scan(store, slot="traces").segments[-1].segment_seq == 0
    result = run("finalize", store)
    assert result.code == 0
    assert "2 bundles brought back from the WAL" in result.out
    assert "1 segment written, 2 in the store" in result.out
    found = quiver.scan(store, slot="traces").to_table()
    assert found["t"].to_pylist() == ["x", "y", "z"]


def test_a_second_time_there_is_nothing_to_do(run, store) -> None:
    run("finalize", store)
    (core,) = run("finalize", store, "--json").document["cores"]
    assert (core["replayed_bundle_count"], core["written_segment_count"]) == (0, 0)
    assert (core["segment_count"], core["next_wal_seq"]) == (2, 5)


def test_every_core_is_finalized(run, store) -> None:
    with quiver.open(store, core=2, worker=False) as second:
        second.append({"logs": pa.table({"n": [1]})})
    assert [core["core"] for core in run("finalize", store, "--json").document["cores"]] == [0, 2]
    assert run("finalize", store).out.splitlines()[0].split() == ["core", "0"]


def test_a_torn_tail_is_cut_and_told(run, store) -> None:
    log = store / "core_0/wal/quiver.wal"
    size = log.stat().st_size
    with log.open("ab") as file:
        file.write(b"\x40\0\0\0")
    result = run("finalize", store)
    assert result.code == 0
    assert f"an append that was not finished, in {log} at byte {size:,}" in result.out


def test_damage_is_set_aside_told_and_exit_code_9(run, store, kit) -> None:
    log = store / "core_0/wal/quiver.wal"
    bundles = [i for i in run("dump", log, "--json").lines if i["kind"] == "bundle"]
    kit.flip(log, bundles[3]["offset"] + 100)
    result = run("finalize", store, "--json")
    assert result.code == 9
    (core,) = result.document["cores"]
    assert core["replayed_bundle_count"] == 1
    (damage,) = core["damage"]
    assert (damage["path"], damage["offset"]) == (str(log), bundles[3]["offset"])
    assert list((store / "core_0/quarantine").iterdir())


def test_strictly_damage_is_left_as_it_is_and_exit_code_9(run, store, kit) -> None:
    log = store / "core_0/wal/quiver.wal"
    kit.flip(log, run("dump", log, "--json").lines[-1]["offset"] + 100)
    before = log.read_bytes()
    result = run("finalize", store, "--strict")
    assert (result.code, result.out) == (9, "")
    assert str(log) in result.err
    assert log.read_bytes() == before
    assert not (store / "core_0/quarantine").exists()
    assert run("finalize", store).code == 9


def test_strictly_a_store_without_damage_is_finalized(run, store) -> None:
    (core,) = run("finalize", store, "--strict", "--json").document["cores"]
    assert core["replayed_bundle_count"] == 2


def test_a_person_sees_how_far_the_recovery_is(store, kit) -> None:
    assert "recovering" in kit.on_terminal("finalize", str(store))
    assert "recovering" not in kit.on_terminal("finalize", "--quiet", str(store))
