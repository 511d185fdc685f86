"""Defaults, file, environment, the caller's words: who wins, and who is told to have said it."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quiver
from quiver.config import HARD_LIMITS, OPTIONS, Config, conflicts, sections_of
from quiver.config_file import Origin, Text, config_of, examine, option_text, option_unit
from quiver.config_text import parse_text
from quiver.errors import ConfigError
from quiver.units import exact_bytes, exact_duration, parse_bytes, parse_duration


def variable(option: str) -> str:
    return "QUIVER_" + option.upper().replace(".", "__")


def test_later_ones_override_earlier_ones_option_by_option(tmp_path) -> None:
    path = tmp_path / "q.yaml"
    path.write_text("wal:\n  max_size: 1GB\n  max_chunks: 3\n  flush_interval: 3ms\n")
    environ = {"QUIVER_WAL__MAX_CHUNKS": "4", "QUIVER_WAL__FLUSH_INTERVAL": "4ms", "HOME": "/x"}
    override = {"wal": {"flush_interval": "5ms"}, "path": "here"}
    loaded = quiver.load_config(path, environ=environ, override=override)
    wal = loaded.config.wal
    assert (wal.max_size, wal.max_chunks, wal.flush_interval) == (10**9, 4, 5_000_000)
    assert (wal.rotate_size, loaded.path) == (Config().wal.rotate_size, "here")
    assert loaded.origins["wal.max_size"] == Origin("file", f"{path}:2")
    assert loaded.origins["wal.max_chunks"] == Origin("environ", "QUIVER_WAL__MAX_CHUNKS")
    assert loaded.origins["wal.flush_interval"] == Origin("override", "override")
    assert loaded.origins["wal.rotate_size"] == Origin("default")
    assert loaded.origins["path"] == Origin("override", "override")
    assert quiver.load_config({"wal": {}, "path": "x"}).origins["path"] == Origin("mapping")
    assert quiver.load_config().config == Config()


@pytest.mark.parametrize("option", OPTIONS)
def test_each_option_has_a_variable_that_takes_it_as_text(option) -> None:
    text = {"count": "3", "hours": "1.5", "bytes": "300MB", "duration": "3s"}
    kind = OPTIONS[option].metadata.get("kind")
    value = str(OPTIONS[option].default) if kind is None else text[kind]
    if option == "retention.size_cap":
        value = "1GB"
    elif option in ("acks.max_size", "limits.entry_bytes"):
        value = "3MB"
    elif option == "wal.max_size":
        value = "1GB"
    loaded = quiver.load_config(environ={variable(option): value})
    section, _, name = option.partition(".")
    typed = {"count": 3, "hours": 1.5}.get(kind, value)
    assert loaded.config == Config.of({section: {name: typed}})
    assert loaded.origins[option] == Origin("environ", variable(option))


@pytest.mark.parametrize(
    "environ, wanted",
    [
        ({"QUIVER_WAL__MAX_SIZ": "1"}, "QUIVER_WAL__MAX_SIZ: there is no such option (did you m"),
        ({"QUIVER_WALL__MAX_SIZE": "1"}, "(did you mean QUIVER_WAL__MAX_SIZE?)"),
        ({"QUIVER_WAL_MAX_SIZE": "1GB"}, "(did you mean QUIVER_WAL__MAX_SIZE?)"),
        ({"quiver_wal__max_size": "1GB"}, "(did you mean QUIVER_WAL__MAX_SIZE?)"),
        ({"QUIVER_X__Y": "1"}, "QUIVER_X__Y: there is no such option (QUIVER_, the section, two"),
        ({"QUIVER_WAL__MAX_SIZE": ""}, "QUIVER_WAL__MAX_SIZE: '' is not a size"),
        ({"QUIVER_WAL__MAX_CHUNKS": "two"}, "QUIVER_WAL__MAX_CHUNKS: 'two' is not a whole"),
        ({"QUIVER_WAL__MAX_CHUNKS": "\u0663"}, "is not a whole number"),
        ({"QUIVER_WAL__MAX_CHUNKS": "9" * 99}, "is not a whole number"),
        ({"QUIVER_WAL__MAX_CHUNKS": "0"}, "QUIVER_WAL__MAX_CHUNKS: must be above zero"),
        ({"QUIVER_RETENTION__MAX_RETAIN_AFTER_INGESTION_HOURS": "nan"}, "is not a number of hours"),
        ({"QUIVER_RETENTION__MAX_RETAIN_AFTER_INGESTION_HOURS": "1.x"}, "is not a number of hours"),
    ],
)
def test_a_variable_that_is_wrong_is_told_by_its_name(environ, wanted) -> None:
    with pytest.raises(ConfigError) as caught:
        quiver.load_config(environ=environ)
    assert wanted in str(caught.value)


def test_other_variables_are_none_of_our_business() -> None:
    environ = {
        "QUIVER_VERIFY": "off",
        "QUIVER_DEFECTS": "9",
        "WAL__MAX_SIZE": "x",
        "MYQUIVER__": "",
    }
    assert quiver.load_config(environ=environ).config == Config()


def test_the_library_does_not_read_the_environment_by_itself() -> None:
    code = (
        "import tempfile, quiver\nfolder = tempfile.mkdtemp()\n"
        "assert quiver.load_config().config == quiver.Config()\n"
        "with quiver.open(folder, slots=['a'], config={}) as store:\n    print(store.durability)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "QUIVER_WAL__DURABILITY": "interval", "QUIVER_NO__SUCH": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "sync\n"


def test_what_is_wrong_in_any_place_is_told_with_all_the_rest(tmp_path) -> None:
    path = tmp_path / "q.toml"
    path.write_text("wal.max_sise = 1")
    loaded, errors = examine(
        path,
        environ={"QUIVER_WAL__MAX_CHUNKS": "x"},
        override={"wal.max_size": Text("y"), "nope": 1},
        override_name="--set",
    )
    assert loaded is None
    assert [error.message.split(":")[0] for error in errors] == [
        str(path),
        "QUIVER_WAL__MAX_CHUNKS",
        "--set",
        "--set",
    ]
    assert examine(path, environ={})[0] is None


def test_everything_that_may_be_a_config_is_one() -> None:
    loaded = quiver.load_config({"wal.max_chunks": 3})
    assert config_of(loaded) is loaded.config
    assert config_of(loaded.config) is loaded.config
    assert config_of({"wal": {"max_chunks": 3}}) == loaded.config
    assert config_of(None) == Config()


def drawn_values() -> st.SearchStrategy[dict[str, object]]:
    """Draw a value for each of some options; most of them go together."""
    kinds = {
        "bytes": st.integers(1, 1 << 40),
        "duration": st.integers(1, 1 << 50),
        "count": st.integers(1, 1 << 20),
        "hours": st.integers(0, 9999) | st.floats(0, 9999),
    }
    strategies: dict[str, st.SearchStrategy[object]] = {
        option: kinds[knob.metadata["kind"]]
        for option, knob in OPTIONS.items()
        if "kind" in knob.metadata
    }
    for limit in ("rows", "columns", "nesting"):
        strategies[f"limits.{limit}"] = st.integers(1, getattr(HARD_LIMITS, limit))
    strategies["acks.max_size"] = st.integers(1, 128 << 20)
    strategies["limits.entry_bytes"] = st.integers(1, 1 << 20)
    strategies["wal.max_size"] = st.integers(1 << 28, 1 << 40)
    strategies["retention.size_cap"] = st.just(0) | st.integers(1 << 43, 1 << 60)
    strategies["wal.durability"] = st.sampled_from(["sync", "interval", "segment"])
    strategies["segment.compression"] = st.sampled_from(["none", "lz4", "zstd"])
    strategies["retention.size_cap_policy"] = st.sampled_from(["backpressure", "drop_oldest"])
    return st.fixed_dictionaries({}, optional=strategies)


@settings(max_examples=200, deadline=None)
@given(values=drawn_values(), path=st.none() | st.text(min_size=1).filter(lambda t: "\0" not in t))
def test_what_is_dumped_loads_as_the_same(values, path) -> None:
    config = Config(**sections_of(values))
    options = {
        option: getattr(getattr(config, option.partition(".")[0]), option.partition(".")[2])
        for option in OPTIONS
    }
    as_text = {key: option_text(key, value) for key, value in options.items()}
    plain = {k: v for k, v in options.items() if OPTIONS[k].metadata.get("kind") != "duration"}
    durations = {k: v for k, v in as_text.items() if k not in plain}
    where = {} if path is None else {"path": path}
    loaded = quiver.load_config({**plain, **durations, **where})
    assert loaded.config == config
    again = quiver.load_config(parse_text(loaded.dump().encode(), "q.yaml"))
    assert (again.config, again.path) == (config, path)
    assert all(line.count("  # ") == 1 for line in loaded.dump().splitlines() if " # " in line)


@given(value=st.integers(0, 1 << 62))
def test_exact_sizes_and_durations_are_read_as_what_they_were(value) -> None:
    assert parse_bytes(exact_bytes(value)) == value
    assert parse_duration(exact_duration(value)) == value


@pytest.mark.parametrize(
    "value, size, duration",
    [
        (0, "0B", "0ns"),
        (1024, "1KiB", "1024ns"),
        (32 << 20, "32MiB", "33554432ns"),
        (32_000_000, "32MB", "32ms"),
        (4_000_000_000, "4GB", "4s"),
        (1001, "1001B", "1001ns"),
        (90 * 10**9, "90GB", "90s"),
        (86_400 * 10**9, "86400GB", "1d"),
    ],
)
def test_exact_texts_have_the_largest_unit_that_fits(value, size, duration) -> None:
    assert (exact_bytes(value), exact_duration(value)) == (size, duration)


def test_conflicts_are_those_that_making_a_config_raises() -> None:
    sections = sections_of({"acks.max_size": 1 << 30, "wal.max_size": 1})
    found = [str(error) for error in conflicts(sections)]
    assert len(found) == 2
    with pytest.raises(ConfigError, match=re.escape(found[0])):
        Config(**sections)


def test_every_option_that_is_no_word_has_a_unit() -> None:
    units = {option: option_unit(option) for option in OPTIONS}
    assert {u for o, u in units.items() if "kind" not in OPTIONS[o].metadata} == {""}
    assert all(units[option] for option, knob in OPTIONS.items() if "kind" in knob.metadata)
