"""Looks at real stores: beside a writer, damaged, gone, and what a look costs."""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from beside_kit import Beside
from open_kit import WatchedDisk

import quiver
from quiver.cli.live.events import events_between
from quiver.cli.live.looking import Looker
from quiver.cli.live.rates import rates_between
from quiver.errors import StorageError
from quiver.observe import Observer


@pytest.fixture
def looker(store):
    looker = Looker(str(store))
    yield looker
    looker.close()


def told(before, after) -> list[str]:
    return [event.text for event in events_between(before, after)]


def ageless(look) -> list:
    """The cores of a look without what changes as time goes by."""
    return [
        dataclasses.replace(
            core,
            subscribers=tuple(
                dataclasses.replace(each, oldest_age_ns=None) for each in core.subscribers
            ),
        )
        for core in look.cores
    ]


def append(store: quiver.Store, count: int) -> None:
    for number in range(count):
        store.append({"logs": pa.table({"n": [number]})})


def test_a_look_tells_what_info_and_lag_tell(run, store, looker, kit) -> None:
    before = kit.tree_digest(store)
    look = looker.look()
    (info,) = run("info", store, "--json").document["cores"]
    (core,) = look.cores
    assert (look.problem, core.problem, core.damage) == (None, None, ())
    assert core.wal_bytes == info["wal"]["used_bytes"]
    assert core.open_bundle_count == info["open_segment"]["bundle_count"] == 2
    assert core.open_bytes == info["open_segment"]["payload_bytes"]
    assert core.next_wal_seq == info["wal"]["wal_seq_last"] + 1
    assert core.segment_bytes == info["segments"]["file_bytes"]
    with Observer(str(store)) as observer:
        (stats,) = observer.look().cores
    assert (core.used_bytes, core.acks_bytes) == (stats.used_bytes, stats.acks_bytes)
    assert core.used_bytes > core.segment_bytes + core.open_bytes
    lags = {item["name"]: item for item in run("lag", store, "--json").lines}
    assert [each.name for each in look.subscribers] == ["parquet", "spark"]
    for each in look.subscribers:
        assert each.bundle_count == lags[each.name]["open_bundle_count"]
        assert each.byte_count == lags[each.name]["open_bytes"]
        assert each.retrying_count == lags[each.name]["waiting_bundle_count"]
        assert abs(each.oldest_age_ns / 1e9 - lags[each.name]["oldest_open_seconds"]) < 60
    assert kit.tree_digest(store) == before


def test_a_writer_is_watched_at_work(store, looker) -> None:
    looks = [looker.look()]
    with quiver.open(store, worker=False) as opened:
        looks.append(looker.look())
        append(opened, 30)
        looks.append(looker.look())
        opened.finalize()
        looks.append(looker.look())
        subscribers = [opened.subscribe(name) for name in ("parquet", "spark")]
        opened.pause("spark")
        looks.append(looker.look())
        opened.resume("spark")
        while (handle := subscribers[0].poll()) is not None:
            handle.ack()
        opened.unsubscribe("spark")
        opened.maintain()
        looks.append(looker.look())
    looks.append(looker.look())
    pid = os.getpid()
    happened = [told(*pair) for pair in pairwise(looks)]
    assert happened[0] == [f"process {pid} began to write"]
    assert happened[1] == []
    assert [text.split(":")[0] for text in happened[2]] == ["segment 1 finalized"]
    assert happened[2][0].split(": ")[1].startswith("32 bundles, ")
    assert happened[3] == ["subscriber spark was paused"]
    assert [text.split(":")[0] for text in happened[4]] == [
        "2 segments, 0 to 1, deleted",
        "subscriber spark went",
    ]
    assert happened[5] == [f"process {pid} writes no more"]
    rates = [rates_between(*pair) for pair in pairwise(looks)]
    assert [rate.total.bundles > 0 for rate in rates] == [False, True, *[False] * 4]
    seconds = (looks[2].monotonic_ns - looks[1].monotonic_ns) / 1e9
    assert rates[1].total.bundles * seconds == pytest.approx(30)
    grown = looks[2].cores[0].open_bytes - looks[1].cores[0].open_bytes
    assert rates[1].total.bytes * seconds == pytest.approx(grown)
    seconds = (looks[5].monotonic_ns - looks[4].monotonic_ns) / 1e9
    assert rates[4].done["parquet"] * seconds == pytest.approx(34)


def test_what_came_and_went_between_two_looks_is_known_by_its_numbers(store, looker) -> None:
    with quiver.open(store, worker=False) as opened:
        opened.unsubscribe("spark")
        parquet = opened.subscribe("parquet")
        before = looker.look()
        for _ in range(3):
            append(opened, 10)
            opened.finalize()
        while (handle := parquet.poll()) is not None:
            handle.ack()
        opened.maintain()
        after = looker.look()
    assert told(before, after) == [
        "3 segments finalized and deleted since the last look",
        *told(before, after)[1:],
    ]
    seconds = (after.monotonic_ns - before.monotonic_ns) / 1e9
    rates = rates_between(before, after)
    assert rates.total.bundles * seconds == pytest.approx(30)
    assert rates.total.bytes > 0
    assert rates.done["parquet"] * seconds == pytest.approx(34)


def test_a_core_appears_and_one_of_them_is_chosen(store, looker) -> None:
    before = looker.look()
    with quiver.open(store, core=2, worker=False) as second:
        append(second, 3)
        after = looker.look()
        only = Looker(str(store), core=2)
        look = only.look()
        only.close()
    assert [core.core for core in after.cores] == [0, 2]
    assert told(before, after)[:2] == [
        "core 2 appeared",
        f"process {os.getpid()} began to write",
    ]
    assert [core.core for core in look.cores] == [2]
    assert look.cores[0].open_bundle_count == 3


def test_a_core_in_which_nothing_is_yet_is_no_problem(store, looker) -> None:
    (store / "core_5").mkdir()
    empty = looker.look().cores[1]
    assert (empty.core, empty.problem, empty.used_bytes, empty.segments) == (5, None, 0, {})


def test_a_store_vanishes_and_comes_back(store, looker) -> None:
    here = looker.look()
    away = store.with_name("away")
    store.rename(away)
    gone = looker.look()
    assert gone.cores == ()
    assert "store" in gone.problem
    away.rename(store)
    back = looker.look()
    assert told(gone, back) == ["the store is there again"]
    assert ageless(back) == ageless(here)
    shutil.rmtree(store)
    quiver.open(store, slots=["logs"], worker=False).close()
    other = looker.look()
    assert told(back, other) == ["another store is there now"]
    assert other.cores[0].next_wal_seq == 0


@pytest.mark.parametrize(
    "path, place",
    [
        ("core_0/segments/0000000000000000.qseg", -9),
        ("core_0/acks/ack.log", 70),
        ("core_0/wal/quiver.wal", 60),
        ("core_0/wal/quiver.wal", 5),
    ],
)
def test_damage_is_told_and_hides_nothing_else(store, looker, kit, path, place) -> None:
    size = (store / path).stat().st_size
    kit.flip(store / path, place % size)
    first, second = looker.look(), looker.look()
    assert first.problem is None
    assert first.cores[0].problem is None
    assert ageless(second) == ageless(first)
    assert any(path in text for text in first.cores[0].damage) == ("wal" not in path)
    assert [each.name for each in first.subscribers] == ["parquet", "spark"]


def test_a_core_that_cannot_be_read_hides_no_other(store, looker) -> None:
    with quiver.open(store, core=1, worker=False) as second:
        append(second, 3)
    before = looker.look()
    acks = store / "core_0/acks"
    shutil.rmtree(acks)
    acks.write_text("no folder")
    after = looker.look()
    broken, _ = after.cores
    assert broken.problem is not None
    assert broken.segments == before.cores[0].segments  # What was seen last.
    assert ageless(after)[1] == ageless(before)[1]
    assert told(before, after) == [broken.problem]
    acks.unlink()
    assert looker.look().cores[0].problem is None


def test_a_manifest_that_is_damaged_is_a_problem_and_no_more(store, looker, kit) -> None:
    looker.look()
    kit.flip(store / "quiver.json", 30)
    assert "quiver.json" in str(looker.look().problem)


def test_the_ends_of_segments_are_read_once_and_an_idle_store_costs_lists_of_names() -> None:
    beside = Beside()
    counts: dict[str, int] = {}

    def seen(what: str) -> None:
        counts[what] = counts.get(what, 0) + 1

    watched: Any = WatchedDisk(beside.disk, seen)
    looker = Looker("memory", clock=beside.clock, open_disk=lambda _: watched)

    def reads() -> tuple[int, int]:
        counts.clear()
        look = looker.look()
        assert look.problem is None
        return look.footer_count, counts["open"]

    with beside.open() as store:
        beside.fill(store, *[1] * 40)
        footers, opened_at_first = reads()
        assert footers == 40
        footers, opened = reads()
        assert (footers, opened < 15) == (0, True)
        beside.fill(store, *[1] * 60)
        assert reads()[0] == 60
        assert reads() == (0, opened)  # Of more than twice as many segments it costs the same.
        assert opened_at_first > 40
    looker.close()


def test_what_did_not_change_is_not_read_again(store, monkeypatch) -> None:
    for path in (store / "core_0/acks").rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    read: list[str] = []
    looker = Looker(str(store))
    honest = quiver.disk.LocalDisk.open

    def opening(disk, path, **options):
        read.append(path)
        return honest(disk, path, **options)

    monkeypatch.setattr("quiver.disk.LocalDisk.open", opening)
    first = looker.look()
    assert "core_0/acks/ack.log" in read
    read.clear()
    second = looker.look()
    assert not [path for path in read if "acks" in path or "segments" in path]
    assert [each.bundle_count for each in second.subscribers] == [
        each.bundle_count for each in first.subscribers
    ]
    with quiver.open(store, worker=False) as opened:
        opened.subscribe("parquet").poll().ack()
    assert looker.look().subscribers[0].bundle_count == 3  # Two of the log came.
    looker.close()


def test_many_segments_and_ten_cores_are_looked_at() -> None:
    beside = Beside()
    with beside.open() as store:
        beside.fill(store, *[1] * 250)
        store.subscribe("reader")
    for core in range(1, 10):
        quiver.open("memory", disk=beside.disk, clock=beside.clock, core=core, worker=False).close()
    looker = Looker("memory", clock=beside.clock, open_disk=lambda _: beside.disk)
    look, again = looker.look(), looker.look()
    looker.close()
    assert [len(core.segments) for core in look.cores] == [250] + [0] * 9
    assert look.subscribers[0].bundle_count == 250
    assert (look.footer_count, again.footer_count, again.cores) == (250, 0, look.cores)


def test_an_error_of_the_system_is_a_problem_of_the_look() -> None:
    def refuse(_: str):
        raise StorageError("cannot open it: Input/output error")

    look = Looker("nowhere", open_disk=refuse).look()
    assert look.problem == "cannot open it: Input/output error"


@pytest.mark.parametrize("seed", range(40))
def test_whatever_the_files_hold_a_look_raises_nothing(store, looker, seed) -> None:
    lot = random.Random(seed)
    looker.look()
    files = [path for path in sorted(store.rglob("*")) if path.is_file()]
    for path in lot.sample(files, 2):
        path.chmod(0o600)
        data = bytearray(path.read_bytes())
        place = lot.randrange(len(data) + 1)
        data[place : place + lot.randrange(100)] = lot.choice([b"", bytes(80), lot.randbytes(80)])
        path.write_bytes(data[: lot.choice([len(data), place])])
    first, second = looker.look(), looker.look()
    assert first.problem == second.problem
    assert ageless(first) == ageless(second)
    assert all(text for _, text in second.faults)
