"""Options are loaded strictly: what is unknown, mistyped or impossible names its key path."""

from __future__ import annotations

import dataclasses

import pytest

from quiver.config import Config, LimitsConfig, RetentionConfig, SegmentConfig, WalConfig
from quiver.errors import ConfigError

MIB = 1 << 20


def test_no_config_and_an_empty_one_are_the_default() -> None:
    assert Config.of(None) == Config.of({}) == Config.of({"wal": {}}) == Config()
    assert Config().wal.durability == "sync"
    assert Config().retention.size_cap_policy == "backpressure"


def test_a_ready_config_is_taken_as_it_is() -> None:
    config = Config(segment=SegmentConfig(target_size=MIB))
    assert Config.of(config) is config


def test_sections_are_read_with_units() -> None:
    config = Config.of(
        {
            "wal": {"durability": "interval", "max_size": "1GiB", "flush_interval": "5ms"},
            "segment": {"target_size": 1_000_000, "max_open_duration": 2.5},
            "subscriber": {"retry_first": "100ms"},
            "acks": {"max_size": "1MB"},
            "retention": {"size_cap": "10GB", "size_cap_policy": "drop_oldest"},
            "limits": {"rows": 10},
        }
    )
    assert config.wal == WalConfig(
        durability="interval", max_size=1 << 30, flush_interval=5_000_000
    )
    assert config.segment == SegmentConfig(target_size=1_000_000, max_open_duration=2_500_000_000)
    assert config.retention == RetentionConfig(size_cap=10**10, size_cap_policy="drop_oldest")
    assert config.limits == LimitsConfig(rows=10)
    assert config.acks.max_size == 10**6
    assert config.subscriber.retry_first == 100_000_000


@pytest.mark.parametrize(
    "values, wanted",
    [
        ({"wall": {}}, r"wall: there is no such option \(did you mean wal\?\)"),
        ({"wal": {"max_sise": 1}}, r"wal.max_sise: .*did you mean wal.max_size\?"),
        ({"wal": {"qqq": 1}}, r"wal.qqq: .*known: durability, max_size"),
        ({1: {}}, "1: there is no such option"),
        ({"wal": 3}, "wal: 3 is not a section"),
        ({"wal": None}, "wal: None is not a section"),
        ([], r"config: \[\] is not a section"),
        ({"wal": {"durability": "fsync"}}, "wal.durability: 'fsync' is none of sync, interval, s"),
        ({"wal": {"durability": []}}, r"wal.durability: \[\] is none of"),
        ({"wal": {"max_size": "12 parsec"}}, "wal.max_size: '12 parsec' is not a size"),
        ({"wal": {"max_size": 0}}, "wal.max_size: must be above zero"),
        ({"wal": {"max_size": "1MB"}}, "wal.max_size .* is below limits.entry_bytes"),
        ({"wal": {"max_chunks": 2.5}}, "wal.max_chunks: 2.5 is not a whole number"),
        ({"wal": {"max_chunks": True}}, "wal.max_chunks: True is not a whole number"),
        ({"wal": {"max_chunks": "10"}}, "wal.max_chunks: '10' is not a whole number"),
        ({"segment": {"max_open_duration": "-1s"}}, "segment.max_open_duration: '-1s' is not a d"),
        ({"segment": {"max_streams": 0}}, "segment.max_streams: must be above zero"),
        (
            {"segment": {"dictionary_cardinality": 0}},
            "segment.dictionary_cardinality: must be above zero",
        ),
        ({"segment": {"schema_metadata": "lose"}}, "'lose' is none of keep, drop"),
        ({"limits": {"entry_bytes": "5GB"}}, "limits.entry_bytes: at most 4,294,967,287"),
        ({"retention": {"size_cap": "1MB"}}, "retention.size_cap .* is below"),
        ({"retention": {"size_cap": -5}}, "retention.size_cap: -5 is not a size"),
    ],
)
def test_a_wrong_option_is_refused_with_its_key_path(values, wanted: str) -> None:
    with pytest.raises(ConfigError, match=wanted):
        Config.of(values)


@pytest.mark.parametrize(
    "sections, wanted",
    [
        ({"wal": WalConfig(max_size="1GB")}, "wal.max_size: '1GB' is not a whole number"),
        ({"wal": WalConfig(durability="fast")}, "wal.durability: 'fast' is none of"),
        ({"limits": LimitsConfig(rows=0)}, "limits.rows: must be above zero"),
        ({"retention": RetentionConfig(size_cap=-1)}, "retention.size_cap: must be zero or more"),
    ],
)
def test_knobs_set_without_loading_are_checked_as_well(sections, wanted: str) -> None:
    with pytest.raises(ConfigError, match=wanted):
        Config(**sections)


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().wal.max_size = 1


def test_the_least_cap_has_room_for_a_log_if_there_is_one() -> None:
    wal = WalConfig(max_size=512 << 20)
    assert Config(wal=wal).size_cap_min == (512 << 20) + (64 << 20) + (128 << 10)
    without = dataclasses.replace(wal, durability="segment")
    assert Config(wal=without).size_cap_min == (64 << 20) + (128 << 10)
    Config(wal=without, retention=RetentionConfig(size_cap=65 << 20))
    with pytest.raises(ConfigError, match=r"retention\.size_cap .* is below 604110848"):
        Config(wal=wal, retention=RetentionConfig(size_cap=65 << 20))
