"""Processors against a model that does the same to plain values, one item after the other."""

from __future__ import annotations

import copy
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from otel_tables import attributes, logs, said, struct_ids, values_of

from quiver.bundle import RecordBundle
from quiver.otel.batch import Batch
from quiver.otel.pipeline.processors import Attributes, Filter
from quiver.otel.pipeline.rules import Action, Condition, Rule
from quiver.otel.signals import Signal

KEYS = st.sampled_from("abc")
VALUES = st.one_of(
    st.sampled_from(["", "x", "xy"]),
    st.integers(-1, 1),
    st.sampled_from([0.0, 1.5]),
    st.booleans(),
)
ATTRS = st.dictionaries(KEYS, VALUES, max_size=3)
RESOURCES = st.lists(st.dictionaries(KEYS, VALUES, min_size=1, max_size=2), max_size=3)


@st.composite
def batches(draw):
    resources = list(enumerate(draw(RESOURCES)))
    item = st.fixed_dictionaries(
        {
            "name": st.sampled_from([None, "x", "xy"]),
            "severity": st.sampled_from([None, 0, 5, 9, 13]),
            "attrs": ATTRS,
            "resource": st.sampled_from([None, *resources]),
        }
    )
    return draw(st.lists(item, min_size=1, max_size=6))


PLACES = st.sampled_from([("item",), ("resource",), ("item", "resource")])
ACTIONS = st.one_of(
    st.builds(
        Action,
        action=st.sampled_from(["insert", "update", "upsert"]),
        key=KEYS,
        value=VALUES,
        places=PLACES,
    ),
    st.builds(Action, action=st.just("delete"), key=KEYS, places=PLACES),
    st.builds(Action, action=st.just("rename"), key=KEYS, new_key=KEYS, places=PLACES),
)


def act(attrs: dict, action: Action) -> None:
    has = action.key in attrs
    if action.action == "delete":
        attrs.pop(action.key, None)
    elif action.action == "rename":
        if has:
            attrs[action.new_key] = attrs.pop(action.key)
    elif action.action == "upsert" or has == (action.action == "update"):
        attrs[action.key] = action.value


def model_of(items) -> list[dict]:
    return [
        {
            "name": item["name"],
            "severity": item["severity"],
            "attrs": dict(item["attrs"]),
            "resource": dict(item["resource"][1]) if item["resource"] else {},
        }
        for item in items
    ]


def typed(found) -> list:
    """With the type of each value, for 1 is no True and 0 no 0.0."""
    return [
        {
            k: {a: (type(b), b) for a, b in v.items()} if isinstance(v, dict) else v
            for k, v in i.items()
        }
        for i in found
    ]


@given(batches(), st.lists(ACTIONS, min_size=1, max_size=4))
def test_attributes_do_what_the_model_does(items, actions) -> None:
    expected = model_of(items)
    for action in actions:
        for item in expected:
            for place, where in (("item", "attrs"), ("resource", "resource")):
                if place in action.places:
                    act(item[where], action)
    batch = logs(items)
    before = copy.deepcopy(said([batch]))
    made = Attributes(actions)(batch)
    assert typed(said(made)) == typed(expected)
    assert said([batch]) == before


CONDITIONS = st.one_of(
    st.builds(Condition, place=st.sampled_from(["item", "resource"]), key=KEYS, value=VALUES),
    st.builds(
        Condition,
        place=st.sampled_from(["item", "resource"]),
        key=KEYS,
        value=st.sampled_from(["x", "^x$", "y|z", ""]),
        is_pattern=st.just(True),
    ),
)
RULES = st.builds(
    Rule,
    name=st.sampled_from([None, "x", "^x$"]),
    is_name_pattern=st.booleans(),
    severity_from=st.sampled_from([None, 9]),
    severity_below=st.sampled_from([None, 13]),
    conditions=st.lists(CONDITIONS, max_size=2).map(tuple),
)


def holds(rule: Rule, item: dict) -> bool:
    name, severity = item["name"], item["severity"] or 0
    if rule.name is not None:
        found = name is not None and (
            re.search(rule.name, name) if rule.is_name_pattern else name == rule.name
        )
        if not found:
            return False
    if rule.severity_from is not None and not severity >= rule.severity_from:
        return False
    if rule.severity_below is not None and not 0 < severity < rule.severity_below:
        return False
    for condition in rule.conditions:
        value = item["attrs" if condition.place == "item" else "resource"].get(condition.key)
        if type(value) is not type(condition.value):
            return False
        if not (
            re.search(condition.value, value) if condition.is_pattern else value == condition.value
        ):
            return False
    return True


@given(batches(), st.lists(RULES, min_size=1, max_size=3), st.booleans())
def test_filters_do_what_the_model_does(items, rules, keep) -> None:
    expected = [i for i in model_of(items) if any(holds(r, i) for r in rules) == keep]
    assert said(Filter(rules, keep=keep)(logs(items))) == expected


def test_what_no_rule_is_about_passes_as_it_is() -> None:
    batch = logs([{"name": "x"}])
    rule = Rule((Signal.TRACES,), "x")
    assert Filter([rule], keep=False)(batch)[0] is batch
    assert Filter([rule], keep=True)(batch)[0] is batch
    assert Attributes([Action("delete", "a", signals=(Signal.METRICS,))])(batch)[0] is batch


def spans() -> Batch:
    root = pa.record_batch(
        {
            "id": pa.array([7, 3, None], pa.uint16()),
            "name": ["keep", "drop", "drop"],
            "resource": struct_ids([0, 1, 1]),
            "scope": struct_ids([5, 5, None], name=["s", "s", "t"]),
        }
    )
    parents = {"parent_id": pa.array([3, 7, 3], pa.uint16())}
    events = {**parents, "id": pa.array([0, 1, None], pa.uint32()), "name": ["a", "b", "c"]}
    slots = {
        "spans": root,
        "span_attrs": attributes({7: {"a": 1}, 3: {"a": 2}}),
        "span_events": pa.record_batch(events),
        "span_links": pa.record_batch({k: v[:1] for k, v in events.items()}),
        "span_event_attrs": attributes({0: {"gone": True}, 1: {"left": True}}, wide=True),
        "span_link_attrs": attributes({0: {"gone": True}}, wide=True),
        "resource_attrs": attributes({0: {"r": "0"}, 1: {"r": "1"}}),
        "scope_attrs": attributes({5: {"s": "5"}}),
    }
    return Batch(Signal.TRACES, RecordBundle(slots))


def test_all_that_hangs_from_a_span_goes_with_it() -> None:
    (left,) = Filter([Rule(name="drop")], keep=False)(spans())
    bundle = left.bundle
    assert bundle["spans"].column("name").to_pylist() == ["keep"]
    assert bundle["span_events"].column("name").to_pylist() == ["b"]
    assert values_of(bundle["span_event_attrs"]) == {1: {"left": True}}
    assert values_of(bundle["span_attrs"]) == {7: {"a": 1}}
    assert values_of(bundle["resource_attrs"]) == {0: {"r": "0"}}
    assert values_of(bundle["scope_attrs"]) == {5: {"s": "5"}}
    assert "span_links" not in bundle
    assert "span_link_attrs" not in bundle
    assert Filter([Rule(name="drop"), Rule(name="keep")], keep=False)(spans()) == []


def test_scopes_that_differ_get_ids_of_their_own() -> None:
    (made,) = Attributes([Action("upsert", "new", 1, places=("scope",))])(spans())
    ids = [row["scope"]["id"] for row in made.bundle["spans"].to_pylist()]
    assert ids[0] == ids[1] == 5 != ids[2]
    assert values_of(made.bundle["scope_attrs"]) == {5: {"s": "5", "new": 1}, ids[2]: {"new": 1}}


def metrics() -> Batch:
    root = {"id": pa.array([0, 1, 2], pa.uint16()), "name": ["cpu", "mem", "bare"]}
    points = {
        "id": pa.array([10, 11, None, 13], pa.uint32()),
        "parent_id": pa.array([0, 0, 1, 1], pa.uint16()),
        "int_value": pa.array([1, 2, 3, 4]),
    }
    exemplars = {"id": pa.array([0, 1], pa.uint32()), "parent_id": pa.array([10, 13], pa.uint32())}
    slots = {
        "univariate_metrics": pa.record_batch(root),
        "number_data_points": pa.record_batch(points),
        "number_dp_attrs": attributes(
            {10: {"host": "a"}, 11: {"host": "b"}, 13: {"host": "b"}}, wide=True
        ),
        "number_dp_exemplars": pa.record_batch(exemplars),
        "number_dp_exemplar_attrs": attributes({0: {"e": 0}, 1: {"e": 1}}, wide=True),
    }
    return Batch(Signal.METRICS, RecordBundle(slots))


HOST_B = Rule(conditions=(Condition("item", "host", "b"),))


@pytest.mark.parametrize(
    "rules, keep, names, values, exemplars",
    [
        ([HOST_B], False, ["cpu", "mem", "bare"], [1, 3], {0: {"e": 0}}),
        ([HOST_B], True, ["cpu", "mem"], [2, 4], {1: {"e": 1}}),
        ([HOST_B, Rule(name="cpu")], True, ["cpu", "mem"], [1, 2, 4], {0: {"e": 0}, 1: {"e": 1}}),
        ([HOST_B, Rule(name="cpu")], False, ["mem", "bare"], [3], {}),
        ([Rule(name="mem")], False, ["cpu", "bare"], [1, 2], {0: {"e": 0}}),
        ([Rule(name="bare"), HOST_B], False, ["cpu", "mem"], [1, 3], {0: {"e": 0}}),
    ],
)
def test_the_items_of_metrics_are_their_points(rules, keep, names, values, exemplars) -> None:
    (left,) = Filter(rules, keep=keep)(metrics())
    assert left.bundle["univariate_metrics"].column("name").to_pylist() == names
    assert left.bundle["number_data_points"].column("int_value").to_pylist() == values
    assert values_of(left.bundle.get("number_dp_exemplar_attrs")) == exemplars


def test_points_get_attributes() -> None:
    (made,) = Attributes([Action("insert", "host", "c")])(metrics())
    table = made.bundle["number_dp_attrs"]
    hosts = values_of(table)
    ids = made.bundle["number_data_points"].column("id").to_pylist()
    assert [hosts[i]["host"] for i in ids] == ["a", "b", "c", "b"]
    assert table.schema.field("parent_id").type == pa.uint32()


def test_ids_that_are_used_up_are_given_anew() -> None:
    rows = 40_000
    root = {
        "id": pa.array([None] * (rows - 1) + [65_535], pa.uint16()),
        "name": [str(n) for n in range(rows)],
    }
    slots = {"spans": pa.record_batch(root), "span_attrs": attributes({65_535: {"a": 1}})}
    batch = Batch(Signal.TRACES, RecordBundle(slots))
    (made,) = Attributes([Action("insert", "a", 2)])(batch)
    ids = made.bundle["spans"].column("id").to_pylist()
    assert len(set(ids)) == rows
    found = values_of(made.bundle["span_attrs"])
    assert [found[i]["a"] for i in ids] == [2] * (rows - 1) + [1]


def test_more_rows_than_ids_come_in_parts() -> None:
    rows = (1 << 16) + 5
    root = pa.record_batch({"name": pa.array([str(n) for n in range(rows)])})
    batch = Batch(Signal.TRACES, RecordBundle({"spans": root}))
    made = Attributes([Action("insert", "a", 2)])(batch)
    assert [each.items for each in made] == [1 << 16, 5]
    names = [name for each in made for name in each.bundle["spans"].column("name").to_pylist()]
    assert names == root.column("name").to_pylist()
    assert [each.bundle["span_attrs"].num_rows for each in made] == [1 << 16, 5]
