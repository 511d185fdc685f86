"""Verbs that go on until they are told to end: by a signal, or by a reader who hangs up."""

from __future__ import annotations

import _thread
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

__all__ = ["check_reader", "setting", "stopped_by_signals", "wait_for"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_LOOK_SECONDS: Final = 1.0


@contextmanager
def stopped_by_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Let the first signal end the run in good order; a second one ends it at once.

    ``stop`` is called in the midst of whatever the main thread does: it takes no lock.
    """
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def stop_once(_number: int, _frame: FrameType | None) -> None:
        restore()
        stop()

    for number in _SIGNALS:
        signal.signal(number, stop_once)
    try:
        yield
    finally:
        restore()


def setting(event: threading.Event) -> Callable[[], object]:
    """Give a ``stop`` that sets an event for which the main thread waits.

    Set by the signal's own handler, it would wait for the lock that its thread has as it begins to
    wait, for ever.
    """
    return lambda: _thread.start_new_thread(event.set, ())


def wait_for(event: threading.Event) -> None:
    """Wait for an event that a signal sets.

    The system gives a signal to any thread if the main one is just going on behind SIGSTOP, and
    nobody wakes the main one then, in which the handler is to run: so it looks now and then.
    """
    while not event.wait(_LOOK_SECONDS):
        pass


def check_reader() -> None:
    """Raise BrokenPipeError if whoever read stdout has gone: who waits would not notice."""
    try:
        target = sys.stdout.fileno()
    except OSError:
        return
    look = select.poll()
    look.register(target, 0)
    if any(event & (select.POLLERR | select.POLLHUP) for _, event in look.poll(0)):
        raise BrokenPipeError
