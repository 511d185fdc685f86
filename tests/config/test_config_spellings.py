"""However a config is written down, it is the same one; what is unknown is told with its key."""

from __future__ import annotations

import pytest

import quiver
from quiver.config import OPTIONS, Config
from quiver.config_keys import Fault, Table, read_keys
from quiver.errors import ConfigError

SECTIONS = {
    "path": "./quiver_data",
    "segment": {"target_size": "32MB"},
    "wal": {"max_size": "4GB", "flush_interval": "25ms"},
    "retention": {
        "max_retain_after_ingestion_hours": 72,
        "size_cap": "500GB",
        "size_cap_policy": "drop_oldest",
    },
}
DOTTED = {
    "path": "./quiver_data",
    "segment.target_size": "32MB",
    "wal.max_size": "4GB",
    "wal.flush_interval": "25ms",
    "retention": {
        "max_retain_after_ingestion_hours": 72,
        "size_cap": "500GB",
        "size_cap_policy": "drop_oldest",
    },
}
NODE = {"kind": "processor", "plugin_urn": "urn:otap:processor:persistence", "out_ports": {}}
OTHERS = {"wal": {"config": {"max_size": 1}}, "otlp_receiver": {"config": {"wal.nonsense": 1}}}


@pytest.mark.parametrize("options", [SECTIONS, DOTTED], ids=["nested", "dotted"])
@pytest.mark.parametrize(
    "around",
    [
        lambda options: options,
        lambda options: {"persistence": options},
        lambda options: {"persistence": {**NODE, "config": options}},
        lambda options: {f"persistence.{key}": value for key, value in options.items()},
        lambda options: {"persistence.config": options},
        lambda options: {"nodes": {**OTHERS, "persistence": {**NODE, "config": options}}},
        lambda options: {"settings": 3, "nodes": {"persistence": {"config": options}}},
    ],
    ids=["bare", "below", "node", "flat", "flat config", "pipeline", "whole pipeline"],
)
def test_every_spelling_is_the_same_config(options, around) -> None:
    loaded = quiver.load_config(around(options))
    assert loaded.path == "./quiver_data"
    assert loaded.config == Config.of(around(options)) == Config.of(SECTIONS)
    assert loaded.config.wal.max_size == 4_000_000_000
    assert loaded.config.wal.flush_interval == 25_000_000
    assert loaded.config.segment.target_size == 32_000_000
    assert loaded.config.retention.size_cap == 500_000_000_000
    assert loaded.config.retention.size_cap_policy == "drop_oldest"
    assert loaded.config.retention.max_retain_after_ingestion_hours == 72


@pytest.mark.parametrize(
    "document, wanted",
    [
        ({"persistance": {}}, "persistance: there is no such option (did you mean persistence?)"),
        ({"paths": "x"}, "paths: there is no such option (did you mean path?)"),
        ({"max_size": 1}, "max_size: there is no such option (did you mean acks.max_size?)"),
        ({"size_cap": 1}, "size_cap: there is no such option (did you mean retention.size_cap?)"),
        ({"wal.maxsize": 1}, "wal.maxsize: there is no such option (did you mean wal.max_size?)"),
        (
            {"retentoin.size_cap": 1},
            "retentoin.size_cap: there is no such option (did you mean retention.size_cap?)",
        ),
        ({"qqqq": 1}, "qqqq: there is no such option (known: wal, segment, subscriber, acks, "),
        ({"wal": {"max_size": {"x": 1}}}, "wal.max_size: {'x': 1} is not a size"),
        ({"persistence": {"wal": {"max_sise": 1}}}, "persistence.wal.max_sise: there is no such"),
        ({"persistence": 3}, "persistence: 3 is not a section"),
        ({"persistence": {}, "wal.max_size": "1GB"}, None),
        (
            {"persistence": {"wal.max_size": "1GB"}, "wal.max_chunks": 3},
            "wal.max_chunks: options stand elsewhere, too: persistence.wal.max_size",
        ),
        (
            {"persistence": {"config": {"wal.max_size": "1GB"}, "wal.max_chunks": 3}},
            "persistence.wal.max_chunks: options stand elsewhere, too: persistence.config.wal",
        ),
        ({"persistence": {"kinds": "x"}}, "persistence.kinds: there is no such option"),
        ({"kind": "processor"}, "kind: there is no such option"),
        ({"wal.max_size": "1GB", "wal": {"max_size": "1GB"}}, "wal.max_size: given twice, also as"),
        ({"nodes": {}}, "nodes: there is no persistence in it"),
        ({"nodes": {"persistance": {}}}, "(did you mean persistence by persistance?)"),
        ({"nodes": 3}, "nodes: 3 is not a section"),
        ({"nodes": {"persistence": None}}, "nodes.persistence: None is not a section"),
        ({"nodes": {"persistence": {"wal": {}}}}, "nodes.persistence: there is no config in it"),
        (
            {"nodes": {"persistence": {"config": {"wal": {"max_sise": 1}}}}},
            "nodes.persistence.config.wal.max_sise: there is no such option (did you mean wal.max_",
        ),
        (
            {"nodes": {"persistence": {"config": {}}}, "wal.max_size": 1},
            "wal.max_size: stands beside nodes",
        ),
        ({"path": 3}, "path: 3 is not the name of a folder"),
        ({"path": ""}, "path: '' is not the name of a folder"),
        ({"path": "a\0b"}, "path: 'a\\x00b' is not the name of a folder"),
        ({None: 3}, "None: there is no such option"),
        ({"x" * 1000: 3}, "x" * 80 + "...: there is no such option"),
        ({"wal": {"durability": "x" * 9999}}, "wal.durability: '" + "x" * 79 + "... is none of"),
    ],
)
def test_what_cannot_be_an_option_is_told_with_its_whole_key(document, wanted) -> None:
    if wanted is None:
        Config.of(document)  # Nothing stands below persistence, so nothing is in two places.
        return
    for take in (Config.of, quiver.load_config):
        with pytest.raises(ConfigError) as caught:
            take(document)
        assert wanted in str(caught.value)
        assert len(str(caught.value)) < 600


@pytest.mark.parametrize("option", OPTIONS)
def test_each_option_is_known_by_its_dotted_key_and_a_slip_of_the_pen_is_guessed(option) -> None:
    assert read_keys({option: 1}, OPTIONS).given[option].value == 1
    section, _, name = option.partition(".")
    slip = f"{section}.{name[:-1]}q"
    (fault,) = read_keys({slip: 1}, OPTIONS).faults
    assert fault == Fault(f"{slip}: there is no such option", f"did you mean {option}?")


def test_documents_that_hold_themselves_end() -> None:
    document: dict = {"wal": {"max_size": "1GB"}}
    document["persistence"] = document
    document["wal"]["more"] = document
    faults = read_keys(document, OPTIONS).faults
    assert {"persistence.persistence: there is no such option"} <= {f.text for f in faults}


def test_a_table_gives_lines_to_options_and_to_faults() -> None:
    table, wal = Table(), Table()
    wal.update(max_size=1, nope=2)
    wal.lines.update(max_size=2, nope=3)
    table["wal"] = wal
    table.lines["wal"] = 1
    reading = read_keys(table, OPTIONS)
    assert reading.given["wal.max_size"].line == 2
    assert [fault.line for fault in reading.faults] == [3]


def test_sections_without_anything_are_for_files_alone() -> None:
    assert read_keys({"wal": None}, OPTIONS, from_file=True) == ({}, [])
    assert read_keys(None, OPTIONS, from_file=True) == ({}, [])
    assert read_keys({"wal": None}, OPTIONS).faults[0].text.startswith("wal: None is not a sec")
