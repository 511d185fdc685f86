"""Who is started, who is killed when, and when all is through."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from bench.demo_ship.writer import PARTS
from bench.demo_stream.compare import sink_files
from bench.demo_stream.stage import Stage
from quiver.ship.objects import open_bucket
from quiver.ship.queue import Queue

__all__ = ["Play", "rows_in", "table_of"]

_END_SECONDS: Final = 120.0
_MORE_SECONDS: Final = 30.0
"""So long it is waited for new rows in the sink between two kills."""
_DOWN_SECONDS: Final = 1.0
"""How long the server is away."""
_SUBSCRIBER: Final = "ship"


class Play:
    """Two stores, their writers and shippers, a server of objects, and a query."""

    def __init__(self, folder: str, server: Any, tell: Callable[[str], object]) -> None:
        self._server = server
        self._stage = stage = Stage(folder, tell)
        self._url = f"{server.url}/flights"
        self.sink = os.path.join(folder, "parquet")
        stores = [os.path.join(folder, f"store-{part}") for part in range(PARTS)]
        self._ships = [["ship", store, self._url, "--subscriber", _SUBSCRIBER] for store in stores]
        self._writers = [
            stage.actor(f"writer {part}", "bench.demo_ship.writer", [store, str(part)])
            for part, store in enumerate(stores)
        ]
        self._shippers = [
            stage.actor(f"shipper {part}", "quiver", [*ship, "--follow", "--quiet"])
            for part, ship in enumerate(self._ships)
        ]
        places = [self._url, os.path.join(folder, "checkpoint"), self.sink]
        self._query = stage.actor("query", "bench.demo_ship.query", places)

    @property
    def kills(self) -> int:
        """How many were killed."""
        return self._stage.kills

    def run(self, row_count: int) -> tuple[int, int]:
        """Play until the sink has so many rows; gives batches that were and are in the queue."""
        with reached(self._server):
            try:
                self._begin()
                self._kill_each()
                self._end(row_count)
                view = self._queue().read()
                return view.next_sequence, view.entry_count
            finally:
                self._stage.close()

    def _queue(self) -> Queue:
        return Queue(open_bucket(self._url, environ=os.environ))

    # the beginning -------------------------------------------------------------------------------

    def _begin(self) -> None:
        stage = self._stage
        for writer in self._writers:
            stage.start(writer, "ready")
        for shipper in self._shippers:
            shipper.start()
        # The slot has to be in the queue before its columns are known.
        self._await("the first batch in the queue", lambda: self._queue().read().next_sequence > 0)
        stage.say("both writers write, both shippers ship")
        self._start_query()
        stage.say(f"Spark reads the queue: {self._rows():,} rows in Parquet")

    def _start_query(self) -> None:
        self._stage.start(self._query, "running")
        rows = self._rows()
        self._query.await_that(lambda: self._rows() > rows, _MORE_SECONDS)

    def _rows(self) -> int:
        return rows_in(self.sink)

    # the kills -----------------------------------------------------------------------------------

    def _kill_each(self) -> None:
        """Kill one of each kind, each behind more rows in the sink."""
        stage, writer, shipper = self._stage, self._writers[0], self._shippers[1]
        writer.kill()
        durable = [line for line in writer.lines if line.startswith("durable")]
        stage.note(f"writer 0, behind {len(durable):,} durable bundles")
        stage.start(writer, "ready")
        self._await_more()
        shipper.kill()
        stage.note(f"shipper 1, with {self._queue().read().next_sequence:,} batches in the queue")
        shipper.start()
        self._await_more()
        self._server.kill()
        stage.note(f"the server of objects, away for {_DOWN_SECONDS:.0f} s")
        time.sleep(_DOWN_SECONDS)
        self._server.start()
        self._await_more()
        self._query.kill()
        stage.note(f"Spark and its JVM, with {self._rows():,} rows in Parquet")
        self._start_query()
        stage.say(f"Spark reads on: {self._rows():,} rows in Parquet")

    def _await_more(self) -> None:
        rows = self._rows()
        self._stage.has_come(lambda: self._rows() > rows, _MORE_SECONDS, self._revive)

    def _revive(self) -> None:
        self._stage.revive(self._query)

    # the end -------------------------------------------------------------------------------------

    def _end(self, row_count: int) -> None:
        """Let all that is written be shipped, and read."""
        for writer in self._writers:
            self._await(f"the end of {writer.name}", lambda each=writer: each.has_said("done"))
        self._stage.say("both writers are done")
        for shipper, ship in zip(self._shippers, self._ships, strict=True):
            if shipper.is_alive:
                os.kill(shipper.pid, signal.SIGTERM)
            self._await(f"the end of {shipper.name}", lambda each=shipper: not each.is_alive)
            subprocess.run(
                [sys.executable, "-m", "quiver", *ship, "--quiet"],
                check=True,
                timeout=_END_SECONDS,
                stdout=subprocess.DEVNULL,
            )
        self._stage.say("all is shipped")
        self._await("all rows in Parquet", lambda: self._rows() >= row_count)
        self._stage.say(f"{self._rows():,} rows in Parquet")

    def _await(self, what: str, holds: Callable[[], bool]) -> None:
        self._stage.await_that(what, holds, self._revive)


def rows_in(sink: str) -> int:
    """Count the rows that a sink holds."""
    if not os.path.isdir(os.path.join(sink, "_spark_metadata")):
        return 0
    return sum(pq.read_metadata(path).num_rows for path in sink_files(sink))


def table_of(sink: str, schema: pa.Schema) -> pa.Table:
    """Read all rows that a sink holds, with the types of the source."""
    tables = [pq.read_table(path, partitioning=None) for path in sink_files(sink)]
    return pa.concat_tables([schema.empty_table(), *(table.cast(schema) for table in tables)])


@contextmanager
def reached(server: Any) -> Iterator[None]:
    """Let all who are started know by their environment how the server is reached."""
    options = server.options
    names = {
        "AWS_ENDPOINT_URL": options["endpoint"],
        "AWS_ACCESS_KEY_ID": options["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": options["secret_access_key"],
        "AWS_REGION": options["region"],
        "AWS_ALLOW_HTTP": "true",
    }
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
