"""UPSERT.md: its samples run as they stand, its commands are ones, its numbers are the code's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from click.testing import CliRunner

import quiver
from quiver.cli.program import VERBS, program
from quiver.upsert.feeding import options, target
from quiver.upsert.persist import opened
from quiver.upsert.tending import GRACE

PAGE = Path(quiver.__file__).parent / "upsert" / "UPSERT.md"


def test_each_sample_runs_behind_those_before_it(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    samples = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    told = []
    for sample in samples:
        exec(sample, names)
        told.append(capsys.readouterr().out)
    went = "{'id': 3, 'name': 'Cyd', '_time': 2, '_diff': -1}"
    came = "{'id': 4, 'name': 'Dee', '_time': 2, '_diff': 1}"
    assert told == [
        "{'id': [1, 3], 'name': ['Ann', 'Cyd']}\n",
        "3 commands, 2 changes\n",
        f"0 2\n2 [{went}, {came}]\n",
    ]


def test_its_commands_are_ones() -> None:
    lines = re.findall(r"^quiver (\S+) (.*?)(?: +#.*)?$", PAGE.read_text(), re.MULTILINE)
    assert len(lines) == 6
    for verb, rest in lines:
        assert verb in VERBS
        known = CliRunner().invoke(program, [verb, "--help"]).output
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in known


def test_options_are_those_of_the_verb_and_of_python() -> None:
    known = CliRunner().invoke(program, ["upsert", "--help"]).output
    table = PAGE.read_text().split("## What a row means")[1].split("`EXPR` is")[0]
    for line in [row for row in table.splitlines() if row.startswith("| `--")]:
        _, flags, fields, *_ = line.replace(r"\|", "/").split("|")
        for flag in re.findall(r"--[a-z-]+", flags):
            assert flag in known
        for field in re.findall(r"`(\w+)`", fields):
            assert field in options.FeedOptions.__dataclass_fields__


def test_its_numbers_are_those_of_the_code() -> None:
    text = PAGE.read_text()
    for wanted in (
        f"so many rows ({options.ROWS:,}) and Arrow bytes (64 MiB)",
        f"keys are spread ({options.BUCKETS})",
        f"can be read ({options.HISTORY})",
        f"up to {opened.KEPT_BYTES_MAX >> 20} MiB of files",
        "(1 s)",
        "for ten minutes",
    ):
        assert wanted in text
    assert (options.SIZE, options.EVERY, GRACE) == ("64MiB", "1s", "10m")
    assert f"`{target.source_names('<slot>')[0]}`" in text
