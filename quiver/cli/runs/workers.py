"""Several processes of one pipeline: started, heard, started again when they die, ended."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import IO, TYPE_CHECKING, Any, Final

from quiver.cli.exits import BUG, OK
from quiver.cli.runs.pages import Face, pages_open
from quiver.cli.runs.telling import Told
from quiver.cli.signals import setting, stopped_by_signals
from quiver.clock import Clock, SystemClock
from quiver.errors import InputError
from quiver.units import SECOND

if TYPE_CHECKING:
    from quiver.observe import Observer
    from quiver.observe.sources import Watched
    from quiver.otel.pipeline import Plan
    from quiver.otel.pipeline.running import Leftover
    from quiver.otel.pipeline.status import NodeStatus

__all__ = ["DEATHS_MAX", "run_many"]

CHILD: Final = (sys.executable, "-m", "quiver", "run", "--child", "-")
"""How one of them is started."""
DEATHS_MAX: Final = 5
"""One that dies so often within a minute is not started again."""
_WINDOW_NS: Final = 60 * SECOND
_LOOK_SECONDS: Final = 0.25
_TELL_EVERY: Final = 40
_LINE_MAX: Final = 16 << 20
_HEAR_SECONDS: Final = 30.0
"""What its last words have to be heard in: whoever reads ours may be slow."""
_END_SECONDS: Final = 20.0
"""What a process has for its end beyond the time that it may drain."""


class Worker:
    """One process, and the last that it said."""

    def __init__(
        self, job: Mapping[str, Any], write: Callable[[str], object], command: Sequence[str]
    ) -> None:
        """Start it; ``write`` is given what its console exporters show."""
        self._write = write
        self.number = int(job["number"])
        self.nodes: Sequence[NodeStatus] = ()
        self.addresses: Mapping[str, Sequence[str]] = {}
        self.leftovers: Sequence[Leftover] = ()
        self.passed_over: Sequence[str] = ()
        self.is_ready = False
        self.late = 0
        self.error = ""
        self.heard = threading.Event()
        """Set when it said anything, or can say nothing more."""
        self._process = subprocess.Popen(  # noqa: S603 It is this very program.
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._tell(json.dumps(job))
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _tell(self, line: str) -> None:
        stdin: IO[str] | None = self._process.stdin
        if stdin is None:
            return
        try:
            stdin.write(line + "\n")
            stdin.flush()
        except (BrokenPipeError, ValueError):  # It has died, which is seen elsewhere.
            return

    def _listen(self) -> None:
        stdout: IO[str] | None = self._process.stdout
        while stdout is not None and (line := stdout.readline(_LINE_MAX)):
            try:
                self._hear(json.loads(line))
            except (ValueError, KeyError, TypeError):
                continue  # Cut off by its death.
            self.heard.set()
        self.heard.set()

    def _hear(self, said: Mapping[str, Any]) -> None:
        from quiver.otel.pipeline.running import Leftover
        from quiver.otel.pipeline.status import NodeStatus

        kind = said["kind"]
        if kind == "status":
            self.nodes = [NodeStatus.of(node) for node in said["nodes"]]
        elif kind == "ready":
            self.addresses = said["addresses"]
            self.passed_over = said["passed_over"]
            self.leftovers = [Leftover(**left) for left in said["leftovers"]]
            self.is_ready = True
        elif kind == "console":
            with suppress(BrokenPipeError):  # Nobody reads it any more.
                self._write(said["text"])
        elif kind == "ended":
            self.late = said["late"]
        elif kind == "error":
            self.error = f"{said['message']} ({said['hint']})" if said["hint"] else said["message"]

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Its exit code, as a shell has it; None while it lives."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def stop(self) -> None:
        """Tell it to end."""
        self._tell("stop")

    def wait(self, seconds: float) -> None:
        """Wait until it has ended and was heard to the end; kill it if that takes too long."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join(_HEAR_SECONDS)
        heard = () if self._thread.is_alive() else (self._process.stdout,)
        for stream in (self._process.stdin, *heard):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


class Workers:
    """All of them. ``look`` now and then; it starts again what died."""

    def __init__(
        self,
        file: str,
        *,
        variables: Mapping[str, str],
        count: int,
        clock: Clock,
        write: Callable[[str], object],
        command: Sequence[str] = CHILD,
    ) -> None:
        self._clock, self._command, self._write = clock, command, write
        self._job = {"file": file, "variables": dict(variables), "count": count}
        self._deaths: dict[int, deque[int]] = {n: deque() for n in range(count)}
        self._gone: list[NodeStatus] = []
        self.restarts = 0
        self.ended_with: int | None = None
        """The exit code of one that died too often."""
        self.all = [self._start(number) for number in range(count)]

    def _start(self, number: int) -> Worker:
        return Worker({**self._job, "number": number}, self._write, self._command)

    def look(self, told: Told) -> None:
        """Start again whoever died, unless that was too often."""
        from quiver.otel.pipeline.status import counted_only, merged

        for number, worker in enumerate(self.all):
            code = worker.code
            if code is None:
                continue
            worker.wait(0)
            now, deaths = self._clock.monotonic_ns(), self._deaths[number]
            deaths.append(now)
            while now - deaths[0] > _WINDOW_NS:
                deaths.popleft()
            told.died(number, code, worker.error)
            if len(deaths) >= DEATHS_MAX or (not worker.is_ready and worker.error):
                self.ended_with = code or BUG  # What it says is wrong does not mend by itself.
                return
            self._gone = merged([self._gone, counted_only(worker.nodes)])
            self.restarts += 1
            self.all[number] = self._start(number)

    @property
    def are_ready(self) -> bool:
        """Whether all of them take requests."""
        return all(worker.is_ready and worker.code is None for worker in self.all)

    def status(self) -> list[NodeStatus]:
        """Add up what all say, and what those said that died."""
        from quiver.otel.pipeline.status import merged

        return merged([*(worker.nodes for worker in self.all), self._gone])

    def stop(self, seconds: float) -> int:
        """End all; gives for how many exporters something is left."""
        for worker in self.all:
            worker.stop()
        for worker in self.all:
            worker.wait(seconds + _END_SECONDS)
        return sum(worker.late for worker in self.all)


class _Folders:
    """The stores of a pipeline as their folders tell of them, once there are any."""

    def __init__(self, plan: Plan) -> None:
        self._paths = {n.name: n.store.path for n in plan.stores if n.store and n.store.path}
        self._observers: dict[str, Observer] = {}

    def look(self) -> Sequence[Watched]:
        """Give what there is by now."""
        from quiver.errors import MissingError
        from quiver.observe import Observer

        for name, path in self._paths.items():
            if name not in self._observers:
                with suppress(MissingError):
                    self._observers[name] = Observer(path)
        return [self._observers] if self._observers else []

    def close(self) -> None:
        """Let go of the folders."""
        for observer in self._observers.values():
            observer.close()


def run_many(
    plan: Plan, told: Told, *, variables: Mapping[str, str], count: int, address: str | None
) -> int:
    """Run a pipeline in several processes; gives the exit code."""
    from quiver.otel.pipeline.options import host_and_port
    from quiver.otel.pipeline.remarks import addresses_of

    for node in plan.of_role("receiver"):
        for each in addresses_of(node).values():
            if not host_and_port(each)[1]:
                raise InputError(f"nodes.{node.name}: several processes cannot share port 0")
    ending = threading.Event()
    with ExitStack() as stack:
        stack.enter_context(stopped_by_signals(setting(ending)))
        workers = Workers(
            plan.file, variables=variables, count=count, clock=SystemClock(), write=told.write
        )
        try:
            folders = _Folders(plan)
            stack.callback(folders.close)
            face = Face(
                not_ready=lambda: "" if workers.are_ready else "not all processes are ready",
                status=workers.status,
                watched=folders.look,
            )
            url = stack.enter_context(pages_open(address, face))
            _watch(workers, told, ending, url=url)
        finally:
            told.ending()
            late = workers.stop(plan.drain_timeout_ns / SECOND)
        told.status(workers.status(), is_due=True)
    if workers.ended_with is not None:
        return workers.ended_with  # Why was told when it died.
    told.ended(late, restarts=workers.restarts)
    return OK


def _watch(workers: Workers, told: Told, ending: threading.Event, *, url: str | None) -> None:
    was_ready = False
    looks = 0
    while not ending.wait(_LOOK_SECONDS) and workers.ended_with is None:
        workers.look(told)
        if not was_ready and workers.are_ready:
            was_ready = True
            told.leftovers(left for worker in workers.all for left in worker.leftovers)
            told.passed_over(why for worker in workers.all for why in worker.passed_over)
            told.ready(workers.all[0].addresses, url, len(workers.all))
        looks += 1
        told.status(workers.status(), is_due=looks % _TELL_EVERY == 0)
