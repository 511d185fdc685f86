"""``quiver ingest --follow``: what is there, what comes, how it ends, and what it refuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import quiver
from tests.cli.test_cli_json import fields


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for n in range(2):
        pq.write_table(pa.table({"id": range(n * 10, n * 10 + 10)}), folder / f"{n}.parquet")
    return folder


def test_it_reads_what_is_there_and_then_what_came(run, inbox, tmp_path, kit) -> None:
    store = tmp_path / "store"
    command = ["ingest", store, "--slot", "s", "--follow", f"files:{inbox}", "--once"]
    command += ["--idle", "0s", "--json"]
    found = run(*command).document
    assert set(kit.leaves(found)) == fields("ingest: followed")
    assert (found["created"], found["row_count"], found["source"]) == (True, 20, f"files:{inbox}")
    pq.write_table(pa.table({"id": range(20, 25)}), inbox / "2.parquet")
    found = run(*command).document
    assert (found["created"], found["row_count"]) == (False, 5)
    assert "5 rows" not in run(*command[:-1]).out
    rows = quiver.scan(store, slot="s").to_table()
    assert sorted(rows["id"].to_pylist()) == list(range(25))
    assert run("check", store).code == 0


def test_what_is_not_whole_is_left_alone_and_named(run, inbox, tmp_path) -> None:
    (inbox / "torn.parquet").write_bytes(b"PAR1 and then nothing")
    command = ["ingest", tmp_path / "store", "--slot", "s", "--follow", f"files:{inbox}", "--once"]
    found = run(*command, "--idle", "0s")
    assert found.code == 0
    assert "not whole yet: torn.parquet" in found.err


def test_what_was_lost_of_a_source_is_refused_until_that_is_accepted(run, inbox, tmp_path) -> None:
    store = tmp_path / "store"
    command = ["ingest", store, "--slot", "s", "--follow", f"files:{inbox}", "--once"]
    command += ["--idle", "0s"]
    assert run(*command).code == 0
    lean = {"wal": {"reclaim_size": 1}}
    with quiver.open(store, core=0, worker=False, config=lean) as opened:
        for handle in iter(opened.subscribe("done").poll, None):
            handle.ack()
        opened.maintain()
    (store / "core_0/progress").write_bytes(b"rot")
    assert run(*command, "--strict").code == 9
    found = run(*command)
    assert found.code == 9
    assert "--begin-anew" in found.err
    shown = run("check", store)
    assert shown.code == 0
    assert "how far sources were read is lost" in shown.out
    found = run(*command, "--begin-anew", "--json").document
    assert found["row_count"] == 20
    assert run(*command, "--json").document["row_count"] == 0
    assert (
        "--begin-anew needs --follow" in run("ingest", store, "--slot", "s=x", "--begin-anew").err
    )


def test_another_store_is_a_source_as_well(run, tmp_path) -> None:
    with quiver.open(tmp_path / "a", slots=["s", "t"], worker=False) as first:
        for n in range(3):
            first.append({"s": pa.table({"n": [n]}), "t": pa.table({"m": [n]})})
            first.finalize()
    word = f"quiver:{tmp_path / 'a'}?slot=s&subscriber=copy"
    command = ["ingest", tmp_path / "b", "--slot", "x", "--follow", word, "--once", "--idle", "0s"]
    assert json.loads(run(*command, "--json").out)["row_count"] == 3
    assert json.loads(run(*command, "--json").out)["row_count"] == 0
    assert quiver.scan(tmp_path / "b", slot="x").to_table()["n"].to_pylist() == [0, 1, 2]
    assert list(quiver.read_progress(tmp_path / "b", f"quiver:{tmp_path / 'a'}?slot=s")) == [
        "core_0"
    ]
    with quiver.open(tmp_path / "a", worker=False) as first:
        assert first.subscribe("copy").poll() is None


def rows_read(store: Path, inbox: Path) -> int:
    """Count what the progress of a store that may not be there yet tells."""
    if not (store / "core_0/wal/quiver.wal").exists():
        return 0
    states = quiver.read_progress(store, f"files:{inbox}")
    return 10 * len(states)


def test_a_signal_ends_it_well(inbox, tmp_path) -> None:
    store = tmp_path / "store"
    code = "from quiver.cli.main import main; main()"
    command = [sys.executable, "-c", code, "ingest", str(store), "--slot", "s", "--json"]
    command += ["--follow", f"files:{inbox}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        while child.poll() is None and rows_read(store, inbox) < 20:
            threading.Event().wait(0.05)
        child.send_signal(signal.SIGTERM)
        out, _ = child.communicate()
    assert child.returncode == 0
    assert json.loads(out)["row_count"] == 20
    assert len(quiver.scan(store, slot="s").to_table()) == 20


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--slot", "s", "--follow", "nowhere"], "is no source"),
        (["--slot", "s=file", "--follow", "files:."], "one slot, without a file"),
        (["--slot", "s", "--slot", "t", "--follow", "files:."], "one slot, without a file"),
        (["--slot", "s", "--follow", "files:.", "--by", "x"], "read once"),
        (["--slot", "s=file", "--once"], "--once needs --follow"),
        (["--slot", "s", "--follow", "files:.", "--idle", "soon"], "--idle"),
        (["--slot", "s", "--follow", "quiver:."], "which slot"),
        (["--slot", "s", "--follow", "files:.?bogus=1"], "no option 'bogus'"),
        (["--slot", "s", "--follow", "files:nowhere"], "there is no folder"),
        (["--slot", "s", "--follow", "nats://a?stream=x"], "perhaps streams"),
    ],
)
def test_what_does_not_fit_is_refused_and_makes_no_store(run, tmp_path, options, words) -> None:
    found = run("ingest", tmp_path / "store", *options)
    assert found.code != 0
    assert words in found.err
    assert not (tmp_path / "store").exists()


def test_a_store_is_not_read_into_itself(run, tmp_path) -> None:
    with quiver.open(tmp_path / "s", slots=["events"], worker=False) as store:
        store.append({"events": pa.table({"n": [1]})})
    (tmp_path / "link").symlink_to(tmp_path / "s")
    for other in ("s", "link"):
        source = f"quiver:{tmp_path / other}?slot=events"
        result = run("ingest", tmp_path / "s", "--slot", "events", "--follow", source, "--once")
        assert (result.code, "into itself" in result.err) == (2, True)
