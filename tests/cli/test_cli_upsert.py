"""``upsert``: rows of a slot become a collection, each once."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from users_kit import USERS, batch, environment, fields, shown, write

import quiver
from quiver.segment import segment_name


@pytest.fixture
def store(users_store) -> Path:
    return users_store


def test_a_slot_becomes_a_collection_and_goes_on(run, store, into) -> None:
    first = run("upsert", store, *USERS, "--into", into)
    assert first.code == 0, first.err
    epoch, summary = first.out.splitlines()
    assert epoch.startswith("epoch 1: 4 rows of 2 bundles, 2 changes, ")
    assert summary.startswith("4 rows of 2 bundles in 1 epoch, 2 changes, ")
    assert shown(run, into) == [{"id": 1, "name": "a"}, {"id": 3, "name": "c"}]
    assert run("upsert", store, *USERS, "--into", into).out.startswith("0 rows of 0 bundles")
    write(store, batch([3, 4], ["C", "d"]))
    run("upsert", store, *USERS, "--into", into)
    assert [row["name"] for row in shown(run, into)] == ["a", "C", "d"]
    assert [row["name"] for row in shown(run, into, "--as-of", 1)] == ["a", "c"]
    assert shown(run, into, "--as-of", 0) == []
    found = shown(run, into, "--changes", "--after", 1)
    assert found == [
        {"id": 3, "name": "C", "_time": 2, "_diff": 1},
        {"id": 3, "name": "c", "_time": 2, "_diff": -1},
        {"id": 4, "name": "d", "_time": 2, "_diff": 1},
    ]
    assert shown(run, into, "--changes", "--through", 0) == []


def test_what_came_again_is_told(run, store, into) -> None:
    run("upsert", store, *USERS, "--into", into)
    write(store, batch([9], ["z"]))
    found = run("upsert", store, *USERS, "--into", into, "--subscriber", "other")
    assert found.out.splitlines()[-1].startswith("1 row of 1 bundle in 1 epoch")


def test_each_slot_and_collection_has_a_subscriber_of_its_own(run, tmp_path, monkeypatch) -> None:
    store, both = tmp_path / "store", pa.record_batch({"id": [1], "name": ["a"]})
    write(store, {"users": both, "more": both})
    monkeypatch.chdir(tmp_path)
    for slot, into in (("users", "a"), ("more", tmp_path / "b"), ("users", "b"), ("users", "c")):
        arguments = ("--slot", slot, "--key", "id", "--into", into)
        found = run("upsert", store, *arguments)
        assert (found.out[:7], found.err) == ("epoch 2" if into == "b" else "epoch 1", "")
        assert run("upsert", "store", *arguments).out.startswith("0 rows")
    names = [each["name"] for each in run("subscriber", "ls", store, "--json").lines]
    assert len(set(names)) == 4


def test_a_new_collection_for_an_old_subscriber_is_told_of(run, store, into, tmp_path) -> None:
    run("upsert", store, *USERS, "--into", into, "--subscriber", "me")
    write(store, batch([9], ["z"]))
    again = run("upsert", store, *USERS, "--into", into, "--subscriber", "me")
    assert again.err == ""
    write(store, batch([10], ["y"]))
    other = run("upsert", store, *USERS, "--into", tmp_path / "other", "--subscriber", "me")
    assert "what it acked before is not in it" in other.err


def test_a_subscriber_that_acked_nothing_yet_is_told_nothing(run, store, into) -> None:
    run("subscriber", "add", store, "me")
    found = run("upsert", store, *USERS, "--into", into, "--subscriber", "me")
    assert (found.out[:7], found.err) == ("epoch 1", "")


def test_a_collection_that_was_deleted_is_not_begun_again_with_nothing(run, store, into) -> None:
    run("upsert", store, *USERS, "--into", into)
    shutil.rmtree(into)
    found = run("upsert", store, *USERS, "--into", into)
    assert (found.code, "was acked, and is not in the collection" in found.err) == (7, True)
    assert run("upsert", store, *USERS, "--into", into, "--acked", "skip").out[:6] == "0 rows"
    assert run("upsert", store, *USERS, "--into", into, "--subscriber", "me").code == 0
    assert [row["id"] for row in shown(run, into)] == [1, 3]


def test_a_store_is_no_place_for_a_collection(run, store) -> None:
    before = sorted(path.name for path in store.iterdir())
    found = run("upsert", store, *USERS, "--into", store)
    assert (found.code, "no place for a collection" in found.err) == (2, True)
    assert sorted(path.name for path in store.iterdir()) == before


def test_order_deletions_values_and_buckets(run, tmp_path, into) -> None:
    write(tmp_path / "store", batch([1, 1, 2], ["b", "a", "x"], op=["c", "c", "d"]))
    how = ("--order-by", "name", "--delete-when", "op = 'd'", "--value", "name", "--buckets", 3)
    assert run("upsert", tmp_path / "store", *USERS, "--into", into, *how).code == 0
    assert shown(run, into) == [{"id": 1, "name": "b"}]
    found = run("view", into, "--stat", "--json").document
    assert (found["bucket_count"], found["latest_epoch"]) == (3, 1)
    assert found["key"] == [{"name": "id", "type": "int64"}]
    assert [split["next"] for split in found["sources"][0]["splits"]] == [1]


def test_a_composite_key(run, tmp_path, into) -> None:
    write(tmp_path / "store", batch([1, 1, 1], ["b", "a", "b"], op=["1", "2", "3"]))
    found = run(
        "upsert", tmp_path / "store", "--slot", "users", "--key", "id, name", "--into", into
    )
    assert found.code == 0
    assert [(row["name"], row["op"]) for row in shown(run, into)] == [("a", "2"), ("b", "3")]


def test_damage_ends_it_or_is_left_behind_with_exit_code_9(run, store, into) -> None:
    write(store, batch([5], ["e"]))
    first = store / "core_0" / "segments" / segment_name(0)
    first.chmod(0o600)
    data = bytearray(first.read_bytes())
    data[-20] ^= 1
    first.write_bytes(data)
    blocked = run("upsert", store, *USERS, "--into", into)
    assert blocked.code == 9
    assert "quiver repair" in blocked.err
    found = run("upsert", store, *USERS, "--into", into, "--damaged", "skip", "--json")
    assert found.code == 9
    assert {line["kind"] for line in found.lines} == {"epoch", "left_behind", "summary"}
    for line in found.lines:
        assert set(line) == fields(f"upsert: {line['kind']}")
    assert shown(run, into) == [{"id": 5, "name": "e"}]


def test_a_paused_subscriber_is_told_of(run, store, into) -> None:
    with quiver.open(store, worker=False) as opened:
        opened.subscribe("me").close()
        opened.pause("me")
    found = run("upsert", store, *USERS, "--into", into, "--subscriber", "me")
    assert (found.code, found.out[:6]) == (0, "0 rows")
    assert "paused" in found.err


def test_a_run_that_is_cut_short_is_exit_code_130(run, store, into, monkeypatch) -> None:
    from quiver.upsert.feeding import Feeder

    begin = Feeder.run

    def cut_short(feeder, **options):
        feeder.stop()
        return begin(feeder, **options)

    monkeypatch.setattr(Feeder, "run", cut_short)
    assert run("upsert", store, *USERS, "--into", into).code == 130


REFUSED = [
    (["upsert", "STORE", "--slot", "users", "--key", "id"], 2, "--into"),
    (["upsert", "STORE", "--slot", "no", "--key", "id", "--into", "INTO"], 2, "no slot"),
    (["upsert", "STORE", "--slot", "users", "--key", "no", "--into", "INTO"], 2, "'no'"),
    (["upsert", "STORE", "--slot", "users", "--key", "id,", "--into", "INTO"], 2, "--key"),
    (["upsert", "STORE", "--slot", "users", "--key", "id,id", "--into", "INTO"], 2, "twice"),
    (["upsert", "STORE", *USERS, "--into", "INTO", "--order-by", "no"], 2, "'no'"),
    (["upsert", "STORE", *USERS, "--into", "INTO", "--value", "no"], 2, "'no'"),
    (["upsert", "STORE", *USERS, "--into", "INTO", "--delete-when", "name ="], 2, "makes no sense"),
    (["upsert", "STORE", *USERS, "--into", "INTO", "--delete-when", "no = 1"], 2, "delete_when"),
    (["upsert", "STORE", *USERS, "--into", "INTO", "--delete-when", "name"], 2, "bool"),
    (["upsert", "STORE", *USERS, "--into", "INTO", "--buckets", "0"], 2, "--buckets"),
    (["upsert", "STORE", *USERS, "--into", "INTO", "--history", "0"], 2, "--history"),
    (["upsert", "STORE", *USERS, "--into", "INTO", "--size", "much"], 2, "size"),
    (["upsert", "STORE", *USERS, "--into", "INTO", "--every", "often"], 2, "every"),
    (["upsert", "STORE", *USERS, "--into", "INTO", "--subscriber", "no name"], 2, "not allowed"),
    (["upsert", "STORE", *USERS, "--into", "s4://bucket/q"], 2, "s4"),
    (["upsert", "STORE", *USERS, "--into", "INTO", "--option", "hidden"], 2, "KEY=VALUE"),
    (["upsert", "NONE", *USERS, "--into", "INTO"], 3, "no folder"),
    (["view", "NONE"], 3, "no collection"),
    (["view", "STORE"], 3, "no collection"),
    (["view", "NONE", "--stat"], 3, "no collection"),
    (["view", "NONE", "--tend"], 3, "no collection"),
]


@pytest.mark.parametrize(("arguments", "code", "text"), REFUSED)
def test_what_cannot_be_is_refused_with_its_code(
    run, made, into, tmp_path, arguments, code, text
) -> None:
    places = {"STORE": made / "store", "INTO": into, "NONE": tmp_path / "none"}
    found = run(*(places.get(each, each) for each in arguments))
    assert found.code == code, found.err
    assert text in found.err
    assert "hidden" not in found.err
    assert "Traceback" not in found.err
    assert not into.exists() or not list(into.glob("manifest"))


def test_a_collection_of_another_kind_is_exit_code_2(run, made) -> None:
    into = ["--into", made / "users"]
    found = run("upsert", made / "store", "--slot", "users", "--key", "name", *into)
    assert (found.code, "key" in found.err) == (2, True)
    found = run("upsert", made / "store", *USERS, *into, "--buckets", 5)
    assert (found.code, "buckets" in found.err) == (2, True)


def test_following_ends_with_what_was_taken(store, into) -> None:
    arguments = ["upsert", str(store), *USERS, "--into", str(into), "--follow", "--json"]
    arguments += ["--subscriber", "me"]
    with subprocess.Popen(
        [sys.executable, "-m", "quiver", *arguments, "--every", "10ms"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert (first["kind"], first["bundle_count"]) == ("epoch", 2)
        write(store, batch([8], ["h"]))
        second = json.loads(process.stdout.readline())
        assert (second["epoch"], second["row_count"]) == (2, 1)
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait(60) == 0
    summary = json.loads(rest.splitlines()[-1])
    assert (summary["kind"], summary["bundle_count"]) == ("summary", 3)
    with quiver.subscribe(store, "me", slots=["users"], worker=False) as subscriber:
        assert sum(lag.bundle_count for lag in subscriber.lags()) == 0


@pytest.mark.parametrize(
    "how",
    [("--key", "nope"), ("--value", "nope"), ("--order-by", "nope"), ("--delete-when", "nope = 1")],
    ids=lambda how: how[0],
)
def test_a_column_that_is_not_there_is_told_before_rows_are_finished(
    run, tmp_path, into, how
) -> None:
    store = tmp_path / "store"
    with quiver.open(store, slots=["users", "more"], worker=False) as opened:
        opened.append(batch([1], ["a"]))
        told = run("upsert", store, *USERS, "--into", into, *how)  # Its rows are in the log alone.
        assert (told.code, "nope" in told.err, "columns: id, name" in told.err) == (2, True, True)
        assert run("upsert", store, *USERS, "--into", into).out.startswith("0 rows")
        opened.finalize()
    again = run("upsert", store, *USERS, "--into", into, *how)
    assert (again.code, again.err, Path(into).exists()) == (told.code, told.err, False)
    assert run("upsert", store, *USERS, "--into", into).code == 0
    column = ("--delete-when", "name = 'a'")  # The collection has it, if the rows do not.
    write(store, {"users": pa.record_batch({"id": [1]})})
    assert run("upsert", store, *USERS, "--into", into, *column).code == 0


def test_a_place_that_cannot_be_made_was_not_deleted(run, store) -> None:
    result = run("upsert", store, *USERS, "--into", "/proc/collection")
    assert result.code in (3, 8)
    assert "was deleted" not in result.err
    assert "/proc/collection" in result.err
