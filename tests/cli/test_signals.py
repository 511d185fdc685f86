"""A signal that comes while the main thread begins to wait for what it sets."""

from __future__ import annotations

import signal
import threading

from quiver.cli.signals import setting, stopped_by_signals, wait_for


def test_an_event_is_set_though_the_signal_comes_while_its_waiter_has_the_lock() -> None:
    ending = threading.Event()
    with stopped_by_signals(setting(ending)):
        with ending._cond:  # Where a wait begins.
            signal.raise_signal(signal.SIGTERM)
        assert ending.wait(60)


def test_a_signal_that_another_thread_was_given_ends_the_wait() -> None:
    """As that of a process which is stopped, goes on, and is to end."""
    ending = threading.Event()
    struck = threading.Event()

    def strike() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        struck.set()

    with stopped_by_signals(setting(ending)):
        threading.Thread(target=strike).start()
        wait_for(ending)
    assert struck.wait(60)
