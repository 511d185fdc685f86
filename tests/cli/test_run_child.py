"""One of several processes of a pipeline, and the parent that it loses."""

from __future__ import annotations

import io
import json
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from quiver.cli.runs import child
from quiver.errors import QuiverError
from quiver.otel import pipeline as pipelines

JOB = json.dumps({"file": "none.yaml", "variables": {}, "number": 0, "count": 2}) + "\n"


@dataclass
class Drained:
    """Stands for a pipeline whose exporters never get rid of what they have."""

    exits: list[int] = field(default_factory=list)
    addresses: dict[str, list[str]] = field(default_factory=dict)
    broken_off: threading.Event = field(default_factory=threading.Event)
    leftovers = passed_over = ()

    @property
    def failure(self) -> QuiverError | None:
        return QuiverError("it would be gone") if self.exits else None

    def start(self) -> None:
        assert self.broken_off.wait(30)

    def status(self) -> list[Any]:
        return []

    def stop(self, seconds: float | None = None) -> int:
        assert self.broken_off.wait(30)
        return int(seconds is None)

    def exit(self, code: int) -> None:
        self.exits.append(code)
        self.broken_off.set()


@pytest.mark.parametrize("said", ["", "stop\n"], ids=["it starts", "it drains"])
def test_one_whose_parent_is_gone_ends_at_once(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drained = Drained()
    monkeypatch.setattr(pipelines, "open", lambda *_, **__: drained)
    monkeypatch.setattr("os._exit", drained.exit)
    child.serve_child(io.StringIO(JOB + said))
    assert drained.exits == [129]
