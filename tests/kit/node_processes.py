"""Nodes as processes: started by the command line, killed, stopped, cut off."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import blake3
from cluster_kit import row, value_of
from tcp_proxy import TcpProxy

from quiver.chain.cluster import Cluster, connect
from quiver.chain.loading import Loader, LoaderRules
from quiver.chain.peers import BlockName
from quiver.chain.record import Partition, Record
from quiver.clock import SystemClock
from quiver.errors import QuiverError

__all__ = ["PATIENCE", "Load", "NodeProcess", "Processes", "Watching", "judge", "small"]

PATIENCE = 90.0
_ROOT = Path(__file__).parents[2]


class NodeProcess:
    """One node; all that others say to it goes through a link that can be cut."""

    def __init__(self, folder: Path, name: str, options: tuple[str, ...] = ()) -> None:
        self.name = name
        self.options = options
        self._folder = folder
        self.link = TcpProxy()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.log = (self._folder / f"{self.name}.log").open("ab")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "quiver", "node", "--json", "--name", self.name),
                *("--dir", str(self._folder / self.name), "--host-label", "-"),
                *("--metadata", str(self._folder / "meta")),
                *("--advertise", self.link.address, "--audit-every", "1s", *self.options),
            ],
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=os.environ | {"PYTHONPATH": str(_ROOT)},
        )

    def wait(self) -> None:
        """Return once it serves."""
        out = self.process.stdout
        ready, _, _ = select.select([out], [], [], PATIENCE)
        line = out.readline() if ready else b""
        assert line, (self._folder / f"{self.name}.log").read_text()
        self.link.target = json.loads(line)["address"]

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait(PATIENCE)
        self.process.stdout.close()
        self.log.close()

    def end(self) -> int:
        """Let it drain."""
        self.signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE)
        self.process.stdout.close()
        self.log.close()
        return code


class Processes:
    """Some nodes with their metadata in a folder."""

    def __init__(self, folder: Path, *names: str, options: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.nodes = {name: NodeProcess(folder, name, options) for name in names}

    def __enter__(self):
        for node in self.nodes.values():
            node.start()
        for node in self.nodes.values():
            node.wait()
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            if node.process.poll() is None:
                node.kill()
            node.link.close()

    def connect(self) -> Cluster:
        return connect(str(self.folder / "meta"))

    def restart(self, name: str) -> None:
        self.nodes[name].start()
        self.nodes[name].wait()

    def record(self, cluster: Cluster, partition: str) -> Record:
        return Partition(cluster.metadata, partition, clock=SystemClock()).read()


@dataclass
class Load:
    """Sends one bundle after the other, each when the one before is acknowledged."""

    loader: Loader
    acked: list[int] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    def send(self, count: int) -> None:
        for _ in range(count):
            number = len(self.acked)
            begun = time.monotonic()
            self.loader.send(row(number, 200), timeout=PATIENCE).wait(PATIENCE)
            self.pauses.append(time.monotonic() - begun)
            self.acked.append(number)


class Watching:
    """A live cursor in a thread of its own."""

    def __init__(self, cluster: Cluster, partition: str) -> None:
        self._cursor = cluster.cursor(partition, live=True)
        self.found: list[int] = []
        self.fault: QuiverError | None = None
        self.changed = threading.Condition()
        self._over = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over:
            try:
                message = self._cursor.next(timeout=0.1)
            except TimeoutError:
                continue
            except QuiverError as error:
                self.fault = error
                return
            with self.changed:
                self.found.append(value_of(message))
                self.changed.notify_all()

    def wait(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.found) >= count, PATIENCE), (
                len(self.found),
                self.fault,
            )

    def close(self) -> None:
        self._over = True
        self._thread.join()
        self._cursor.close()


def judge(cluster: Cluster, partition: str, load: Load) -> list[int]:
    """Give what is committed; all that was acknowledged is in it once, and copies are equal."""
    with cluster.cursor(partition) as cursor:
        committed = [value_of(message) for message in cursor]
    assert committed == sorted(set(committed))
    assert set(load.acked) <= set(committed)
    opened = Partition(cluster.metadata, partition, clock=SystemClock())
    cluster.members.look()
    for block in opened.blocks_now(opened.read()):
        name = BlockName(partition, block.number)
        logs, segments = set(), set()
        for location in block.locations:
            peer = cluster.members(location)
            with suppress(QuiverError):  # It is dead, or has not heard yet that it is sealed.
                data = b"".join(peer.read(name, 0))
                logs.add((len(data), blake3.blake3(data).digest()))
            with suppress(QuiverError):  # It has no segment yet.
                segments.add(blake3.blake3(b"".join(peer.segment(name))).digest())
        assert logs or segments
        assert logs <= {(block.length, digest) for _, digest in logs}
        assert len(logs) <= 1
        assert segments <= {block.digest} or not block.digest
    return committed


def small(rf: int = 3) -> LoaderRules:
    return LoaderRules(rf=rf, soft_bytes=40_000)
