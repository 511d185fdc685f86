"""The nodes of a play as processes, and the small disk that one of them has."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.chain_soak.network import Network
from bench.chain_soak.settings import PATIENCE, Setup
from bench.kit import ROOT

__all__ = ["NodeProcess", "SmallDisk", "mount_missing"]

_MORE_BYTES: Final = 16 << 30
"""Who has the most room is chosen: what others delete on the real disk would leave this one out."""
FILL_TRIALS = 100
"""A node writes fifty times a second: two looks in a row that are both too late are rare."""


def mount_missing(folder: Path) -> str:
    """Say why there can be no small disk; empty if there can."""
    try:
        disk = SmallDisk(folder / "tried")
    except (OSError, subprocess.SubprocessError) as error:
        return f"a small disk cannot be made here: {getattr(error, 'stderr', '') or error}".strip()
    disk.close()
    return ""


class SmallDisk:
    """A disk in memory that looks larger than the real one, until it is full to its last byte."""

    def __init__(self, place: Path) -> None:
        """Mount it."""
        self.place = place
        place.mkdir(parents=True)
        self._bytes = shutil.disk_usage(place).free + _MORE_BYTES
        self._mount("-t", "tmpfs", "-o", f"size={self._bytes}", "quiver-soak")

    def fill(self) -> None:
        """Leave no room.

        What is written between the look and the mount makes that fail, and it looks again.
        """
        for _ in range(FILL_TRIALS - 1):
            try:
                self._shrink()
            except subprocess.CalledProcessError:
                continue
            return
        self._shrink()

    def free(self) -> None:
        """Give the room back."""
        self._mount("-o", f"remount,size={self._bytes}")

    def close(self) -> None:
        """Unmount it."""
        subprocess.run(["umount", "-l", str(self.place)], check=True, timeout=30)

    def _shrink(self) -> None:
        self._mount("-o", f"remount,size={max(shutil.disk_usage(self.place).used, 4096)}")

    def _mount(self, *words: str) -> None:
        subprocess.run(
            ["mount", *words, str(self.place)],
            check=True,
            capture_output=True,
            text=True,
            timeout=30,
        )


class NodeProcess:
    """A node, through all its lives."""

    def __init__(
        self, setup: Setup, network: Network, name: str, *, folder: Path, planted: Sequence[str]
    ) -> None:
        """Take its place; ``planted`` starts it with a defect, instead of as it is."""
        self.name = name
        self._setup = setup
        self._network = network
        self._folder = folder
        self._planted = list(planted)
        self.process: subprocess.Popen[bytes] | None = None
        self.is_wanted = False
        """Whether it should run."""

    def start(self) -> None:
        """Start it; returns at once."""
        self.is_wanted = True
        with open(self._setup.log(self.name), "ab") as log:
            self.process = subprocess.Popen(
                [
                    *self._network.command(self.name),
                    *(sys.executable, *(self._planted or ["-m", "quiver"]), "node", "--json"),
                    *("--name", self.name, "--dir", str(self._folder)),
                    *("--metadata", self._setup.metadata, *self._network.listen(self.name)),
                    *("--audit-every", "1s", "--orphan-after", "10s", *self._setup.wire_words),
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
            )

    def wait(self) -> None:
        """Return once it serves; one that gave up, as the metadata were away, is started again."""
        limit = time.monotonic() + PATIENCE
        while True:
            out = self.process.stdout
            ready, _, _ = select.select([out], [], [], max(limit - time.monotonic(), 0))
            line = out.readline() if ready else b""
            if line:
                self._network.serves(self.name, json.loads(line)["address"])
                return
            if not ready or time.monotonic() > limit:
                said = Path(self._setup.log(self.name)).read_text()[-2000:]
                raise TimeoutError(f"{self.name} does not come up: {said}")
            self._gone()
            time.sleep(0.5)
            self.start()

    def signal(self, number: int) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it as kill -9 does."""
        if self.process is None:
            return
        self.is_wanted = False
        self.process.kill()
        self._gone()

    def drain(self) -> int:
        """Ask it to end, and wait until it has."""
        self.is_wanted = False
        self.signal(signal.SIGTERM)
        try:
            return self._gone()
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL

    def ended_by_itself(self) -> str:
        """Say with what it ended that nobody asked for; empty if it runs."""
        if not self.is_wanted or self.process is None or self.process.poll() is None:
            return ""
        said = Path(self._setup.log(self.name)).read_text()[-2000:]
        return f"{self.name} ended by itself with {self.process.returncode}: {said}"

    def _gone(self) -> int:
        code = self.process.wait(PATIENCE)
        self.process.stdout.close()
        return code

    def delete(self) -> None:
        """Delete what it had."""
        shutil.rmtree(self._folder, ignore_errors=True)
