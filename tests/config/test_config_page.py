"""CONFIG.md is quiver/config.py in words, and the README's example is the seed's own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
import yaml

import quiver
from quiver import config as module
from quiver.config import OPTIONS, Config
from quiver.config_file import option_text, option_unit
from quiver.otel.pipeline import examine_pipeline

ROOT = Path(quiver.__file__).parents[1]
PAGE = (ROOT / "quiver" / "CONFIG.md").read_text()
ROW = re.compile(r"^\| `([a-z_]+\.[a-z_]+)` \| `([^`]*)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def rows() -> dict[str, tuple[str, str, str]]:
    return {key: (default, unit, meaning) for key, default, unit, meaning in ROW.findall(PAGE)}


def test_the_page_has_each_option_once_in_flow_order_below_its_section() -> None:
    keys = [key for key, *_ in ROW.findall(PAGE)]
    assert keys == list(OPTIONS)
    parts = re.split(r"^## ([a-z]+)$", PAGE, flags=re.MULTILINE)
    for section, text in zip(parts[1::2], parts[2::2], strict=True):
        assert {key.partition(".")[0] for key, *_ in ROW.findall(text)} == {section}


@pytest.mark.parametrize("option", OPTIONS)
def test_defaults_and_units_on_the_page_are_those_of_the_code(option) -> None:
    default, unit, meaning = rows()[option]
    section, _, name = option.partition(".")
    value = getattr(getattr(Config(), section), name)
    kind = OPTIONS[option].metadata.get("kind")
    shown = option_text(option, value)
    assert default == ("0s" if shown == "0ns" else shown)
    assert (
        Config.of({section: {name: value if kind in ("count", "hours") else default}}) == Config()
    )
    if kind is None:
        words = get_args(module._CHOICES[name])
        assert unit == ", ".join(f"`{word}`" for word in words)
    else:
        assert unit == ("duration" if kind == "duration" else option_unit(option))
    assert len(meaning) > 5


def yaml_samples() -> list[str]:
    page = (ROOT / "README.md").read_text()
    return re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


SEED = Path(__file__).parents[2] / "examples" / "pipeline.yaml"


def test_the_readme_shows_the_node_of_the_whole_pipeline() -> None:
    sample, _ = yaml_samples()
    nodes = [yaml.safe_load(text)["nodes"] for text in (sample, SEED.read_text())]
    assert list(nodes[0]) == ["persistence"]
    assert nodes[0]["persistence"] == nodes[1]["persistence"]


@pytest.mark.parametrize("sample", [yaml_samples()[0], SEED.read_text()], ids=["readme", "whole"])
def test_the_example_of_the_design_loads_as_it_is_meant(tmp_path, sample) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(sample)
    loaded = quiver.load_config(path)
    assert loaded.path == str(tmp_path / "quiver_data")
    assert loaded.config == Config.of(
        {
            "segment": {"target_size": 32_000_000},
            "wal": {"max_size": 4_000_000_000, "flush_interval": 0.025},
            "retention": {
                "max_retain_after_ingestion_hours": 72,
                "size_cap": 500_000_000_000,
                "size_cap_policy": "drop_oldest",
            },
        }
    )
    given = [key for key, _, origin in loaded.items() if origin.kind == "file"]
    assert len(given) == 6
    with quiver.open(loaded.path, slots=["logs"], config=loaded) as store:
        assert store.path == str(tmp_path / "quiver_data")


def test_the_pipeline_of_the_readme_is_right(tmp_path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(yaml_samples()[1])
    plan, errors, notes = examine_pipeline(path)
    assert (errors, notes) == ([], ())
    assert plan is not None
    assert [outlet.exporter for outlet in plan.outlets["persistence"]] == ["lake", "upstream"]
