"""The samples of README.md run as they stand, one after the other.

Spark's is in tests/spark, that of nodes in tests/chain.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import quiver
from quiver.cli.program import VERBS
from quiver.errors import MissingError

PAGE = Path(__file__).parents[2] / "README.md"


def samples() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_each_sample_runs_behind_those_before_it(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    elsewhere = ("quiver.spark", "quiver.connect")
    done = [sample for sample in samples() if not any(name in sample for name in elsewhere)]
    assert len(done) == len(samples()) - 2 == 11
    for sample in done[:2]:
        exec(sample, names)
    assert quiver.scan("store", slot="events").to_table().num_rows == 2
    exec(done[2], names)
    assert capsys.readouterr().out == "uploading 2 rows\n"
    with pytest.raises(MissingError, match="or every subscriber has acked them already"):
        quiver.scan("store", slot="events").to_table()
    exec(done[3], names)
    assert capsys.readouterr().out == "uploading 1 row\n"
    exec(done[4], names)
    exec(done[5], names)
    exec(done[6], names)
    assert capsys.readouterr().out == "archiving 1 error\n"
    exec(done[7], names)
    assert capsys.readouterr().out == "0 1\n"
    exec(done[8], names)
    assert capsys.readouterr().out == "[[{'price': 101.7}]]\n"
    exec(done[9], names)
    assert capsys.readouterr().out == "[b'one', b'two']\n"
    exec(done[10], names)
    assert capsys.readouterr().out == "[{'id': 1, 'name': 'Ann'}]\n"


def test_every_verb_has_a_row() -> None:
    rows = re.findall(r"^\| `quiver ([a-z-]+)", PAGE.read_text(), re.MULTILINE)
    assert [*rows, "version"] == list(VERBS)


def test_each_page_of_bytes_is_linked() -> None:
    root = PAGE.parent
    pages = {str(page.relative_to(root)) for page in root.glob("quiver/**/FORMAT.md")}
    assert pages == set(re.findall(r"\]\((quiver/[^)]*/FORMAT\.md)\)", PAGE.read_text()))
    assert len(pages) > 15
