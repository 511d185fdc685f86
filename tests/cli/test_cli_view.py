"""``view``: what a collection holds, then and now, in each format, and what it consists of."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from users_kit import USERS, batch, fields, shown, write

from quiver.cli.program import program
from quiver.ship.objects import FolderBucket
from quiver.upsert.persist import Collection, close_all


@pytest.fixture
def store(users_store) -> Path:
    return users_store


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
        (["--as-of", "2001-01-01"], "as of a time before 20"),
        (["--stat", "--changes"], "--stat gives no rows"),
        (["--tend", "--limit", "1"], "--tend gives no rows"),
        (["--tend", "--stat"], "only one"),
    ],
)
def test_what_a_view_cannot_give_is_exit_code_2(run, made, options, text) -> None:
    found = run("view", made / "users", *options)
    assert (found.code, found.out) == (2, "")
    assert text in found.err


def test_changes_behind_a_time_before_there_was_any_are_all(run, made) -> None:
    found = run("view", made / "users", "--changes", "--after", "2001-01-01", "--json")
    assert sorted(row["id"] for row in found.lines) == [1, 2]


def test_a_queue_and_a_collection_are_told_apart(run, made, tmp_path) -> None:
    store, queue, users = made / "store", tmp_path / "queue", made / "users"
    assert run("ship", store, queue, "--subscriber", "ship").code == 0
    before = {path: path.read_bytes() for path in queue.rglob("*") if path.is_file()}
    for arguments in (
        ("view", queue),
        ("view", queue, "--tend"),
        ("upsert", store, *USERS, "--into", queue, "--subscriber", "me"),
    ):
        found = run(*arguments)
        assert (found.code, "none of a collection" in found.err) == (5, True)
        assert f"{queue}/manifest" in found.err
        assert "quiver queue" in found.err
    assert {path: path.read_bytes() for path in before} == before
    manifest = (users / "manifest").read_bytes()
    for arguments in (
        ("queue", "stat", users),
        ("queue", "gc", users),
        ("ship", store, users, "--subscriber", "other"),
    ):
        found = run(*arguments)
        assert (found.code, "none of a queue" in found.err) == (5, True)
        assert "quiver view" in found.err
    assert (users / "manifest").read_bytes() == manifest


@pytest.mark.parametrize("verb", ["upsert", "view", "tend"])
@pytest.mark.parametrize(
    ("garbage", "code"),
    [
        (b"", 9),
        (b"garbage", 9),
        (b"{}" * 40, 9),
        (bytes(99), 9),
        (b'{"version": 1}\ncrc32c 00000000\n', 9),
    ],
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
