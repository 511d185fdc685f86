"""TELEMETRY.md and KUBERNETES.md: samples run as they stand, what they name is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from run_child import free_port

import quiver.otel
from quiver.otel import pipeline as pipelines
from quiver.otel.pipeline import examine_pipeline
from quiver.otel.pipeline.kinds import KINDS
from quiver.otel.signals import Signal

ROOM = Path(quiver.otel.__file__).parent
PAGE = (ROOM / "TELEMETRY.md").read_text()


def samples(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """The pipeline of the page in a file, with ports that are free here in place of others."""
    (text,) = samples("yaml")
    ports = {port: str(free_port()) for port in ("4317", "4318", "13133")}
    for before, after in ports.items():
        assert text.count(f":{before}") == 1
        text = text.replace(f":{before}", f":{after}")
    (tmp_path / "pipeline.yaml").write_text(text)
    return tmp_path, ports


def test_the_smallest_pipeline_is_right_and_surprises_nobody(folder) -> None:
    plan, errors, notes = examine_pipeline(folder[0] / "pipeline.yaml")
    assert plan is not None
    assert (errors, notes) == ([], ())
    assert plan.listening_addr is not None


def test_what_its_sender_sends_is_shown(folder, monkeypatch) -> None:
    sender, _ = samples("python")
    path, ports = folder
    assert sender.count(":4317") == 1
    shown: list[str] = []
    with pipelines.open(path / "pipeline.yaml", write=shown.append) as running:
        monkeypatch.delenv("OTEL_SDK_DISABLED", raising=False)
        exec(sender.replace(":4317", f":{ports['4317']}"), {})
        status = {node.name: node.counts for node in running.status()}
        assert status["in"][f"quiver.receiver.items[{Signal.TRACES}]"] == 1
        assert running.stop() == 0
    assert "checkout" in "".join(shown)


def test_a_program_may_run_it(folder, monkeypatch, capsys) -> None:
    _, sample = samples("python")
    path, ports = folder
    monkeypatch.chdir(path)
    names: dict[str, Any] = {}
    exec(sample, names)
    assert f"127.0.0.1:{ports['4317']}" in capsys.readouterr().out


def test_the_table_has_every_kind_with_every_option() -> None:
    pattern = r"^\| (receiver|processor|exporter) \| `(\w+)` \| (.*) \|$"
    rows = re.findall(pattern, PAGE, re.MULTILINE)
    told = [(role, name, re.findall(r"`([^`]+)`", options)) for role, name, options in rows]
    assert told == [(kind.role, kind.name, list(kind.options)) for kind in KINDS]


@pytest.mark.parametrize("name", ["TELEMETRY.md", "KUBERNETES.md"])
def test_what_a_page_leads_to_is_there(name: str) -> None:
    text = (ROOM / name).read_text()
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    for link in links:
        assert (ROOM / link.partition("#")[0]).is_file(), link
    alerts = yaml.safe_load((ROOM.parent / "observe" / "alerts.yml").read_text())
    known = {rule["alert"] for rule in alerts["groups"][0]["rules"]}
    assert set(re.findall(r"`(Quiver[A-Z]\w+)`", text)) <= known
