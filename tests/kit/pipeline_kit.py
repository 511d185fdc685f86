"""Parts of a pipeline that tests steer: no sockets, and a codec of names of logs as JSON."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from otel_tables import logs, said

from quiver.errors import InputError
from quiver.otel.batch import Batch
from quiver.otel.nodes import Accepted, Delivered, Gather, Intake, Outcome, Retry
from quiver.otel.pipeline import load_pipeline
from quiver.otel.pipeline.codec import Codec
from quiver.otel.pipeline.parts import Feed, Listening
from quiver.otel.pipeline.plan import Node
from quiver.otel.pipeline.running import Pipeline
from quiver.otel.signals import OTLP_SLOTS, Signal

PATIENCE = 30.0
"""Seconds after which a test fails that waits for what should come at once."""


def request(*names: str) -> bytes:
    return json.dumps(names).encode()


def decode(_: Signal, data: bytes) -> list[Batch]:
    return [logs([{"name": name} for name in names_in(data)])]


def names_in(data: bytes) -> list[str]:
    try:
        return list(json.loads(data))
    except ValueError as error:
        raise InputError("no request") from error


def encode(batch: Batch) -> bytes:
    return request(*names(batch))


CODEC = Codec(
    decode=decode,
    encode=encode,
    count=lambda _, data: len(names_in(data)),
    from_json=lambda _, data: data,
)


def names(batch: Batch) -> list[str]:
    if batch.is_otlp:
        column = batch.bundle[OTLP_SLOTS[batch.signal]].column("request")
        return [name for value in column.to_pylist() for name in names_in(value)]
    return [item["name"] for item in said([batch])]


@dataclass
class Sink:
    """An exporter that keeps what it is given, unless it is down."""

    gather: Gather = field(default_factory=Gather)
    answer: Callable[[Delivered], Outcome] = lambda _: Accepted()
    is_down: bool = False

    def __post_init__(self) -> None:
        self.got: list[str] = []
        self.kinds: set[bool] = set()
        self.closed = 0
        self.tries = 0
        self._changed = threading.Condition()

    def export(self, delivered: Sequence[Delivered]) -> Sequence[Outcome]:
        with self._changed:
            self.tries += 1
            self._changed.notify_all()
            if self.is_down:
                return [Retry("down")] * len(delivered)
            outcomes = [self.answer(each) for each in delivered]
            for each, outcome in zip(delivered, outcomes, strict=True):
                if isinstance(outcome, Accepted):
                    self.kinds.add(each.batch.is_otlp)
                    self.got += names(each.batch)
            return outcomes

    def wait_for(self, *expected: str) -> None:
        """Wait until all of them are here; then nothing else may be."""
        with self._changed:
            wanted = set(expected)
            self._changed.wait_for(lambda: wanted <= set(self.got), PATIENCE)
            assert set(self.got) == wanted, self.got

    def wait_for_try(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.tries > 0, PATIENCE)

    def close(self) -> None:
        self.closed += 1


class FakeParts:
    """Receivers are functions, exporters sinks by name."""

    def __init__(self, **sinks: Sink) -> None:
        self.codec = CODEC
        self.sinks = sinks
        self.intakes: dict[str, Intake] = {}
        self.arrow: dict[str, bool] = {}
        self.closed: list[float] = []

    def exporter(self, node: Node, feed: Feed) -> Sink:
        return self.sinks.setdefault(node.name, Sink())

    def listen(self, node: Node, intake: Intake, *, wants_arrow: bool) -> Listening:
        self.intakes[node.name], self.arrow[node.name] = intake, wants_arrow
        return Listening([node.options["listening_addr"]])

    def close(self, grace_seconds: float) -> None:
        self.closed.append(grace_seconds)

    def send(self, *sent: str, to: str = "in") -> Any:
        """Send one request, as a receiver hands it over."""
        data = request(*sent)
        arrow = self.arrow[to]
        made = self.codec.decode if arrow else self.codec.kept
        return self.intakes[to].take(Signal.LOGS, made(Signal.LOGS, data))


NODE = "{{kind: %s, plugin_urn: 'urn:otel:%s:%s', config: {{%s}}{0}}}"
SMALL_STORE = "segment.target_size: 1MiB, wal.max_size: 4MiB, limits.entry_bytes: 1MiB"
NODES = {
    "in": NODE % ("receiver", "otlp", "receiver", "listening_addr: 1"),
    "keep": NODE % ("processor", "persistence", "processor", f"path: data, {SMALL_STORE}{{1}}"),
    "drop": NODE % ("processor", "filter", "processor", "drop: [{{name_matches: ^x}}]"),
}
OUT = "{{kind: exporter, plugin_urn: 'urn:otel:{1}:exporter', config: {{{2}}}{0}}}"


def pipeline_of(folder: Path, way: str, *, store: str = "", **how: Any) -> str:
    """Write a file for ways such as ``in > keep > drop > a, b``; exporters are of one letter."""
    kind = how.get("exporters", "otlp")
    sends: dict[str, list[str]] = {}
    for part in way.split(";"):
        steps = [step.split(",") for step in part.replace(" ", "").split(">")]
        for before, behind in zip(steps, [*steps[1:], []], strict=True):
            for name in before:
                known = sends.setdefault(name, [])
                known += [each for each in behind if each not in known]
    lines = ["service: {drain_timeout: 5s}", "nodes:"]
    strategy = how.get("strategy", "broadcast")
    for name, behind in sends.items():
        ports = f"{{destinations: [{', '.join(behind)}], dispatch_strategy: {strategy}}}"
        tail = f", out_ports: {{out_port: {ports}}}" if behind else ""
        if name in NODES:
            lines.append(f"  {name}: {NODES[name].format(tail, store and f', {store}')}")
        else:
            own = "grpc_endpoint: 'http://127.0.0.1:9', " if kind == "otlp" else ""
            own += "path: out, " if kind == "parquet" else ""
            own += "retry.initial_interval: 1ms, retry.max_interval: 10ms"
            lines.append(f"  {name}: {OUT.format('', kind, own)}")
    path = folder / "pipeline.yaml"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def opened(path: str, parts: FakeParts, **how: Any) -> Pipeline:
    """Start what a file says."""
    pipeline = Pipeline(load_pipeline(path), parts, **how)
    pipeline.start()
    return pipeline
