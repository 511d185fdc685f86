"""A pipeline that takes nothing in: it delivers what its stores have, and ends."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pipeline_kit import PATIENCE, FakeParts, Sink, opened, pipeline_of
from run_child import RunChild

from quiver.cli.program import program
from quiver.engine import open as open_store
from quiver.otel.nodes import Accepted, Retry
from quiver.otel.pipeline import load_pipeline
from quiver.otel.pipeline.running import Pipeline, Share
from quiver.otel.pipeline.standard import CODEC
from quiver.otel.signals import TELEMETRY, Signal


def filled(folder: Path, **how: Any) -> None:
    """Leave what an exporter that is down did not take."""
    parts = FakeParts(a=Sink(is_down=True))
    pipeline = opened(pipeline_of(folder, "in > keep > a"), parts, **how)
    parts.send("one", "two")
    parts.sinks["a"].wait_for_try()
    pipeline.stop(0.0)


def test_it_opens_no_receiver_and_ends_when_all_is_delivered(tmp_path) -> None:
    filled(tmp_path)
    parts = FakeParts()
    pipeline = Pipeline(load_pipeline(pipeline_of(tmp_path, "in > keep > a")), parts)
    pipeline.start(receive=False)
    assert parts.intakes == {}
    assert pipeline.not_ready() == "it takes nothing in"
    assert not pipeline.is_drained
    pipeline.drain()
    for running in pipeline._deliveries:
        running.thread.join(PATIENCE)
    assert pipeline.is_drained
    assert pipeline.failure is None
    assert parts.sinks["a"].got == ["one", "two"]
    assert pipeline.stop() == 0


def test_one_process_delivers_the_cores_of_all(tmp_path) -> None:
    filled(tmp_path, share=Share(0, 2))
    filled(tmp_path, share=Share(1, 2))
    parts = FakeParts()
    pipeline = Pipeline(load_pipeline(pipeline_of(tmp_path, "in > keep > a")), parts)
    pipeline.start(receive=False)
    pipeline.drain()
    for running in pipeline._deliveries:
        running.thread.join(PATIENCE)
    assert parts.sinks["a"].got == ["one", "two"] * 2
    assert pipeline.stop() == 0


def test_what_is_not_taken_yet_is_waited_for_until_a_stop(tmp_path) -> None:
    filled(tmp_path)
    tries = count()  # How many bundles come with each try is not always the same.
    sink = Sink(answer=lambda _: Accepted() if next(tries) >= 2 else Retry("later"))
    pipeline = opened(pipeline_of(tmp_path, "in > keep > a"), FakeParts(a=sink))
    pipeline.drain()
    sink.wait_for("one", "two")
    pipeline.stop()
    filled(tmp_path)
    down = FakeParts(a=Sink(is_down=True))
    pipeline = opened(pipeline_of(tmp_path, "in > keep > a"), down)
    pipeline.drain()
    down.sinks["a"].wait_for_try()
    assert not pipeline.is_drained
    assert pipeline.stop(0.0) == 1


FILE = """
nodes:
  in:
    kind: receiver
    plugin_urn: "urn:otel:otlp:receiver"
    out_ports: {{out_port: {{destinations: [{first}]}}}}
    config: {{listening_addr: "127.0.0.1:0"}}
  show: {{kind: exporter, plugin_urn: "urn:otel:console:exporter"}}
"""
KEEP = """
  keep:
    kind: processor
    plugin_urn: "urn:otap:processor:persistence"
    out_ports: {{out_port: {{destinations: [show]}}}}
    config: {{path: {path}}}
"""


def test_the_verb_delivers_and_ends(tmp_path) -> None:
    text = b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"hello"}}]}]}]}'
    with open_store(tmp_path / "s", slots=TELEMETRY, worker=False) as store:
        store.subscribe("show")
        for batch in CODEC.kept(Signal.LOGS, CODEC.from_json(Signal.LOGS, text)):
            store.append(batch.bundle)
    file = tmp_path / "pipeline.yaml"
    file.write_text(FILE.format(first="keep") + KEEP.format(path=tmp_path / "s"))
    with RunChild(file, "--drain") as child:
        assert child.wait_for("ready")["receivers"] == []
        assert "hello" in child.wait_for("console")["text"]
        assert child.wait_for("ended")["behind_exporter_count"] == 0
        assert child.process.wait(PATIENCE) == 0


@pytest.mark.parametrize(
    "first, arguments, told",
    [("show", (), "has no store"), ("keep", ("--cores", "2"), "one process")],
    ids=["no store", "cores"],
)
def test_what_cannot_be_drained_is_refused(tmp_path, first, arguments, told) -> None:
    file = tmp_path / "pipeline.yaml"
    keep = KEEP.format(path=tmp_path / "s") if first == "keep" else ""
    file.write_text(FILE.format(first=first) + keep)
    result = CliRunner().invoke(program, ["run", str(file), "--drain", *arguments])
    assert result.exit_code == 2
    assert told in result.output
