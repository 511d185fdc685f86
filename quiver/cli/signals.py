"""Verbs that go on until they are told to end: by a signal, or by a reader who hangs up."""

from __future__ import annotations

import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

__all__ = ["check_reader", "stopped_by_signals"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopped_by_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Let the first signal end the run in good order; a second one ends it at once."""
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
