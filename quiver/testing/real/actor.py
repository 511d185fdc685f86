"""A process of its own that leads a life on a real folder, so that it can really be killed.

Python and Arrow take half a second to start, so one warm process with everything imported and a
single thread waits for orders and forks a child for each life. Lines of JSON go both ways:

==========================  =======================================================
line                        said by
==========================  =======================================================
order (``life`` ...)        the parent, on standard input
``pid``                     the child, before anything else
``mark``                    the child, before the act that follows
``end``                     the child, when the life is over or the disk has refused
``gone``                    the warm process, once the child is dead
empty                       the parent: the child's number may be used again
==========================  =======================================================

Each line is one ``write`` of less than a pipe takes at once: a kill leaves no half lines, and
what was written before it is read after it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from quiver.disk import LocalDisk
from quiver.errors import QuiverError, StorageError
from quiver.testing.acts import Act, Mark
from quiver.testing.memory_disk import MemoryDisk
from quiver.testing.real.watched_disk import WatchedDisk, mark_from_json, mark_to_json
from quiver.testing.runner import QUIVER, load_subject
from quiver.testing.subject import Loss

__all__ = ["Actor", "Performance", "serve"]

_SECONDS_MAX: Final = 30.0
"""No life and no answer takes longer."""

_READ_BYTES: Final = 1 << 16

_ONE_THREAD: Final = {
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "OPENBLAS_NUM_THREADS": "1",
}
"""What keeps Arrow and NumPy from starting threads, which a forked child would not have."""


class Actor:
    """The warm process. Use it in a ``with`` block, in one thread; it leads one life at a time."""

    def __init__(self, subject: str = QUIVER, *, seed: int = 0, path: Iterable[str] = ()) -> None:
        """Start it with the subject that ``module:function`` names; ``path`` is where to look."""
        code = "from quiver.testing.real.actor import serve; serve()"
        search = os.pathsep.join([*path, *filter(None, sys.path)])
        self._process = subprocess.Popen(  # noqa: S603 (our own interpreter)
            [sys.executable, "-c", code, subject, str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, **_ONE_THREAD, "PYTHONPATH": search},
        )
        self._rest = b""
        self._on_stage: Performance | None = None

    def perform(self, life: str, folder: str, *, kill_before: int | None = None) -> Performance:
        """Let a new process lead a life in ``folder``; it may kill itself before an act.

        A life that nobody saw to its end is killed first.
        """
        if self._on_stage is not None:
            self._on_stage.kill()
            self._on_stage.finish()
        self.tell(json.dumps({"life": life, "folder": folder, "kill_before": kill_before}))
        self._on_stage = Performance(self)
        return self._on_stage

    @property
    def pid(self) -> int:
        """The process number of the warm process."""
        return self._process.pid

    def tell(self, line: str) -> None:
        """Send one line."""
        if self._process.stdin is not None:
            os.write(self._process.stdin.fileno(), line.encode() + b"\n")

    def hear(self, moment: float) -> dict[str, Any] | None:
        """Give the next line, or None if ``moment``, on the monotonic clock, comes first."""
        while b"\n" not in self._rest:
            if self._process.stdout is None:
                return None
            stream = self._process.stdout.fileno()
            watched = select.poll()  # select() cannot see a descriptor above 1,023.
            watched.register(stream, select.POLLIN)
            if not watched.poll(max(0.0, moment - time.monotonic()) * 1000):
                return None
            data = os.read(stream, _READ_BYTES)
            if not data:
                raise StorageError(f"the actor died with status {self._process.wait()}")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        said: dict[str, Any] = json.loads(line)
        return said

    def close(self) -> None:
        """End the warm process."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        try:
            self._process.wait(_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        """Give the actor itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()


class Performance:
    """A life that another process leads now."""

    def __init__(self, actor: Actor) -> None:
        self.marks: list[Mark] = []
        self.killed = False
        """Whether the process was killed, from outside or by itself."""
        self.refusal = ""
        """What ended the life early: an error of the disk or the store, in words."""
        self.loss = ""
        """What the life itself found broken."""
        self._actor = actor
        self._gone = False
        self._finished = False
        said = actor.hear(time.monotonic() + _SECONDS_MAX)
        if said is None:
            raise StorageError("the actor does not answer")
        self._pid = int(said["pid"])

    def watch(self, seconds: float) -> bool:
        """Listen for so long, or to the end; whether that came."""
        moment = time.monotonic() + seconds
        while not self._gone and (said := self._actor.hear(moment)) is not None:
            if "mark" in said:
                self.marks.append(mark_from_json(said))
            elif "end" in said:
                self.refusal, self.loss = said["end"]["refusal"], said["end"]["loss"]
            else:
                self._gone = True
                self.killed = said["gone"] == -signal.SIGKILL
        return self._gone

    def kill(self) -> None:
        """Kill the process at once; one that is dead already stays so."""
        if not self._gone:
            os.kill(self._pid, signal.SIGKILL)  # Not yet reaped: the number is still its own.

    def finish(self) -> None:
        """Listen until the process is gone; raises StorageError if it hangs. Once is enough."""
        if self._finished:
            return
        hangs = not self.watch(_SECONDS_MAX)
        if hangs:
            self.kill()
            self.watch(_SECONDS_MAX)
        self._finished = True
        self._actor.tell("")
        if hangs:
            raise StorageError("the life hangs")


def serve() -> None:
    """Wait for orders on standard input and fork a child for each: the warm process's work."""
    subject = load_subject(sys.argv[1], int(sys.argv[2]))
    live = subject.live
    live(subject.lives[0], MemoryDisk())  # What is imported late is imported before the fork.
    for line in iter(sys.stdin.readline, ""):
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            _perform(live, order)
        found = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        status = 0 if found is None else found.si_status
        killed = found is not None and found.si_code == os.CLD_KILLED
        _say({"gone": -status if killed else status})
        sys.stdin.readline()
        os.waitpid(child, 0)


def _perform(live: Callable[[str, WatchedDisk], None], order: dict[str, Any]) -> NoReturn:
    """Lead one life in this process and end it."""
    end = {"refusal": "", "loss": ""}
    try:
        _say({"pid": os.getpid()})
        warnings.simplefilter("ignore", ResourceWarning)  # Who dies leaves bundles unresolved.

        def before(number: int, _: Act) -> bool:
            if number == order["kill_before"]:
                os.kill(os.getpid(), signal.SIGKILL)
            return False

        disk = LocalDisk(order["folder"], create=True)
        live(order["life"], WatchedDisk(disk, before=before, note=_say_mark))
    except QuiverError as error:
        end["refusal"] = f"{type(error).__name__}: {error}"
    except Loss as loss:
        end["loss"] = str(loss)
    except BaseException:  # noqa: BLE001 (the parent raises it)
        end["loss"] = traceback.format_exc()
    try:
        _say({"end": end})
    finally:
        os._exit(0)


def _say_mark(mark: Mark) -> None:
    _say_line(mark_to_json(mark))


def _say(what: dict[str, object]) -> None:
    _say_line(json.dumps(what))


def _say_line(line: str) -> None:
    os.write(sys.stdout.fileno(), line.encode() + b"\n")
