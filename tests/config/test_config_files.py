"""A config in a file: what it may hold, and what a hostile or a careless one is told."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import quiver
from quiver.config import OPTIONS, Config
from quiver.config_keys import read_keys
from quiver.config_text import TEXT_BYTES_MAX, parse_text
from quiver.errors import ConfigError, InputError

YAML = """\
persistence:
  path: ./quiver_data  # beside this file
  segment:
    target_size: 32MB
  wal.max_size: 4GB
  wal:
    flush_interval: 25ms
"""
TOML = """\
[persistence]
path = "./quiver_data"
wal.max_size = "4GB"
wal.flush_interval = "25ms"
[persistence.segment]
target_size = "32MB"
"""
JSON = json.dumps(
    {
        "persistence": {
            "path": "./quiver_data",
            "wal": {"max_size": "4GB", "flush_interval": "25ms"},
            "segment.target_size": "32MB",
        }
    },
    indent="\t",
)
WANTED = {"wal": {"max_size": "4GB", "flush_interval": "25ms"}, "segment.target_size": "32MB"}


def refusal(folder: Path, text: str | bytes, name: str = "q.yaml") -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        quiver.load_config(path)
    message = str(caught.value)
    assert len(message) < 1000
    assert str(path) in message
    return message.replace(str(path), name)


@pytest.mark.parametrize(
    "name, text",
    [
        ("q.yaml", YAML),
        ("q.yml", YAML),
        ("q", YAML),
        ("q.TOML", TOML),
        ("q.json", JSON),
        ("q.yaml", JSON.replace("\t", "  ")),
        ("q.yaml", "\ufeff" + YAML),
        ("q.yaml", "%YAML 1.1\n---\n" + YAML + "...\n"),
    ],
)
def test_yaml_toml_and_json_say_the_same(tmp_path, monkeypatch, name, text) -> None:
    path = tmp_path / "etc" / name
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    for source in (path, str(path)):
        loaded = quiver.load_config(source)
        assert loaded.config == Config.of(WANTED)
        assert loaded.path == str(tmp_path / "etc" / "quiver_data")
    monkeypatch.chdir(tmp_path)
    assert quiver.load_config(f"etc/{name}").path == "etc/quiver_data"
    monkeypatch.chdir(tmp_path / "etc")
    assert quiver.load_config(name).path == "quiver_data"


@pytest.mark.parametrize(
    "written, meant",
    [
        ("/var/lib/quiver", "/var/lib/quiver"),
        ("data", "{}/data"),
        ("../data", "{}/../data"),
        (".", "{}"),
        (".//data", "{}/data"),
        ("$HOME/data", "{}/$HOME/data"),
        ("~/data", "{}/~/data"),
        ("${QUIVER_PATH}", "{}/${{QUIVER_PATH}}"),
    ],
)
def test_a_path_is_relative_to_the_folder_of_its_file_and_nothing_in_it_is_expanded(
    tmp_path, written, meant
) -> None:
    path = tmp_path / "q.json"
    path.write_text(json.dumps({"path": written}))
    assert quiver.load_config(path).path == os.path.normpath(meant.format(tmp_path))
    assert quiver.load_config({"path": written}).path == written


def test_a_link_counts_where_it_stands_as_in_a_mounted_config_map(tmp_path) -> None:
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "q.yaml").write_text("path: store\nwal: {max_size: 1GB}\n")
    (tmp_path / "q.yaml").symlink_to(tmp_path / "..data" / "q.yaml")
    loaded = quiver.load_config(tmp_path / "q.yaml")
    assert loaded.path == str(tmp_path / "store")
    assert loaded.config.wal.max_size == 10**9


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "wal:\nsegment: {}\n", "{}", "~"])
def test_a_file_with_nothing_in_it_is_the_default(tmp_path, text) -> None:
    (tmp_path / "q.yaml").write_text(text)
    assert quiver.load_config(tmp_path / "q.yaml").config == Config()


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("wal:\n  max_sise: 1GB\n", "q.yaml:2: wal.max_sise: there is no such option (did you m"),
        ("persistence:\n\n  wall: {}\n", "q.yaml:3: persistence.wall: there is no such option"),
        ("wal:\n  max_size: much\n", "q.yaml:2: wal.max_size: 'much' is not a size"),
        ("wal:\n  max_size:\n", "q.yaml:2: wal.max_size: None is not a size"),
        ("wal:\n  max_size: [1]\n", "q.yaml:2: wal.max_size: [1] is not a size"),
        ("wal:\n  max_size: .nan\n", "q.yaml:2: wal.max_size: nan is not a size"),
        ("wal:\n  max_size: .inf\n", "q.yaml:2: wal.max_size: inf is not a size"),
        ("wal:\n  max_size: 1e999\n", "q.yaml:2: wal.max_size: inf is not a size"),
        ("wal:\n  flush_interval: 1e308\n", "q.yaml:2: wal.flush_interval: 1e+308 is not a dur"),
        (f"wal:\n  max_size: {'9' * 25}\n", "wal.max_size: 9999999999999999999999999 is too much"),
        (f"wal:\n  max_size: {'9' * 9999}\n", "q.yaml:2: wal.max_size: '9999"),
        ("wal:\n  max_size: 9999999999TiB\n", "wal.max_size: 10995116276660488372224 is too"),
        ("wal:\n  max_chunks: 2.5\n", "q.yaml:2: wal.max_chunks: 2.5 is not a whole number"),
        ("wal:\n  max_chunks: 010\n", "q.yaml:2: wal.max_chunks: '010' is not a whole number"),
        ("wal:\n  max_chunks: 0x10\n", "q.yaml:2: wal.max_chunks: '0x10' is not a whole number"),
        ("wal:\n  max_chunks: 1:30\n", "q.yaml:2: wal.max_chunks: '1:30' is not a whole number"),
        ("wal:\n  max_chunks: yes\n", "q.yaml:2: wal.max_chunks: 'yes' is not a whole number"),
        ("wal:\n  max_chunks: true\n", "q.yaml:2: wal.max_chunks: True is not a whole number"),
        (
            "retention:\n  max_retain_after_ingestion_hours: .NaN\n",
            "q.yaml:2: retention.max_retain_after_ingestion_hours: nan is not between 0",
        ),
        ("wal:\n  max_size: 1GB\n  max_size: 2GB\n", "q.yaml:3: max_size: given twice, first in 2"),
        ("wal.max_size: 1GB\nwal: {max_size: 1GB}", "q.yaml:2: wal.max_size: given twice, also as"),
        ("wal: &a {max_size: 1GB}\nacks: *a\n", "q.yaml:2: *a: aliases are not taken"),
        ("a: &a {b: *a}\n", "q.yaml:1: *a: aliases are not taken"),
        ("wal: {<<: {max_size: 1GB}}\n", "q.yaml:1: wal.<<: there is no such option"),
        ("wal: !!python/object/apply:os.system [id]\n", "python/object/apply:os.system: tags are"),
        ("wal:\n  max_size: !!str 1GB\n", "q.yaml:2: tag:yaml.org,2002:str: tags are not taken"),
        ("wal: !mine {}\n", "q.yaml:1: !mine: tags are not taken"),
        ("? [a]\n: 1\n", "q.yaml:1: a key that is no text"),
        ("1: 2\n", "q.yaml:1: 1: there is no such option"),
        ("wal: {\n", "q.yaml:2: "),
        ("wal: 1\n  max: 2\n", "q.yaml:2: mapping values are not allowed here"),
        ("\twal: 1\n", "q.yaml:1: found character '\\t' that cannot start any token"),
        ("a: 1\n---\nb: 2\n", "q.yaml:2: but found another document"),
        ("[wal]\n", "q.yaml: config: ['wal'] is not a section"),
        ("just words\n", "q.yaml: config: 'just words' is not a section"),
        ("wal: \x07\n", "q.yaml: a character that YAML does not allow"),
        (b"wal: \xff\n", "q.yaml is not UTF-8: byte 5"),
        ("wal: {}".encode("utf-16"), "q.yaml is not UTF-8: byte 0"),
        ("[" * 5000, "q.yaml:1: nested deeper than 64 levels"),
        ("a:\n" + "".join(f"{' ' * n}b:\n" for n in range(1, 300)), "nested deeper than 64 levels"),
        ("wal:\n  max_size: 1MB\n", "q.yaml: wal.max_size (1000000) is below limits.entry_bytes"),
    ],
)
def test_a_yaml_file_that_cannot_be_taken_is_told_with_its_line(tmp_path, text, wanted) -> None:
    assert wanted.replace("first in 2", "first in line 2") in refusal(tmp_path, text)


@pytest.mark.parametrize(
    "name, text, wanted",
    [
        ("q.toml", "[wal]\nmax_sise = 1\n", "q.toml: wal.max_sise: there is no such option (did"),
        ("q.toml", "[wal]\nmax_size = 1\nmax_size = 2\n", "(at line 3, column 13)"),
        ("q.toml", "[wal]\nmax_size = 1979-05-27\n", "q.toml: wal.max_size: datetime.date(1979"),
        ("q.toml", f"[wal]\nmax_size = {'9' * 5000}\n", "q.toml is no TOML: "),
        ("q.toml", "a = " + "[" * 5000, "q.toml: nested too deeply"),
        ("q.toml", "\n" + ".".join("a" * 202) + " = 1", "q.toml:2: more than 200 dots in a line"),
        ("q.toml", '."\u2028".'.join(["a"] * 102) + " = 1", "q.toml:1: more than 200 dots in a "),
        ("q.toml", ".".join("a" * 201) + " = 1", "q.toml: a: there is no such option"),
        ("q.toml", "wal: {max_size: 1}", "q.toml is no TOML: "),
        ("q.toml", "[wal]\nmax_chunks = inf\n", "q.toml: wal.max_chunks: inf is not a whole"),
        ("q.json", '{"wal": {"max_size": 1, "max_size": 2}}', "q.json: max_size: given twice"),
        ("q.json", '{"wal": {"max_chunks": NaN}}', "q.json: wal.max_chunks: nan is not a whole"),
        ("q.json", "{", "q.json is no JSON: "),
        ("q.json", '{"a":' * 20000, "q.json: nested too deeply"),
        ("q.json", f'{{"wal.max_chunks": {"9" * 4000}}}', ": a number of 13,288 bits is too much"),
        ("q.json", "[]", "q.json: config: [] is not a section"),
        ("q.json", "", "q.json is no JSON: "),
    ],
)
def test_toml_and_json_are_held_to_the_same(tmp_path, name, text, wanted) -> None:
    assert wanted in refusal(tmp_path, text, name)


def test_a_bomb_of_aliases_and_a_file_without_end_cost_nothing(tmp_path) -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{name}: &{name} [*{before}, *{before}]\n"
        for before, name in zip("abcdefghijk", "bcdefghijkl", strict=True)
    )
    assert "q.yaml:2: *a: aliases are not taken" in refusal(tmp_path, bomb)
    wanted = f"q.yaml is larger than {TEXT_BYTES_MAX:,} bytes"
    assert wanted in refusal(tmp_path, "# " + "x" * TEXT_BYTES_MAX)
    assert "more than 20,000 keys and values" in refusal(tmp_path, f"[{'1,' * 400_000}]")
    many = "".join(f"{number}: {number}\n" for number in range(70_000))
    assert "more than 20,000 keys and values" in refusal(tmp_path, many)
    (tmp_path / "q.yaml").write_text("#" + "x" * (TEXT_BYTES_MAX - 1))
    assert quiver.load_config(tmp_path / "q.yaml").config == Config()
    with pytest.raises(ConfigError, match="/dev/zero is larger than"):
        quiver.load_config("/dev/zero")


def test_a_file_that_cannot_be_read_is_a_config_error(tmp_path) -> None:
    for path, reason in ((tmp_path / "gone", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigError, match=f"cannot read {path}: {reason}"):
            quiver.load_config(path)
    for path in ("", "a\0b"):
        with pytest.raises(ConfigError, match="is not the path of a file"):
            quiver.load_config(path)
    with pytest.raises(TypeError):
        quiver.load_config(3)


def test_a_pipe_is_read_to_its_end(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, "-c", f"open({str(tmp_path / 'pipe')!r}, 'w').write('wal: {{}}')"]
    with subprocess.Popen(command):
        assert quiver.load_config(tmp_path / "pipe").config == Config()


def test_all_that_is_wrong_is_told_at_once(tmp_path) -> None:
    text = "wal:\n  max_sise: 1\n  max_chunks: two\nnope: 3\n"
    message = refusal(tmp_path, text)
    assert message.splitlines()[0] == "3 faults in the config:"
    assert {line.split(": ")[0].strip() for line in message.splitlines()[1:]} == {
        "q.yaml:2",
        "q.yaml:3",
        "q.yaml:4",
    }
    limits = "acks:\n  max_size: 1GB\nwal:\n  max_size: 1MB\nretention:\n  size_cap: 1kB\n"
    assert refusal(tmp_path, limits).startswith("3 faults in the config:")


def test_without_pyyaml_it_says_what_to_install_and_toml_is_read(tmp_path) -> None:
    (tmp_path / "q.yaml").write_text(YAML)
    (tmp_path / "q.toml").write_text(TOML)
    code = (
        "import sys; sys.modules['yaml'] = None\nimport quiver\n"
        "assert quiver.load_config('q.toml').config.wal.max_size == 4_000_000_000\n"
        "try:\n    quiver.load_config('q.yaml')\nexcept quiver.ConfigError as error:\n"
        "    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("q.yaml: reading YAML needs the package 'pyyaml' (pip install 'q")


@pytest.mark.parametrize("name", ["q.yaml", "q.toml", "q.json"])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.binary(max_size=120) | st.text(alphabet="wal:{}[]&*!- \n\"'#1.e=|>%?~", max_size=60))
def test_no_bytes_do_anything_but_load_or_raise_a_config_error(name, data) -> None:
    with contextlib.suppress(ConfigError):
        document = parse_text(data if isinstance(data, bytes) else data.encode(), name)
        given, faults = read_keys(document, OPTIONS, from_file=True)
        assert given or faults or not document


def test_a_store_is_opened_with_a_file(tmp_path) -> None:
    path = tmp_path / "q.yaml"
    path.write_text("path: elsewhere\nwal:\n  durability: interval\nlimits: {rows: 2}\n")
    for config in (path, str(path), quiver.load_config(path)):
        with quiver.open(tmp_path / "store", slots=["a"], config=config) as store:
            assert store.durability == "interval"
            with pytest.raises(InputError, match="rows"):
                store.append({"a": pa.table({"n": [1, 2, 3]})})
    assert not (tmp_path / "elsewhere").exists()
    with (
        pytest.raises(ConfigError, match="cannot read"),
        quiver.open(tmp_path / "new", slots=["a"], config=tmp_path / "gone.yaml"),
    ):
        pass
    assert not (tmp_path / "new").exists()
    with quiver.subscribe(tmp_path / "store", "me", config=path, worker=False):
        pass
    assert set(quiver.load_config(path).origins) == {"path", *OPTIONS}
