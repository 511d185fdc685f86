"""Pipeline files: what is read out of them, and every way in which one can be wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from quiver.errors import ConfigError
from quiver.otel import pipeline
from quiver.otel.pipeline import examine_pipeline, load_pipeline
from quiver.otel.pipeline.kinds import KINDS
from quiver.otel.pipeline.plan import Outlet
from quiver.otel.pipeline.rules import _ACTION, _RULE, Action, Condition, Rule
from quiver.otel.signals import Signal

SEED = Path(__file__).parents[3] / "examples" / "pipeline.yaml"
BACKEND = {"backend_hostname": "backend"}

SMALL = """\
nodes:
  in:
    kind: receiver
    plugin_urn: urn:otel:otlp:receiver
    out_ports: {out_port: {destinations: [keep]}}
    config: {listening_addr: "127.0.0.1:0"}
  keep:
    kind: processor
    plugin_urn: urn:otap:processor:persistence
    out_ports: {out_port: {destinations: [out]}}
    config: {path: data}
  out:
    kind: exporter
    plugin_urn: urn:otel:console:exporter
"""


@pytest.fixture
def look(tmp_path):
    """Examine a text as a file; gives the problems without the name of the file."""

    def examine(text: str, **given):
        path = tmp_path / "p.yaml"
        path.write_text(text)
        plan, errors, notes = examine_pipeline(path, **given)
        assert (plan is None) == bool(errors)
        return plan, [str(error).removeprefix(f"{path}") for error in errors], notes

    return examine


def test_the_example_of_the_design_is_a_pipeline() -> None:
    plan = load_pipeline(SEED, variables=BACKEND)
    assert [(node.name, node.role, node.kind) for node in plan.nodes.values()] == [
        ("otlp_receiver", "receiver", "otlp"),
        ("otap_receiver", "receiver", "otap"),
        ("persistence", "processor", "persistence"),
        ("otap_exporter", "exporter", "otap"),
        ("otlp_exporter", "exporter", "otlp"),
    ]
    assert plan.outlets == {"persistence": (Outlet("otap_exporter"), Outlet("otlp_exporter"))}
    assert plan.nodes["otlp_receiver"].options["response_stream_channel_size"] == 256
    assert plan.nodes["otap_exporter"].options["grpc_endpoint"] == "http://backend:1235"
    store = plan.nodes["persistence"].store
    assert store is not None
    assert store.path == str(SEED.parent / "quiver_data")
    assert store.config.segment.target_size == 32_000_000
    assert store.config.retention.size_cap_policy == "drop_oldest"
    told = "\n".join(plan.notes)
    assert "round_robin changes nothing" in told
    assert "no zstd" in told
    assert "sends to otap_receiver of this pipeline, which takes otap alone" in told


def test_a_name_in_braces_comes_from_set_and_then_from_the_environment(look) -> None:
    text = SMALL.replace("path: data", 'path: "{{ where }}/{{who}}"')
    plan, _, _ = look(text, variables={"where": "a"}, environ={"where": "b", "who": "{{c}}"})
    assert plan.nodes["keep"].store.path.endswith("/a/{{c}}")
    _, errors, _ = look(text, environ={"who": "c"})
    assert errors == [
        ":11: {{ where }} has no value (--set where=VALUE, or a variable where in the environment)"
    ]


def test_a_value_for_a_name_that_nothing_has_is_an_error(look) -> None:
    text = SMALL.replace("path: data", 'path: "{{where}}"')
    _, errors, _ = look(text, variables={"where": "a", "were": "b"})
    assert errors == [": --set were: no value of the file has {{were}} (did you mean where?)"]


def test_options_of_stores_come_from_the_environment_too(look) -> None:
    plan, _, _ = look(SMALL, environ={"QUIVER_WAL__MAX_SIZE": "1GB"})
    assert plan.nodes["keep"].store.config.wal.max_size == 10**9


CHANGES = [
    ("kind: receiver", "kind: reciever", r":3: .*none of receiver.*did you mean receiver"),
    ("otlp:receiver", "oltp:receiver", r":4: .*there is no receiver 'oltp' \(did you mean otlp"),
    ("otlp:receiver", "otlp:exporter", r":4: .*names no receiver but is of exporters"),
    ("plugin_urn: urn:otel:otlp:receiver", "{}", r":"),
    ("[keep]", "[kepe]", r":2: nodes.in: there is no node 'kepe' .*did you mean keep"),
    ("[keep]", "[]", r":5: .*destinations: \[\] is no list"),
    ("[keep]", "[keep, keep]", r":5: .*keep is named twice"),
    ("[keep]", "[out]", r":7: nodes.keep: no receiver leads to it"),
    ("[out]", "[keep]", r":7: nodes.keep: a circle: keep -> keep"),
    ("[out]", "[in]", r":7: nodes.keep: in is a receiver"),
    (
        "destinations: [keep]",
        "destinations: [keep], dispatch_strategy: all",
        r":5: .*'all' is none",
    ),
    ("destinations: [keep]", "destination: [keep]", r":5: .*did you mean destinations"),
    ('"127.0.0.1:0"', '"127.0.0.1"', r":6: .*is no address to listen on"),
    ('"127.0.0.1:0"', '"::1:4317"', r":6: .*needs brackets"),
    ("listening_addr", "listen_addr", r":6: .*did you mean listening_addr"),
    ("listening_addr:", "max_request_size: 5 parsecs, listening_addr:", r":6: .*units: b, kb"),
    ("listening_addr:", "max_concurrent_requests: 0, listening_addr:", r":6: .*between 1 and"),
    ("{path: data}", "{path: data, wal: {max_size: 4 parsecs}}", r":11: wal.max_size: .*units"),
    ("{path: data}", "{path: data, wal: {max_sise: 1}}", r":11: .*did you mean wal.max_size"),
    ("{path: data}", "{path: data, otlp_handling: keep}", r":11: .*none of pass_through"),
    ("{path: data}", "{}", r":11: .*path is missing"),
    ("    config: {path: data}\n", "", r":7: .*config: is missing"),
    ("console:exporter\n", "otlp:exporter\n", r":12: .*no endpoint"),
    (
        "console:exporter\n",
        "otlp:exporter\n    config: {grpc_endpoint: 'http://u:geheim@h:1'}\n",
        r":15: .*a URL with a user",
    ),
    (
        "console:exporter\n",
        "otlp:exporter\n    config: {grpc_endpoint: 'http://h:1', headers: {a: [geheim]}}\n",
        r":15: .*headers.a: it is no text",
    ),
    (
        "console:exporter\n",
        "console:exporter\n    out_ports: {out_port: {destinations: [in]}}\n",
        r":15: .*nothing comes out of an exporter",
    ),
    ("nodes:\n", "nodes:\n  in: {}\n", r":3: in: given twice, first in line 2"),
    ("nodes:\n", "service: {listening_adr: 1}\nnodes:\n", r":1: .*did you mean listening_addr"),
    ("nodes:\n", "servise: {}\nnodes:\n", r":1: servise: .*did you mean service"),
]


@pytest.mark.parametrize(("before", "after", "told"), CHANGES, ids=[c[2][:40] for c in CHANGES])
def test_what_is_wrong_is_told_with_its_line(look, before, after, told) -> None:
    assert before in SMALL
    plan, errors, _ = look(SMALL.replace(before, after, 1))
    assert plan is None
    assert any(re.match(told, error) for error in errors), errors
    assert "geheim" not in "".join(errors)


def test_everything_that_is_wrong_is_told_at_once_in_order(look) -> None:
    text = SMALL.replace("kind: receiver", "kind: x").replace("path: data", "path: 1")
    _, errors, _ = look(text.replace("console", "consul"))
    lines = [int(error.split(":")[1]) for error in errors]
    assert lines == sorted(lines) == [3, 11, 14]
    assert look("nodes: 3\n")[1][0].startswith(":1: nodes: 3 is not a section")
    assert "no section nodes" in look("service: {}\n")[1][0]


def test_loading_raises_all_that_is_wrong(tmp_path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(SMALL.replace("kind: receiver", "kind: x").replace("path: data", "path: 1"))
    with pytest.raises(ConfigError, match=r"2 faults in the pipeline"):
        load_pipeline(path)
    path.write_text(SMALL.replace("kind: receiver", "kind: x"))
    with pytest.raises(ConfigError, match=r"p.yaml:3: .*'x' is none of"):
        load_pipeline(path)


TWO = """\
nodes:
  a: {kind: receiver, plugin_urn: "urn:otel:otlp:receiver", config: {listening_addr: %s},
      out_ports: {o: {destinations: [%s]}}}
  b: {kind: receiver, plugin_urn: "urn:otel:otap:receiver", config: {listening_addr: %s},
      out_ports: {o: {destinations: [%s]}}}
  s: {kind: processor, plugin_urn: "urn:otap:processor:persistence", config: {path: one},
      out_ports: {o: {destinations: [%s]}}}
  t: {kind: processor, plugin_urn: "urn:otel:durable_buffer:processor", config: {path: %s},
      out_ports: {o: {destinations: [%s]}}}
  e: {kind: exporter, plugin_urn: "urn:otel:console:exporter"}
  f: {kind: exporter, plugin_urn: "urn:otel:console:exporter"}
"""
BASE = ("4317", "s", "4318", "t", "e", "two", "f")


@pytest.mark.parametrize(
    "changed, told",
    [
        ({}, None),
        ({2: "4317"}, "nodes.b: 127.0.0.1:4317 is the address of a as well"),
        ({2: "'0.0.0.0:4317'"}, "nodes.b: 0.0.0.0:4317 is the address of a as well"),
        ({5: "./one"}, "one is that of s as well"),
        ({4: "e, t"}, "nodes.t: it stands behind s"),
        ({6: "f, e"}, "nodes.e: it stands behind s and t"),
        ({1: "s, e"}, "nodes.e: it stands behind s, and is sent to past it"),
        ({1: "s, t", 3: "s, t"}, None),
    ],
)
def test_nodes_beside_each_other(look, changed, told) -> None:
    values = [changed.get(number, value) for number, value in enumerate(BASE)]
    plan, errors, _ = look(TWO % tuple(values))
    if told is None:
        assert plan is not None, errors
    else:
        assert any(told in error for error in errors), errors


def test_two_ways_to_an_exporter_behind_a_store_are_refused(look) -> None:
    one = "{{kind: processor, plugin_urn: 'urn:otel:filter:processor', {0}, {1}}}"
    config = "config: {drop: [{name: x}]}"
    to_out = "out_ports: {o: {destinations: [out]}}"
    text = SMALL.replace("[out]", "[p, q]")
    text += "".join(f"  {name}: {one.format(config, to_out)}\n" for name in "pq")
    _, errors, _ = look(text)
    assert any("more than one way leads to it from keep" in error for error in errors)


def test_processors_are_read(look) -> None:
    text = (
        SMALL.replace("[out]", "[p]")
        + """\
  p:
    kind: processor
    plugin_urn: urn:otap:processor:attributes
    out_ports: {o: {destinations: [q]}}
    config:
      actions:
        - {action: upsert, key: env, value: prod, apply_to: resource}
        - {action: rename, key: a, new_key: b, signals: [logs]}
        - {action: delete, key: c, apply_to: [item, scope]}
  q:
    kind: processor
    plugin_urn: urn:otel:filter:processor
    out_ports: {o: {destinations: [out]}}
    config:
      drop:
        - {severity_below: warn}
        - {name_matches: ^GET, signals: traces, attributes: {http.status: 200}}
"""
    )
    plan, errors, _ = look(text)
    assert errors == []
    assert plan.outlets["keep"] == (Outlet("out", ("p", "q")),)
    assert plan.nodes["p"].options["actions"] == (
        Action("upsert", "env", "prod", places=("resource",)),
        Action("rename", "a", new_key="b", signals=(Signal.LOGS,)),
        Action("delete", "c", places=("item", "scope")),
    )
    condition = Condition("item", "http.status", 200)
    assert plan.nodes["q"].options["drop"] == (
        Rule((Signal.LOGS,), severity_below=13),
        Rule((Signal.TRACES,), "^GET", is_name_pattern=True, conditions=(condition,)),
    )


@pytest.mark.parametrize(
    "config, told",
    [
        ("{actions: []}", "is no list of sections"),
        ("{actions: [{action: up, key: a}]}", r"actions\[0\].action: 'up' is none of"),
        ("{actions: [{action: delete, key: a, value: 1}]}", "delete takes no value"),
        ("{actions: [{action: insert, key: a}]}", "insert takes a value"),
        ("{actions: [{action: rename, key: a}]}", "rename takes a new_key"),
        ("{actions: [{action: delete, key: a, of: item}]}", r"\[0\].of: there is no such option"),
        ("{actions: [{action: insert, key: a, value: .inf}]}", "no number that equals"),
        ("{actions: [{action: insert, key: a, value: 9223372036854775808}]}", "more than 64 bits"),
    ],
)
def test_wrong_actions_are_refused(look, config, told) -> None:
    node = "{kind: processor, plugin_urn: 'urn:otel:attributes:processor', config: %s, "
    node += "out_ports: {o: {destinations: [out]}}}"
    _, errors, _ = look(SMALL.replace("[out]", "[p]") + f"  p: {node % config}\n")
    assert any(re.search(told, error) for error in errors), errors


@pytest.mark.parametrize(
    "config, told",
    [
        ("{}", "rules for what to drop, or for what to keep"),
        ("{drop: [{name: a}], keep: [{name: b}]}", "give drop or keep"),
        ("{drop: [{signals: logs}]}", "it says nothing but signals"),
        ("{drop: [{name: a, name_matches: b}]}", "give one of them"),
        ("{drop: [{name_matches: '('}]}", "is no pattern"),
        ("{drop: [{severity_below: loud}]}", "is no severity"),
        ("{drop: [{severity_below: WARN, signals: [traces]}]}", "only logs have a severity"),
        ("{keep: [{attribute_matches: {a: 3}}]}", "attribute_matches.a: 3 is no text"),
    ],
)
def test_wrong_rules_are_refused(look, config, told) -> None:
    node = "{kind: processor, plugin_urn: 'urn:otel:filter:processor', config: %s, "
    node += "out_ports: {o: {destinations: [out]}}}"
    _, errors, _ = look(SMALL.replace("[out]", "[p]") + f"  p: {node % config}\n")
    assert any(re.search(told, error) for error in errors), errors


def test_a_request_that_would_never_find_room_is_refused(look) -> None:
    service = "service: {request_memory: %s}\n"
    plan, _, _ = look(service % "8MiB" + SMALL)
    assert plan.request_memory == 8 << 20
    _, errors, _ = look(service % "7MiB" + SMALL)
    assert ["nodes.in.config.max_request_size: two of" in error for error in errors] == [True]
    plan, _, _ = look(SMALL)
    assert plan.request_memory == 128 << 20


PAGE = Path(pipeline.__file__).with_name("PIPELINE.md")


def test_the_page_has_every_option_and_no_other() -> None:
    rows = re.findall(r"^\| (`[^|]*) \|", PAGE.read_text(), re.MULTILINE)
    told = {name for row in rows for name in re.findall(r"`([a-z_.]+)`", row)}
    known = {name for kind in KINDS for name in kind.options} | set(_ACTION) | set(_RULE)
    known |= {"path", "listening_addr", "drain_timeout", "request_memory"}
    assert known - told == {"actions", "drop", "keep", "style"}
    assert told <= known


def test_the_sample_of_the_page_is_right(look) -> None:
    (sample,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    _, errors, notes = look(sample, variables={"backend": "b"})
    assert (errors, notes) == ([], ())
