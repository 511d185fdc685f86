"""A signal that comes while the main thread begins to wait for what it sets."""

from __future__ import annotations

import signal
import threading

from quiver.cli.signals import setting, stopped_by_signals


def test_an_event_is_set_though_the_signal_comes_while_its_waiter_has_the_lock() -> None:
    ending = threading.Event()
    with stopped_by_signals(setting(ending)):
        with ending._cond:  # Where a wait begins.
            signal.raise_signal(signal.SIGTERM)
        assert ending.wait(60)
