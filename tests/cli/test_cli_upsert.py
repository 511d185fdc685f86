"""``upsert`` and ``view``: rows of a slot become a collection, and what it holds is read."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import quiver
from quiver.cli.program import program
from quiver.segment import segment_name
from quiver.ship.objects import FolderBucket
from quiver.upsert.persist import Collection, close_all

USERS = ("--slot", "users", "--key", "id")


def batch(ids, names, *, op=None) -> dict[str, pa.RecordBatch]:
    columns = {"id": pa.array(ids, pa.int64()), "name": pa.array(names, pa.string())}
    return {"users": pa.record_batch(columns if op is None else {**columns, "op": op})}


@pytest.fixture
def store(tmp_path) -> Path:
    write(tmp_path / "store", batch([1, 2], ["a", "b"]), batch([2, 3], [None, "c"]))
    return tmp_path / "store"


def write(store: Path, *bundles) -> None:
    with quiver.open(store, slots=["users", "more"], worker=False) as opened:
        for bundle in bundles:
            opened.append(bundle)
        opened.finalize()


@pytest.fixture
def into(tmp_path) -> Path:
    return tmp_path / "users"


def shown(run, into: Path, *options) -> list[dict]:
    return sorted(
        run("view", into, "--json", *options).lines, key=lambda row: json.dumps(row, default=str)
    )


def fields(section: str) -> set[str]:
    """Read the fields of a report from the page."""
    page = (Path(quiver.__file__).parent / "cli" / "JSON.md").read_text()
    text = page.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)` \|[^|]*\|$", text, flags=re.MULTILINE))


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


def test_error_rows_are_refused_left_out_or_given_alone(run, store, into) -> None:
    write(store, batch([None, 7], ["x", "y"]))
    found = run("upsert", store, *USERS, "--into", into)
    assert "1 row became errors" in found.out
    refused = run("view", into)
    assert refused.code == 2
    assert "key is null in column id" in refused.err
    assert "errors=skip" in refused.err
    assert [row["id"] for row in shown(run, into, "--errors", "skip")] == [1, 3, 7]
    (error,) = shown(run, into, "--errors", "only")
    assert (error["id"], "key is null" in error["_error"]) == (None, True)


@pytest.mark.parametrize("kind", ["arrow", "parquet", "csv", "ndjson"])
def test_formats_are_those_of_cat(run, store, into, kind) -> None:
    run("upsert", store, *USERS, "--into", into)
    arguments = ["view", str(into), "--format", kind, "--columns", "name,id"]
    data = CliRunner().invoke(program, arguments, catch_exceptions=False).stdout_bytes
    if kind == "arrow":
        rows = pa.ipc.open_stream(data).read_all().to_pylist()
    elif kind == "parquet":
        rows = pq.read_table(io.BytesIO(data)).to_pylist()
    elif kind == "csv":
        head, *lines = data.decode().splitlines()
        assert head == '"name","id"'
        rows = [dict(zip(("name", "id"), line.split(","), strict=True)) for line in lines]
        rows = [{"name": row["name"].strip('"'), "id": int(row["id"])} for row in rows]
    else:
        rows = [json.loads(line) for line in data.splitlines()]
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"name": "a", "id": 1},
        {"name": "c", "id": 3},
    ]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(quiver.__file__).parents[1])}


def test_limit_and_layout(run, store, into) -> None:
    run("upsert", store, *USERS, "--into", into)
    assert len(shown(run, into, "--limit", 1)) == 1
    assert shown(run, into, "--limit", 0) == []
    found = shown(run, into, "--layout", "structs")
    assert found[0] == {"key": {"id": 1}, "value": {"name": "a"}}


def test_a_time_is_the_last_epoch_until_then(run, store, into) -> None:
    run("upsert", store, *USERS, "--into", into)
    at = run("view", into, "--stat", "--json").document["latest_time"]
    assert len(shown(run, into, "--as-of", at[:-7] + "Z")) == 2
    assert len(shown(run, into, "--as-of", "2999-01-01")) == 2
    before = run("view", into, "--as-of", "1999-01-01T00:00+02:00")
    assert before.code == 2
    assert "1999" in before.err or "as of a time" in before.err


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
        opened.subscribe("upsert").close()
        opened.pause("upsert")
    found = run("upsert", store, *USERS, "--into", into)
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


def test_tending_takes_over_and_tells(run, store, into, kit) -> None:
    for name in "abc":
        write(store, batch([1], [name]))
        run("upsert", store, *USERS, "--into", into)
    writer = Collection.open(FolderBucket(str(into))).writer()
    found = run("view", into, "--tend", "--history", 1, "--json").document
    assert set(kit.leaves(found)) == fields("view: tend")
    assert (found["first_epoch"], found["writer"]) == (3, writer.fence + 1)
    assert "readable from epoch 3" in run("view", into, "--tend", "--history", 1).out
    assert run("view", into, "--as-of", 2).code == 2


def test_the_fields_of_stat_are_those_on_the_page(run, store, into, kit) -> None:
    run("upsert", store, *USERS, "--into", into)
    assert set(kit.leaves(run("view", into, "--stat", "--json").document)) == fields("view: stat")
    text = run("view", into, "--stat").out
    assert "id int64" in text
    assert "epoch 1" in text
    assert "quiver:users" in text


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


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with a store and a collection that nobody changes."""
    folder = tmp_path_factory.mktemp("made")
    write(folder / "store", batch([1, 2], ["a", "b"]))
    arguments = ["upsert", str(folder / "store"), *USERS, "--into", str(folder / "users")]
    assert CliRunner().invoke(program, arguments).exit_code == 0
    write(folder / "store", batch([9], ["z"]))
    return folder


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


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--as-of", "often"], "no epoch and no time"),
        (["--as-of", "9"], "0 to 1"),
        (["--as-of", "99999999999999999999999"], "0 to 1"),
        (["--changes", "--after", "9"], "0 to 1"),
        (["--changes", "--after", "1", "--through", "0"], "end at epoch 0"),
        (["--changes", "--as-of", "1"], "--through"),
        (["--after", "1"], "--changes"),
        (["--columns", "no"], "no column 'no'"),
        (["--columns", "id,id"], "twice"),
        (["--errors", "maybe"], "--errors"),
    ],
)
def test_what_a_view_cannot_give_is_exit_code_2(run, made, options, text) -> None:
    found = run("view", made / "users", *options)
    assert (found.code, found.out) == (2, "")
    assert text in found.err


def test_a_collection_of_another_kind_is_exit_code_2(run, made) -> None:
    into = ["--into", made / "users"]
    found = run("upsert", made / "store", "--slot", "users", "--key", "name", *into)
    assert (found.code, "key" in found.err) == (2, True)
    found = run("upsert", made / "store", *USERS, *into, "--buckets", 5)
    assert (found.code, "buckets" in found.err) == (2, True)


@pytest.mark.parametrize("verb", ["upsert", "view", "tend"])
@pytest.mark.parametrize(
    ("garbage", "code"),
    [(b"", 9), (b"garbage", 9), (b"{}" * 40, 9), (b'{"version": 1}\ncrc32c 00000000\n', 9)],
)
def test_a_manifest_that_is_garbage_is_exit_code_9(run, made, into, verb, garbage, code) -> None:
    store = made / "store"
    into.mkdir()
    (into / "manifest").write_bytes(garbage)
    if verb == "upsert":
        found = run("upsert", store, *USERS, "--into", into)
    else:
        found = run("view", into, *(["--tend"] if verb == "tend" else []))
    assert (found.code, found.out) == (code, "")
    assert f"{into}/manifest" in found.err
    assert "Traceback" not in found.err
    assert (into / "manifest").read_bytes() == garbage


@pytest.mark.parametrize("what", ["flip", "cut", "gone"])
def test_a_damaged_file_is_told_and_no_row_of_it_is_shown(run, store, into, what) -> None:
    run("upsert", store, *USERS, "--into", into)
    for path in sorted((into / "runs").iterdir()):
        path.chmod(0o600)
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        if what == "gone":
            path.unlink()
        else:
            path.write_bytes(data if what == "flip" else data[:-7])
    close_all()
    found = run("view", into)
    assert found.code == (3 if what == "gone" else 9)
    assert str(into) in found.err
    write(store, batch([1, 3], ["x", "y"]))
    again = run("upsert", store, *USERS, "--into", into)
    assert again.code == found.code
    assert "epoch" not in again.out


def test_following_ends_with_what_was_taken(store, into) -> None:
    arguments = ["upsert", str(store), *USERS, "--into", str(into), "--follow", "--json"]
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
    with quiver.subscribe(store, "upsert", slots=["users"], worker=False) as subscriber:
        assert sum(lag.bundle_count for lag in subscriber.lags()) == 0
