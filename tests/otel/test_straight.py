"""A pipeline without a store: the sender waits for the answer of the other side."""

from __future__ import annotations

import threading

import pytest
from delivery_kit import ScriptedExporter, texts
from otlp_sinks import logs_batch

from quiver.errors import CapacityError, InputError
from quiver.otel.delivery import Straight
from quiver.otel.nodes import Delivered, Outcome, Refused, Retry
from quiver.otel.signals import Signal
from quiver.testing import ManualClock


def straight(exporter: ScriptedExporter, **named: object) -> Straight:
    return Straight("out", exporter, clock=ManualClock(), **named)  # type: ignore[arg-type]


def test_it_returns_when_all_are_accepted() -> None:
    exporter = ScriptedExporter()
    node = straight(exporter)
    node.take(Signal.LOGS, [logs_batch("a"), logs_batch("b")])
    assert exporter.accepted == ["a", "b"]
    node.close()
    assert exporter.closed == 1


@pytest.mark.parametrize(
    "outcome, error", [(Retry("down"), CapacityError), (Refused("odd"), InputError)]
)
def test_the_sender_is_told_whether_to_send_again(outcome: Outcome, error: type[Exception]) -> None:
    exporter = ScriptedExporter(lambda each: outcome)
    with pytest.raises(error, match="out: "):
        straight(exporter).take(Signal.LOGS, [logs_batch("a")])


def test_an_exporter_that_raises_frees_all_who_wait() -> None:
    faults: list[Exception] = [CapacityError("full"), ZeroDivisionError()]

    def fail(_: Delivered) -> Outcome:
        raise faults.pop(0)

    node = straight(ScriptedExporter(fail))
    with pytest.raises(CapacityError):
        node.take(Signal.LOGS, [logs_batch("a")])
    with pytest.raises(ZeroDivisionError):
        node.take(Signal.LOGS, [logs_batch("a")])


def test_what_processors_leave_nothing_of_is_not_sent() -> None:
    exporter = ScriptedExporter()
    node = straight(exporter, convert=lambda batch: None if texts(batch) == ["a"] else batch)
    node.take(Signal.LOGS, [logs_batch("a"), logs_batch("b")])
    assert exporter.accepted == ["b"]
    assert node.report.metrics.read()["quiver.exporter.dropped_items", "logs"] == 1


def test_threads_that_come_while_a_call_is_under_way_go_together() -> None:
    exporter = ScriptedExporter()
    node = straight(exporter)
    begun, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert go_on.wait(20)

    exporter.during = hold
    threads = [
        threading.Thread(target=node.take, args=(Signal.LOGS, [logs_batch(str(n))]))
        for n in range(4)
    ]
    threads[0].start()
    assert begun.wait(20)
    for thread in threads[1:]:
        thread.start()
    for _ in range(10_000):
        if len(node._waiting) == 3:
            break
        threading.Event().wait(0.001)
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert sorted(exporter.accepted) == ["0", "1", "2", "3"]
    assert [len(call) for call in exporter.calls] == [1, 3]
