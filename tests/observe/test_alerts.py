"""The alerts and the dashboard speak of metrics that there are, with labels that they have."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import quiver
from quiver.catalogue_otel import TELEMETRY_CATALOGUE
from quiver.metrics import CATALOGUE, prometheus_name

ROOM = Path(quiver.__file__).parent / "observe"
SERIES = {
    f"{prometheus_name(metric)}{end}": metric
    for metric in (*CATALOGUE, *TELEMETRY_CATALOGUE)
    for end in (["_bucket", "_sum", "_count"] if metric.kind == "histogram" else [""])
}
SCRAPED = {"core", "instance", "job", "node", "store"}
RATES = r"(?:rate|increase)\((quiver_[a-z_]+)"


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((ROOM / "alerts.yml").read_text())["groups"]
    return group["rules"]


def dashboard() -> dict[str, Any]:
    return json.loads((ROOM / "dashboard.json").read_text())


def queries() -> list[str]:
    return [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]


EXPRESSIONS = [*(rule["expr"] for rule in rules()), *queries()]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_names_metrics_that_there_are_with_their_labels(expression) -> None:
    names = re.findall(r"quiver_[a-z_]+", expression)
    assert names
    assert set(names) <= set(SERIES)
    for name, labels in re.findall(r"(quiver_[a-z_]+)\{([^}]*)\}", expression):
        known = SCRAPED | {SERIES[name].label, "le" if name.endswith("_bucket") else ""}
        assert set(re.findall(r"([a-z]+)=", labels)) <= known
    grouped = re.findall(r"(?:by|without) \(([a-z, ]+)\)", expression)
    known = SCRAPED | {"le"} | {SERIES[name].label for name in names}
    assert {label for labels in grouped for label in labels.split(", ")} <= known


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_rates_are_of_what_only_grows(expression) -> None:
    for name in re.findall(RATES, expression):
        assert SERIES[name].kind != "gauge" or name.endswith("_next_seq")


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_says_what_is_wrong_and_names_only_labels_that_are_there(rule) -> None:
    assert rule["labels"]["severity"] in ("warning", "critical")
    text = " ".join(rule["annotations"].values())
    assert rule["annotations"]["summary"]
    metric = SERIES[re.findall(r"quiver_[a-z_]+", rule["expr"])[0]]
    assert set(re.findall(r"\$labels\.([a-z]+)", text)) <= {"core", "job", "node", metric.label}


def test_the_dashboard_can_be_imported() -> None:
    found = dashboard()
    assert (found["title"], found["uid"]) == ("Quiver", "quiver")
    panels = found["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    variables = {variable["name"] for variable in found["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]+)\}?", json.dumps(panels)))
    assert used - variables == set()
    cells = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        taken = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        cells |= taken
