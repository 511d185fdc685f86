"""``export``: rows of a store in files, each once, told file by file."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import quiver
from quiver.disk import LocalDisk
from quiver.export import ExportFolder
from quiver.units import format_bytes


@pytest.fixture
def store(store) -> Path:
    """All of it is in segments: what is in the log alone is not seen from outside."""
    quiver.open(store, worker=False).close()
    return store


WITH = ("--slot", "logs", "--subscriber", "lake")


def test_what_is_there_is_written_and_acked(run, store, tmp_path) -> None:
    out = tmp_path / "new" / "out"
    result = run("export", store, *WITH, "--out", out)
    assert result.code == 0
    first = out / "logs-0-0000000000000000.000000-0000000000000000.000002.parquet"
    second = out / "logs-0-0000000000000001.000000-0000000000000001.000001.parquet"
    assert result.out.splitlines() == [
        f"{first}: 6 rows, {format_bytes(first.stat().st_size)}",
        f"{second}: 1 row, {format_bytes(second.stat().st_size)}",
        "7 rows in 2 files, 5 bundles acked",
    ]
    assert pq.read_table(first)["n"].to_pylist() == [0, None, 1, None, 2, None]
    assert pq.read_table(second).to_pylist() == [{"n": 3}]
    (lake,) = run("lag", store, "lake", "--json").lines
    assert lake["open_bundle_count"] == lake["unfolded_bundle_count"]
    assert run("export", store, *WITH, "--out", out).out == "0 rows in 0 files, 0 bundles acked\n"


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv", "ndjson"])
def test_each_format_has_its_suffix(run, store, tmp_path, kind) -> None:
    run("export", store, *WITH, "--out", tmp_path / "o", "--to", kind)
    assert [path.suffix for path in (tmp_path / "o").glob("logs-*")] == [f".{kind}"] * 2


def test_several_slots_and_small_files(run, store, tmp_path) -> None:
    arguments = ("--slot", "traces", "--out", tmp_path / "o", "--rows", 2, "--json")
    *files, summary = run("export", store, *WITH, *arguments).lines
    assert [(f["slot"], f["row_count"]) for f in files] == [
        *[("logs", 2)] * 3,
        *(("logs", 1), ("traces", 1)),
        ("traces", 2),
    ]
    assert all(os.path.exists(f["path"]) for f in files)
    assert (summary["file_count"], summary["row_count"]) == (6, 10)


def test_files_of_a_size(run, store, tmp_path) -> None:
    run("export", store, *WITH, "--out", tmp_path / "o", "--size", "1B")
    assert len(list((tmp_path / "o").glob("logs-*"))) == 4


def test_what_is_in_files_already_is_told(run, store, tmp_path) -> None:
    run("export", store, *WITH, "--out", tmp_path / "o")
    with quiver.open(store, worker=False) as opened:
        opened.unsubscribe("lake")
    found = run("export", store, *WITH, "--out", tmp_path / "o")
    assert "0 rows in 0 files, 5 bundles acked, of which 5 were in files already" in found.out


def test_all_cores_are_exported(run, store, tmp_path) -> None:
    with quiver.open(store, core=2, worker=False) as second:
        second.append({"logs": pa.table({"n": [1]})})
    *files, _ = run("export", store, *WITH, "--out", tmp_path / "o", "--json").lines
    assert [(f["core"], f["row_count"]) for f in files] == [(0, 6), (0, 1), (2, 1)]
    assert run("lag", store, "lake", "--json").lines[0]["unfolded_bundle_count"] == 5


def test_files_hold_long_runs_of_one_core(run, store, tmp_path) -> None:
    for core in (0, 2):
        with quiver.open(store, core=core, worker=False) as opened:
            for number in range(20):
                opened.append({"logs": pa.table({"n": [number]})})
    *files, _ = run("export", store, *WITH, "--out", tmp_path / "o", "--json").lines
    assert [(f["core"], f["row_count"]) for f in files] == [(0, 6), (0, 21), (2, 20)]


def test_a_core_that_is_about_to_be_made_is_passed_over(run, store, tmp_path) -> None:
    (store / "core_2").mkdir()
    (store / "core_3" / "acks").mkdir(parents=True)
    assert "7 rows in 2 files" in run("export", store, *WITH, "--out", tmp_path / "o").out
    assert list((store / "core_2").iterdir()) == list((store / "core_3" / "acks").iterdir()) == []


def test_beside_a_writer_nothing_waits_for_a_lock(run, store, tmp_path) -> None:
    with quiver.open(store) as opened:
        opened.append({"logs": pa.table({"n": [9]})})
        out = run("export", store, *WITH, "--out", tmp_path / "o").out
        assert out.endswith("7 rows in 2 files, 5 bundles acked\n")
        opened.finalize()
        assert "1 row in 1 file" in run("export", store, *WITH, "--out", tmp_path / "o").out
        opened.maintain()
        assert opened.lag("lake").bundle_count == 0


def test_what_is_in_the_log_alone_is_not_seen(run, filled, tmp_path) -> None:
    copy = shutil.copytree(filled, tmp_path / "copy")
    assert "6 rows in 1 file" in run("export", copy, *WITH, "--out", tmp_path / "o").out
    assert run("finalize", copy).code == 0
    assert "1 row in 1 file" in run("export", copy, *WITH, "--out", tmp_path / "o").out


def test_acks_are_durable_when_a_file_is_told(store, tmp_path) -> None:
    """The process is killed as soon as it tells of its first file: nothing is repeated."""
    code = """
import os, signal
from quiver.cli.main import main
from quiver.cli.output import Output
from quiver.consumer import Consumer
from quiver.consumer.keeper import Keeper
Keeper._run = lambda self: None
Output.text = lambda self, *_, **__: os.kill(os.getpid(), signal.SIGKILL)
main()
"""
    arguments = ["export", str(store), *WITH, "--out", str(tmp_path / "o")]
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    with quiver.subscribe(store, "lake", worker=False) as lake:
        assert [lag.bundle_count for lag in lake.lags()] == [2]


@pytest.mark.parametrize("act", ["BundleHandle.ack", "Taking.commit"])
def test_a_kill_between_a_file_and_its_acks_repeats_no_row(run, store, tmp_path, act) -> None:
    code = f"""
import os, signal
from quiver.cli.main import main
from quiver.cli.taking import Taking
from quiver.consumer.keeper import Keeper
from quiver.subscriber import BundleHandle
Keeper._run = lambda self: None
{act} = lambda self: os.kill(os.getpid(), signal.SIGKILL)
main()
"""
    arguments = ["export", str(store), *WITH, "--out", str(tmp_path / "o")]
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    text = "1 row in 1 file, 5 bundles acked, of which 3 were in files already\n"
    assert run("export", store, *WITH, "--out", tmp_path / "o").out.endswith(text)
    tables = [pq.read_table(path) for path in sorted((tmp_path / "o").glob("logs-*"))]
    assert [n for t in tables for n in t["n"].to_pylist()] == [0, None, 1, None, 2, None, 3]


def test_cores_that_come_are_followed_too(store, tmp_path) -> None:
    command = [sys.executable, "-m", "quiver", "export", str(store), *WITH]
    command += ["--out", str(tmp_path / "o"), "--follow", "--every", "50ms", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert [json.loads(running.stdout.readline())["row_count"] for _ in range(2)] == [6, 1]
        with quiver.open(store, core=2, worker=False) as second:
            second.append({"logs": pa.table({"n": [1]})})
        assert json.loads(running.stdout.readline())["core"] == 2
        with quiver.open(store, worker=False) as first:
            first.append({"logs": pa.table({"n": [1]})})
        assert json.loads(running.stdout.readline())["core"] == 0
        running.send_signal(signal.SIGTERM)
        assert json.loads(running.stdout.read())["bundle_count"] == 7
    assert running.returncode == 0


REFUSED = [
    (("--slot", "nothing"), 2, "nothing"),
    (("--size", "many"), 2, "--size: 'many' is not a size"),
    (("--every", "soon"), 2, "--every: 'soon' is not a duration"),
    (("--rows", "0"), 2, "0 is not in the range"),
    (("--to", "orc"), 2, "'orc' is not one of"),
    (("--subscriber", "a b"), 2, "a b"),
]


@pytest.mark.parametrize("options, code, text", REFUSED)
def test_wrong_options_are_refused(run, store, tmp_path, options, code, text) -> None:
    result = run("export", store, *WITH, "--out", tmp_path / "o", *options)
    assert result.code == code
    assert text in result.err
    assert not list(tmp_path.glob("o/logs-*"))


def test_no_store_is_exit_code_3(run, tmp_path) -> None:
    assert run("export", tmp_path / "none", *WITH, "--out", tmp_path / "o").code == 3
    assert not (tmp_path / "o").exists()


def test_a_folder_that_somebody_exports_to_is_exit_code_4(run, store, tmp_path) -> None:
    disk = LocalDisk(tmp_path / "o", create=True)
    with ExportFolder.open(disk, store_id="another", subscriber="lake"):
        result = run("export", store, *WITH, "--out", tmp_path / "o")
    assert result.code == 4
    assert f"{tmp_path / 'o'} is being exported to by process {os.getpid()}" in result.err


def test_nested_columns_are_no_csv(run, tmp_path) -> None:
    with quiver.open(tmp_path / "s", slots=["logs"], worker=False) as opened:
        opened.append({"logs": pa.table({"n": [[1]]})})
    result = run("export", tmp_path / "s", *WITH, "--out", tmp_path / "o", "--to", "csv")
    assert result.code == 2
    assert "CSV cannot hold column 'n'" in result.err
    assert run("export", tmp_path / "s", *WITH, "--out", tmp_path / "o").code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_following_ends_at_a_signal_with_all_acked(run, store, tmp_path, number) -> None:
    command = [sys.executable, "-m", "quiver", "export", str(store), *WITH]
    command += ["--out", str(tmp_path / "o"), "--follow", "--every", "50ms", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        first, second = running.stdout.readline(), running.stdout.readline()
        running.send_signal(number)
        rest = running.stdout.read()
    assert running.returncode == 0
    assert '"row_count": 6' in first
    assert '"row_count": 1' in second
    assert '"kind": "summary", "file_count": 2' in rest
    (lake,) = run("lag", store, "lake", "--json").lines
    assert lake["open_bundle_count"] == lake["unfolded_bundle_count"]


def test_a_signal_does_not_wait_for_the_time(run, store, tmp_path) -> None:
    """What was gathered is written at once, long before its file would be due."""
    code = """
import os, signal
from quiver.consumer import Consumer
from quiver.cli.main import main

honest = Consumer.next
def next(self, timeout=None):
    found = honest(self, 0)
    if found is None:
        os.kill(os.getpid(), signal.SIGTERM)
        found = honest(self, timeout)
    return found
Consumer.next = next
main()
"""
    arguments = ["export", str(store), *WITH, "--out", str(tmp_path / "o")]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments, "--follow", "--every", "1h"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("7 rows in 2 files, 5 bundles acked\n")


def test_a_segment_that_is_passed_over_is_told_by_the_exit_code(run, store, tmp_path) -> None:
    newest = max((store / "core_0" / "segments").glob("*.qseg"))
    newest.chmod(0o600)
    with newest.open("r+b") as file:
        file.truncate(newest.stat().st_size // 2)
    for arguments in ((), ("--json",)):
        result = run("export", store, *WITH, "--out", tmp_path / "o", *arguments)
        assert (result.code, "passed over" in result.err) == (9, True)
        assert "quiver repair" in result.err
    result = run("tail", store, "--slot", "logs", "--subscriber", "tailed")
    assert (result.code, "passed over" in result.err) == (9, True)
    assert len(result.out.splitlines()) == 6
