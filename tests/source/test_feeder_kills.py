"""A real process reads a folder into a store and is killed, again and again: each row is once.

``QUIVER_FEEDER_KILLS`` says how often; some by default.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import quiver
from quiver.cli.connectors import connector_of, parse_source
from quiver.source import Feeder

CHILD = Path(__file__).parents[1] / "kit" / "fed_child.py"
KILLS = int(os.environ.get("QUIVER_FEEDER_KILLS", "3"))
FILE_ROWS = 1000


def write_file(folder: Path, number: int) -> None:
    ids = range(number * FILE_ROWS, (number + 1) * FILE_ROWS)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), folder / f"{number}.parquet")


def test_each_row_is_once_whatever_kills_the_process_that_reads(tmp_path: Path) -> None:
    folder, store_path = tmp_path / "in", str(tmp_path / "store")
    folder.mkdir()
    lot = random.Random(KILLS)
    source = f"files:{folder}?batch_rows=50&splits=3"
    command = [sys.executable, str(CHILD), store_path, source]
    files = 0
    for _ in range(KILLS):
        for _ in range(3):
            write_file(folder, files)
            files += 1
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for _ in range(lot.randint(1, 40)):
                assert child.stdout.readline(), "it ended by itself"
            child.send_signal(signal.SIGKILL)
        assert child.returncode == -signal.SIGKILL
    word = parse_source(source)
    with quiver.open(store_path) as store:
        assert store.core == 0
        assert store.recovery.damage == []
        before = store.progress(word.name)
        assert before
        connector = connector_of(word)(f"{store_path}/keep")
        feeder = Feeder(store, connector, source=word.name, slot="events")
        fed = feeder.run(once=True, idle=0.5)
        feeder.close()
        assert 0 < fed.row_count < files * FILE_ROWS
        assert store.progress(word.name) == fed.states
    rows = quiver.scan(store_path, slot="events").to_table()
    assert sorted(rows["id"].to_pylist()) == list(range(files * FILE_ROWS))
