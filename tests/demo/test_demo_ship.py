import json
import os
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import quiver
from bench.demo.compare import Difference
from bench.demo_ship import writer
from bench.demo_ship.__main__ import report
from bench.demo_ship.play import Play, reached, rows_in, table_of
from bench.demo_ship.writer import PARTS

SERVER = SimpleNamespace(
    url="s3://bucket",
    options={
        "endpoint": "http://127.0.0.1:1",
        "access_key_id": "id",
        "secret_access_key": "secret",
        "region": "here",
    },
)
EQUAL = Difference(10, 10, lost=0, duplicates=0, foreign=0)


def test_both_writers_together_append_the_year_and_go_on_where_they_were_cut_off(
    year, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(writer, "load", dict)
    monkeypatch.setattr(writer, "cut", lambda _: year)
    monkeypatch.setattr(writer, "_SECONDS", 0.0)
    said = []
    monkeypatch.setattr(writer, "say", said.append)
    found = []
    for part in range(PARTS):
        path = str(tmp_path / f"{part}")
        writer.main(path, part)
        assert said.pop() == "done"
        writer.main(path, part)
        assert said[-2:] == ["ready", "done"]
        with quiver.open(path) as store:
            found += [int(store.info().next_wal_seq)]
            assert store.info().segments
    assert sum(found) == len(year)
    assert found[0] - found[1] in (0, 1)


def test_all_who_are_started_know_the_server_and_nobody_else_does() -> None:
    before = dict(os.environ)
    with reached(SERVER):
        assert os.environ["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"
        assert os.environ["AWS_SECRET_ACCESS_KEY"] == "secret"
    assert dict(os.environ) == before


def test_rows_of_a_sink_are_those_that_its_log_names(tmp_path) -> None:
    sink = tmp_path / "sink"
    assert rows_in(str(sink)) == 0
    (sink / "_spark_metadata").mkdir(parents=True)
    for number in range(2):
        path = sink / f"part {number}.parquet"
        pq.write_table(pa.table({"n": pa.array([number, 7], pa.int32())}), path)
        (sink / "_spark_metadata" / str(number)).write_text(
            f"v1\n{json.dumps({'path': path.as_uri()})}"
        )
    (sink / "torn.parquet").touch()
    assert rows_in(str(sink)) == 4
    assert table_of(str(sink), pa.schema({"n": pa.int64()}))["n"].to_pylist() == [0, 7, 1, 7]


def test_nobody_is_started_before_it_runs(tmp_path) -> None:
    play = Play(str(tmp_path), SERVER, print)
    assert play.kills == 0
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("change", [{"lost": 1}, {"duplicates": 2}, {"foreign": 3}])
def test_what_differs_is_told(change) -> None:
    good = report(EQUAL, batches=5, waiting=0, kills=4)
    bad = report(replace(EQUAL, **change), batches=5, waiting=0, kills=4)
    assert good != bad
    assert any("lost 0   twice 0   differ 0" in line for line in good)
