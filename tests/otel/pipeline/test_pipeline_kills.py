"""``quiver run`` as real processes that are killed under load: what was acknowledged arrives.

QUIVER_PIPELINE_KILLS says how often; from 2 on also in processes that share ports and a store.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from otlp_sinks import GrpcSink, grpc_sink
from run_child import RunChild, Sender, free_port, sending

KILLS = int(os.environ.get("QUIVER_PIPELINE_KILLS", "1"))

FILE = """\
service: {{drain_timeout: 30s}}
nodes:
  in:
    kind: receiver
    plugin_urn: urn:otel:otlp:receiver
    out_ports: {{out_port: {{destinations: [keep]}}}}
    config: {{protocols: {{http: {{listening_addr: "127.0.0.1:{0}"}}}}}}
  keep:
    kind: processor
    plugin_urn: urn:otap:processor:persistence
    out_ports: {{out_port: {{destinations: [one, two]}}}}
    config: {{path: data}}
  one:
    kind: exporter
    plugin_urn: urn:otel:otlp:exporter
    config: {{grpc_endpoint: "http://127.0.0.1:{1}", retry.initial_interval: 50ms}}
  two:
    kind: exporter
    plugin_urn: urn:otel:otlp:exporter
    config: {{grpc_endpoint: "http://127.0.0.1:{2}", retry.initial_interval: 50ms}}
"""


def check(sink: GrpcSink, senders: list[Sender]) -> None:
    """All that was taken is here, and nothing that was never sent."""
    got = set(sink.texts)
    assert {text for sender in senders for text in sender.taken} <= got
    assert got <= {f"{sender.name}-{n}" for sender in senders for n in range(sender.sent)}


@pytest.mark.timeout(60 + 30 * KILLS)
def test_what_was_taken_comes_to_both_sinks_whatever_is_killed(tmp_path: Path) -> None:
    port, senders = free_port(), [Sender("a"), Sender("b")]
    down = free_port()
    with grpc_sink() as one:
        path = tmp_path / "pipeline.yaml"
        path.write_text(FILE.format(port, one.port, down))
        for _ in range(KILLS):  # The second sink is down all the time.
            with RunChild(path) as child:
                (address,) = child.addresses("in")
                with sending(senders[0], address, 10**6), sending(senders[1], address, 10**6):
                    for sender in senders:
                        sender.wait_for(len(sender.taken) + 20)
                    child.kill()
        with grpc_sink(port=down) as two, RunChild(path) as child:
            (address,) = child.addresses("in")
            for sender in senders:
                sender.send(address, 5)
            assert child.terminate() == 0
            assert child.wait_for("ended")["behind_exporter_count"] == 0
            check(one, senders)
            check(two, senders)


@pytest.mark.skipif(KILLS < 2, reason="QUIVER_PIPELINE_KILLS=2 has it: four interpreters start")
@pytest.mark.timeout(60 + 30 * KILLS)
def test_a_process_of_several_that_dies_is_started_again(tmp_path: Path) -> None:
    port, sender = free_port(), Sender("a")
    with grpc_sink() as one, grpc_sink() as two:
        path = tmp_path / "pipeline.yaml"
        path.write_text(FILE.format(port, one.port, two.port))
        with RunChild(path, "--cores", "2", "--listen", "0") as child:
            (address,) = child.addresses("in")
            assert child.wait_for("ready")["process_count"] == 2
            sender.send(address, 10)
            before = set(child.children())
            assert len(before) == 2
            os.kill(min(before), signal.SIGKILL)
            assert child.wait_for("died")["exit_code"] == 137
            sender.send(address, 1)
            assert len(sender.taken) >= 10
            assert child.terminate() == 0
            ended = child.wait_for("ended")
            assert ended == {"kind": "ended", "behind_exporter_count": 0, "restart_count": 1}
        check(one, [sender])
        check(two, [sender])
    assert sorted(path.name for path in (tmp_path / "data").glob("core_*")) == ["core_0", "core_1"]
