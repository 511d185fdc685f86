"""The process that actors are forked from: ``python -m bench.ship_kills.nursery SETUP``.

It imports everything once. Each line on its standard input names an actor and its numbers; the
line that answers is the process. It ends with its input, and its children with it.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import obstore.store  # noqa: F401 It is imported once, and used by nobody in here.

from bench.ship_kills.receiving import consume
from bench.ship_kills.sending import produce, ship, write
from bench.ship_kills.setup import Setup
from bench.ship_kills.sweeping import shorten, sweep

__all__ = ["main"]

_ACTORS: Final[dict[str, Callable[..., None]]] = {
    "consumer": consume,
    "drain": lambda setup, life: consume(setup, life, until_empty=True),
    "producer": produce,
    "ship-rest": lambda setup, life: ship(setup, life, follow=False),
    "shipper": ship,
    "sweeper": sweep,
    "writer": lambda setup, life, core: write(setup, core, life),
}

_children: set[int] = set()


def main(setup: Setup) -> None:
    """Fork who is asked for."""
    shorten(setup)
    signal.signal(signal.SIGCHLD, _reap)
    try:
        for line in sys.stdin:
            name, *numbers = line.split()
            _say(_fork(_ACTORS[name], setup, [int(number) for number in numbers]))
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for pid in _children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _fork(actor: Callable[..., None], setup: Setup, numbers: list[int]) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    pid = os.fork()
    if pid:
        _children.add(pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        return pid
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        os.close(0)
        os.close(1)
        actor(setup, *numbers)
        code = 0
    except BaseException:  # noqa: BLE001 Nothing of it may go on in the parent's code.
        traceback.print_exc()
    finally:
        os._exit(code)


def _reap(*_: object) -> None:
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            _children.discard(found[0])


def _say(pid: int) -> None:
    os.write(1, f"{pid}\n".encode())


if __name__ == "__main__":
    main(Setup.from_json(sys.argv[1]))
