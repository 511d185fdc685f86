"""``export``: rows of a store in files, each once, told file by file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import quiver
from quiver.disk import LocalDisk
from quiver.export import ExportFolder
from quiver.units import format_bytes

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
    lake = [s for s in run("ls", store, "subscribers", "--json").lines if s["name"] == "lake"]
    assert lake[0]["lag_bundle_count"] == 0
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
    result = run("export", store, *WITH, "--out", tmp_path / "o", "--follow")
    assert result.code == 2
    assert "2 cores" in result.err


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


def test_damage_met_while_opening_is_told(run, store, kit, tmp_path) -> None:
    log = store / "core_0/wal/quiver.wal"
    bundles = [i for i in run("dump", log, "--json").lines if i["kind"] == "bundle"]
    kit.flip(log, bundles[3]["offset"] + 100)
    result = run("export", store, *WITH, "--out", tmp_path / "o")
    assert result.code == 0
    assert "quiver: set aside while opening:" in result.err


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
    lake = [s for s in run("ls", store, "subscribers", "--json").lines if s["name"] == "lake"]
    assert lake[0]["lag_bundle_count"] == 0


def test_a_signal_does_not_wait_for_the_time(run, store, tmp_path) -> None:
    """What was gathered is written at once, long before its file would be due."""
    code = """
import os, signal
from quiver.engine.subscription import Subscription
from quiver.cli.main import main

honest = Subscription.next
def next(self, timeout=None):
    found = honest(self, 0)
    if found is None:
        os.kill(os.getpid(), signal.SIGTERM)
        found = honest(self, timeout)
    return found
Subscription.next = next
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
