"""``info`` and ``ls``: what they say, that they change nothing, also beside a live writer."""

from __future__ import annotations

from contextlib import closing

import pyarrow as pa
import pytest

import quiver
from quiver.cli import inspect
from quiver.disk import LocalDisk
from quiver.engine.beside import read_acks
from quiver.errors import DamagedEntry, StorageError
from quiver.wal import rotated_generation

ACTIVE = "core_0/wal/quiver.wal"
ACKS = "core_0/acks/ack.log"
SEGMENT = "core_0/segments/0000000000000000.qseg"


def test_info_tells_what_each_station_holds(run, filled) -> None:
    fields = run("info", filled, "--json").document
    assert fields["path"] == str(filled)
    assert [slot["name"] for slot in fields["slots"]] == ["logs", "traces"]
    (core,) = fields["cores"]
    wal = core["wal"]
    assert (wal["file_count"], wal["bundle_count"]) == (1, 5)
    assert (wal["wal_seq_first"], wal["wal_seq_last"]) == (0, 4)
    assert wal["file_bytes"] == (filled / ACTIVE).stat().st_size
    assert core["open_segment"]["bundle_count"] == 2
    segments = core["segments"]
    assert (segments["segment_count"], segments["bundle_count"]) == (1, 3)
    assert (segments["wal_seq_first"], segments["wal_seq_last"]) == (0, 2)
    assert segments["file_bytes"] == (filled / SEGMENT).stat().st_size
    parquet, spark = core["subscribers"]
    assert (parquet["name"], parquet["lag_bundle_count"], parquet["gap_count"]) == ("parquet", 2, 1)
    assert (spark["name"], spark["lag_bundle_count"], spark["nacked_bundle_count"]) == (
        "spark",
        3,
        1,
    )
    assert core["acks"]["record_count"] == 8
    used = sum(p.stat().st_size for p in (filled / "core_0").rglob("*") if p.is_file())
    sidecar = (filled / "core_0/wal/truncate.offset").stat().st_size
    assert (
        core["retention"]["used_bytes"] == used - sidecar - (filled / "core_0/LOCK").stat().st_size
    )


def test_info_shows_the_stations_in_the_order_of_the_flow(run, filled) -> None:
    lines = run("info", filled).out.splitlines()
    names = [line[: line.index("  ")] for line in lines]
    assert names == [
        "store",
        "slots",
        "wal",
        "open segment",
        "segments",
        "subscribers",
        "acks",
        "retention",
    ]
    assert all(line == line.rstrip() for line in lines)


def test_info_counts_every_core(run, store) -> None:
    with quiver.open(store, core=3, worker=False) as second:
        second.append({"logs": pa.table({"n": [1]})})
    assert [core["core"] for core in run("info", store, "--json").document["cores"]] == [0, 3]
    assert "core 3" in run("info", store).out
    assert [line["core"] for line in run("ls", store, "segments", "--json").lines] == [0, 3]


def test_info_counts_damage_and_goes_on(run, store, kit) -> None:
    kit.flip(store / ACTIVE, 60)
    kit.flip(store / ACKS, 80)
    kit.flip(store / SEGMENT, (store / SEGMENT).stat().st_size - 20)
    (core,) = run("info", store, "--json").document["cores"]
    assert core["wal"]["damage_count"] == 1
    assert core["acks"]["damage_count"] == 1
    assert core["segments"]["damage_count"] == 1
    assert core["segments"]["segment_count"] == 0
    assert run("info", store).out.count("see quiver check") == 3
    damaged = [line for line in run("ls", store, "--json").lines if line.get("is_damaged")]
    assert [line["segment_seq"] for line in damaged] == [None]


@pytest.mark.parametrize("noun", ["wal", "segments", "subscribers", "bundles"])
def test_ls_lists_one_noun_as_a_table_and_as_json_lines(run, filled, noun) -> None:
    items = run("ls", filled, noun, "--json").lines
    expected = {"wal": 1, "segments": 1, "subscribers": 2, "bundles": 3}
    assert len(items) == expected[noun]
    title, head, *rows = run("ls", filled, noun).out.splitlines()
    assert title == noun
    assert len(rows) == len(items)
    assert head.split()


def test_ls_bundles_gives_each_bundle_and_its_slots(run, filled) -> None:
    items = run("ls", filled, "bundles", "--json").lines
    assert [(i["segment_seq"], i["bundle_index"], i["wal_seq"]) for i in items] == [
        (0, 0, 0),
        (0, 1, 1),
        (0, 2, 2),
    ]
    assert all(item["slots"] == ["logs"] for item in items)


def test_ls_says_so_where_there_is_nothing(run, tmp_path) -> None:
    with quiver.open(tmp_path / "new", slots=["a"]):
        pass
    text = run("ls", tmp_path / "new").out
    assert "segments: none yet" in text
    assert "subscribers: none" in text


@pytest.mark.parametrize("arguments", [["info"], ["info", "--json"], ["ls"], ["check"]])
def test_looking_changes_no_byte_and_needs_no_lock(run, store, kit, arguments) -> None:
    with (store / ACTIVE).open("ab") as file:
        file.write(b"torn")
    (store / "core_0/segments/0000000000000009.qseg.tmp").write_bytes(b"half")
    before = kit.tree_digest(store)
    assert run(*arguments, store).code == 0
    assert kit.tree_digest(store) == before


def test_a_store_being_written_looks_sound(run, tmp_path) -> None:
    config = {"wal": {"rotate_size": "2kB", "reclaim_size": "1kB"}}
    with quiver.open(tmp_path / "s", slots=["a"], config=config, worker=False) as store:
        for number in range(12):
            store.append({"a": pa.table({"n": [number]})})
            if number == 8:
                store.finalize()
            result = run("check", tmp_path / "s")
            assert (result.code, result.out.count("note")) == (0, 0)
            core = run("info", tmp_path / "s", "--json").document["cores"][0]
            held = core["wal"]["wal_seq_last"], core["segments"]["wal_seq_last"]
            assert max(-1 if seq is None else seq for seq in held) == number
            waiting = number + 1 if number < 8 else number - 8
            assert core["open_segment"]["bundle_count"] == waiting


class RotatingDisk(LocalDisk):
    """A disk on which the active file becomes a rotated one behind the back of who lists it."""

    rotations_max = 1
    rotations = 0

    def list_dir(self, path):
        found = super().list_dir(path)
        if path.endswith("/wal") and self.rotations < self.rotations_max:
            self.rotations += 1
            self.rename(f"{path}/quiver.wal", f"{path}/quiver.wal.{6 + self.rotations}")
            self.create(f"{path}/quiver.wal").close()
        return found


def test_a_rotation_while_the_log_is_opened_makes_it_start_over(store) -> None:
    with closing(RotatingDisk(store)) as disk, inspect.open_wal(disk, 0, newest=None) as files:
        assert [(file.generation, file.is_active) for file in files] == [(7, False), (8, True)]
        assert files[0].file.size() == (store / "core_0/wal/quiver.wal.7").stat().st_size


def test_a_log_that_never_holds_still_is_an_error_and_no_endless_loop(store) -> None:
    class Restless(RotatingDisk):
        rotations_max = 1000

    with closing(Restless(store)) as disk, pytest.raises(StorageError, match="change faster"):
        inspect.open_wal(disk, 0, newest=None).__enter__()


def test_damage_that_a_second_walk_does_not_find_was_the_writer_at_work(store) -> None:
    visits = []

    def fail_once(bundle):
        visits.append(bundle.wal_seq)
        if len(visits) == 1:
            raise DamagedEntry("reclaimed under the reader")

    with closing(LocalDisk(store)) as disk:
        (state,) = inspect.survey_wal(disk, 0, newest=None, digest=None, visit=fail_once)
    assert state.damage == []
    assert visits == [0, 1, 2, 3, 4] * 2


@pytest.mark.parametrize(
    "name, generation",
    [
        ("quiver.wal.7", 7),
        ("quiver.wal", None),
        ("quiver.wal.07", None),
        ("quiver.wal.0", None),
        ("quiver.wal.tmp", None),
        ("quiver.wal.²", None),
        ("other.7", None),
    ],
)
def test_a_rotated_file_is_known_by_its_name(name, generation) -> None:
    assert rotated_generation(name) == generation


def test_outcomes_are_read_as_the_store_reads_them(store) -> None:
    with closing(LocalDisk(store)) as disk:
        seen = read_acks(disk, 0, {0: 3})
    with quiver.open(store, worker=False) as opened:
        assert opened.info().subscribers == tuple(seen.registry.names())
        assert seen.registry.snapshot() == opened._core.registry.snapshot()
