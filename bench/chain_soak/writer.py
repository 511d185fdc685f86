"""A loader as a process: ``python -m bench.chain_soak.writer SETUP PARTITION LIFE``.

Sends a bundle every few hundredths of a second, whether those before are acknowledged or not.
What it sends and what is acknowledged it says in a log, with the time of the monotonic clock.
SIGTERM has it seal its block and end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

from bench.chain_soak.settings import LIFE, PATIENCE, Setup, row
from bench.kills.log import Log
from bench.kit import ROOT
from quiver.chain.cluster import connect
from quiver.chain.loading import Loader, LoaderRules
from quiver.cli.signals import setting
from quiver.errors import CapacityError, FencedError, QuiverError, WaitTimeoutError

__all__ = ["WriterProcess", "main"]

_FENCED: Final = 3
_TOLD: Final = 4


class WriterProcess:
    """The loader of a partition, through its lives."""

    def __init__(self, setup: Setup, partition: str, planted: list[str]) -> None:
        self._setup = setup
        self._planted = planted
        self.partition = partition
        self.life = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._stopped: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin the next life, which takes over."""
        self.life += 1
        code = self._planted or ["-m", "bench.chain_soak.writer"]
        with open(self._setup.log(f"writer {self.partition}"), "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *code, self._setup.to_json(), self.partition, str(self.life)],
                stdin=subprocess.DEVNULL,
                stderr=log,
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
            )

    def kill(self) -> None:
        """End it as kill -9 does, and one that is stopped as well."""
        for process in (self.process, self._stopped):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait(PATIENCE)

    def stop(self) -> None:
        """Have it stand still; the next life begins beside it."""
        self.process.send_signal(signal.SIGSTOP)
        self._stopped = self.process

    def wake(self) -> bool:
        """Let the one that stood still go on; whether it ended then, as it should."""
        self._stopped.send_signal(signal.SIGCONT)
        try:
            self._stopped.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self) -> int:
        """Ask it to seal its block, and wait until it has."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def how_it_ended(self) -> str:
        """Say with what it ended, and what it told last; empty if it runs."""
        if self.process is None or self.process.poll() is None:
            return ""
        said = Path(self._setup.log(f"writer {self.partition}")).read_text()[-2000:]
        return f"the loader of {self.partition} ended with {self.process.returncode}: {said}"


def main(text: str, partition: str, life: int) -> int:
    """Load until SIGTERM; the status says whether the loader was fenced off."""
    setup = Setup.from_json(text)
    log = Log(setup.log(f"acks {partition}"))
    log.say("begun", life, time.monotonic_ns())
    over = threading.Event()
    stop = setting(over)
    signal.signal(signal.SIGTERM, lambda *_: stop())
    rules = LoaderRules(
        rf=setup.rf[partition], soft_bytes=setup.soft_bytes, takes_over=True, buffer_bytes=1 << 20
    )
    with connect(setup.metadata, wire=setup.wire) as cluster:
        try:
            loader = cluster.loader(partition, ["events"], rules=rules)
            loader.wait_open(PATIENCE)
            log.say("open", life, time.monotonic_ns())
            _load(loader, setup, log, life=life, over=over)
        except FencedError:
            log.say("fenced", life, time.monotonic_ns())
            return _FENCED
        except QuiverError as error:
            log.say("lost", life, time.monotonic_ns(), f"{type(error).__name__}: {error}")
            print(f"life {life}: {error!r}", file=sys.stderr)
            return _TOLD
    return 0


def _load(loader: Loader, setup: Setup, log: Log, *, life: int, over: threading.Event) -> None:
    first: list[int] = []
    listening = threading.Thread(
        target=_listen, args=(loader, log, first), kwargs={"life": life}, daemon=True
    )
    number = 0
    while not over.wait(setup.every):
        log.say("sent", life * LIFE + number)
        try:
            receipt = loader.send(row(life * LIFE + number), timeout=0.2)
        except CapacityError:
            continue
        if not first:
            first.append(receipt.wal_seq)
            listening.start()
        number += 1
    loader.close(PATIENCE)
    log.say("acked", life * LIFE + number - 1, time.monotonic_ns())
    log.say("closed", life, time.monotonic_ns())


def _listen(loader: Loader, log: Log, first: list[int], *, life: int) -> None:
    """Say when the number up to which all is acknowledged goes up."""
    seen = first[0] - 1
    while True:
        try:
            loader.wait_acked(seen + 1, 60.0)
        except WaitTimeoutError:
            continue
        except QuiverError:
            return  # Whoever sends hears of it, too.
        seen = loader.acked_seq
        log.say("acked", life * LIFE + seen - first[0], time.monotonic_ns())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
