"""Sources of every connector here, for the conformance tests and those beside them."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, feather, parquet
from toy_source import ToySource

from quiver.disk import LocalDisk
from quiver.source import Split
from quiver.source.files import FilesConnector, FilesOptions
from quiver.testing import ManualClock


class ToyRig:
    columns = ("value", "twice")
    patience = 5.0

    def __init__(self) -> None:
        self.connector = ToySource({"a": [], "b": []}, batch_rows=3)
        self._fed = 0

    def feed(self, rows: int) -> None:
        for _ in range(rows):
            self.connector.feed("ab"[self._fed % 2], [self._fed])
            self._fed += 1

    def list_splits(self) -> Sequence[Split]:
        return self.connector.enumerator().list_splits()

    def bad_states(self) -> Sequence[str]:
        return ['{"at":{"next":"x"},"connector":"toy","version":1}']


def table(first: int, rows: int) -> pa.Table:
    numbers = range(first, first + rows)
    texts = [f'row "{n}", of\nmany' if n % 3 else None for n in numbers]
    return pa.table({"number": pa.array(numbers, pa.int64()), "text": pa.array(texts)})


def write(path: Path, rows: pa.Table, kind: str) -> None:
    """Write a file as people do: under a hidden name, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name("." + path.name)
    if kind == "parquet":
        parquet.write_table(rows, hidden, row_group_size=5)
    elif kind == "arrow":
        feather.write_feather(rows, hidden, chunksize=5, compression="uncompressed")
    elif kind == "arrows":
        with pa.ipc.new_stream(str(hidden), rows.schema) as writer:
            writer.write_table(rows, max_chunksize=5)
    elif kind == "csv":
        csv.write_csv(rows, hidden)
    else:
        import json

        hidden.write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
    hidden.rename(path)


class FilesRig:
    """A folder of files of one kind; a feed writes several of them."""

    columns = ("number", "text")
    patience = 5.0

    def __init__(self, folder: Path, kind: str) -> None:
        (folder / "in").mkdir()
        self.folder = folder / "in"
        self._kind = kind
        self.clock = ManualClock()
        self.connector = FilesConnector(
            LocalDisk(self.folder),
            LocalDisk(folder / "register", create=True),
            options=FilesOptions(splits=3, batch_rows=4, block_bytes=64),
            clock=self.clock,
        )
        self._enumerator = self.connector.enumerator()
        self._fed = 0

    def feed(self, rows: int) -> None:
        for start in range(0, rows, 8):
            count = min(8, rows - start)
            name = f"{self._fed % 2}/part-{self._fed:04}.{self._kind}"
            write(self.folder / name, table(self._fed, count), self._kind)
            self._fed += count

    def list_splits(self) -> Sequence[Split]:
        for _ in range(2):
            self.clock.step(2)
            found = self._enumerator.list_splits()
        return found

    def bad_states(self) -> Sequence[str]:
        def state(**changed: Any) -> str:
            import json

            at = {
                "register": self.connector.register.head.register_id,
                "file": 0,
                "unit": 0,
                "rows": 0,
                "row": 0,
            }
            whole = {"at": at | changed, "connector": "files", "version": 1}
            return json.dumps(whole, sort_keys=True, separators=(",", ":"))

        return [
            state(file="x"),
            state(file=-1),
            state(row=True),
            state(register="another"),
            state(file=3 * 10**9, unit=1),
            state(more=1),
        ]

    def close(self) -> None:
        self._enumerator.close()


SERVER = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin")


def nats_missing() -> str:
    """Say why there can be no test with NATS; empty if there can."""
    try:
        import nats  # noqa: F401
    except ImportError:
        return "nats-py is not installed: pip install nats-py"
    return "" if SERVER else "there is no nats-server: apt-get install nats-server"


class NatsServer:
    """A server of our own, with JetStream, on a free port, in a folder that goes with the test."""

    def __init__(self, folder: Path) -> None:
        assert SERVER is not None
        self._folder = folder
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and return once it says that it is ready."""
        self._process = subprocess.Popen(
            [SERVER, "-js", "-a", "127.0.0.1", "-p", str(self.port), "-sd", str(self._folder)],
            stderr=subprocess.PIPE,
        )
        lines = iter(self._process.stderr.readline, b"")
        assert any(b"Server is ready" in line for line in lines), "the server did not start"
        self._drain = threading.Thread(target=self._process.stderr.read, daemon=True)
        self._drain.start()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._drain.join()
        self._process.stderr.close()


class NatsRig:
    """One stream, read as a whole or by its subjects."""

    columns = ("payload", "sequence")
    patience = 10.0

    def __init__(self, server: NatsServer, stream: str, subjects: Sequence[str] = ()) -> None:
        from quiver.source.nats import NatsConnector, NatsOptions
        from quiver.source.nats.link import Link

        self.stream = stream
        self.server = server
        self.options = NatsOptions(
            servers=(server.url,),
            streams=(stream,),
            subjects=tuple(f"{stream}.{subject}" for subject in subjects),
            batch_rows=4,
        )
        self.connector = NatsConnector(self.options)
        self.link = Link([server.url], {})
        self.stream_context = self.link.connection.jetstream()
        self.ask(lambda js: js.add_stream(name=stream, subjects=[f"{stream}.>"]))
        self._enumerator = self.connector.enumerator()
        self._fed = 0

    def ask(self, question: Any) -> Any:
        return self.link.ask(lambda: question(self.stream_context))

    def feed(self, rows: int) -> None:
        for _ in range(rows):
            subject = f"{self.stream}.{'ab'[self._fed % 2]}"
            payload = b"message %d" % self._fed
            self.ask(lambda js, s=subject, p=payload: js.publish(s, p, headers={"n": "1"}))
            self._fed += 1

    def list_splits(self) -> Sequence[Split]:
        return self._enumerator.list_splits()

    def bad_states(self) -> Sequence[str]:
        return [
            '{"at":{"created":"x","sequence":"1"},"connector":"nats","version":1}',
            '{"at":{"created":"x","sequence":-1},"connector":"nats","version":1}',
            '{"at":{"created":1,"sequence":1},"connector":"nats","version":1}',
            '{"at":{"sequence":1},"connector":"nats","version":1}',
        ]

    def close(self) -> None:
        self._enumerator.close()
        self.link.close()
