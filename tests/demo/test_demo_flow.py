"""The flow of the demo on a tiny year, in one process: no kill, no Spark."""

import contextlib
import os

import pytest

import quiver
from bench.demo import __main__ as demo
from bench.demo.compare import compare
from bench.demo.folder import Folder, disk_bytes
from bench.demo.report import Report
from bench.demo.sinks import read_back, take_with_parquet
from bench.demo.source import SLOTS
from bench.demo.writer import append_rest


class Stop(Exception):
    pass


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "store"
    with quiver.open(path, slots=SLOTS) as store:
        store.subscribe("parquet")
    return path


def words(store, year, stop_at=None):
    said = []

    def say(line):
        said.append(line)
        if line == stop_at:
            raise Stop

    with contextlib.suppress(Stop):
        append_rest(store, year, say=say)
    return said


def test_a_writer_says_what_it_does_before_and_after(path, year):
    with quiver.open(path) as store:
        said = words(store, year)
    assert said[:4] == ["append 0", "durable 0", "append 1", "durable 1"]
    assert said[4:6] == ["finalize 1", "finalized 1"]
    assert said[-2:] == ["finalize 3", "finalized 3"]


def test_a_new_writer_goes_on_where_the_store_ends(path, year):
    with quiver.open(path) as store:
        # The store has bundle 1, but its writer never came to know.
        words(store, year, stop_at="durable 1")
    with quiver.open(path) as store:
        assert words(store, year)[0] == "append 2"
        assert store.info().next_wal_seq == len(year)


def test_what_the_parquet_subscriber_wrote_equals_the_source(path, year, tmp_path):
    taken = []
    with quiver.open(path) as store:
        words(store, year)
        delivered = take_with_parquet(store, str(tmp_path / "out"), on_bundles=taken.append)
        assert store.subscribe("parquet").poll() is None
    assert sum(taken) == len(year)
    assert dict(delivered.bundles) == dict.fromkeys(range(len(year)), 1)
    assert delivered.repeated == 0
    for slot, table in year.tables.items():
        assert compare(table, read_back(str(tmp_path / "out"), slot)).is_none


def test_a_bundle_that_came_twice_is_a_repeated_one(path, year, tmp_path):
    with quiver.open(path) as store:
        words(store, year)
        delivered = take_with_parquet(store, str(tmp_path), on_bundles=[].append)
    delivered.bundles[2] += 1
    assert delivered.repeated == 1


def test_a_folder_is_emptied_only_if_a_demo_made_it(tmp_path):
    root = tmp_path / "out" / "demo"
    first = Folder.prepare(str(root))
    (root / "store").mkdir()
    assert Folder.prepare(str(root)) == first
    assert os.listdir(root) == [".quiver-demo"]
    foreign = tmp_path / "mine"
    foreign.mkdir()
    (foreign / "precious").touch()
    with pytest.raises(SystemExit, match="not empty"):
        Folder.prepare(str(foreign))
    assert (foreign / "precious").exists()


def test_disk_bytes_count_blocks_of_all_files_below(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_bytes(b"x" * 10_000)
    assert disk_bytes(str(tmp_path)) >= 10_000
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    assert disk_bytes(str(tmp_path)) < 1 << 20


@pytest.mark.parametrize("problems,status", [([], 0), (["flights: 1 row lost"], 1)])
def test_the_exit_status_is_zero_only_without_a_problem(
    monkeypatch, tmp_path, capsys, problems, status
):
    for step in ("_prepare", "_write", "_check", "_deliver", "_compare"):
        monkeypatch.setattr(demo, step, lambda *_, **__: None)
    monkeypatch.setattr(Report, "problems", lambda _: problems)
    monkeypatch.setattr("sys.argv", ["bench.demo", "--dir", str(tmp_path / "demo")])
    assert demo.main() == status
    printed = capsys.readouterr().out
    assert ("WRONG: flights: 1 row lost" in printed) is bool(status)
    assert ("Every row arrived" in printed) is not bool(status)
