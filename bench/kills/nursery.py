"""The process that actors are forked from: it imports everything once.

Each line on its standard input names an actor and its numbers; the line that answers is the
process. It ends with its input, and its children with it.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

__all__ = ["serve"]

_children: set[int] = set()


def serve(actors: Mapping[str, Callable[..., None]], setup: Any) -> None:
    """Fork who is asked for."""
    signal.signal(signal.SIGCHLD, _reap)
    try:
        for line in sys.stdin:
            name, *numbers = line.split()
            _say(_fork(actors[name], setup, [int(number) for number in numbers]))
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for pid in _children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _fork(actor: Callable[..., None], setup: Any, numbers: list[int]) -> int:
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
