"""What goes wrong while a pipeline runs is told to who runs it."""

from __future__ import annotations

import logging

from quiver.cli.runs.logged import events_shown
from quiver.errors import CapacityError
from quiver.events import Events


def test_warnings_and_their_end_are_told_while_it_runs() -> None:
    lines: list[str] = []
    before = logging.getLogger("quiver").level
    events = Events(node="out")
    with events_shown(lines.append):
        events.begin("exporter.failed", error=CapacityError("full", hint="make room"))
        events.info("exporter.resumed")
        events.info("store.opened", path="data")
        events.tell()
    events.error("exporter.ended", error="afterwards")
    events.tell()
    assert lines == [
        "exporter.failed: node=out, error=full (make room)",
        "exporter.resumed: node=out",
    ]
    assert logging.getLogger("quiver").level == before


def test_who_cannot_be_told_stops_nobody() -> None:
    def write(_: str) -> None:
        raise BrokenPipeError

    events = Events()
    with events_shown(write):
        events.warning("receiver.failed")
        events.tell()
