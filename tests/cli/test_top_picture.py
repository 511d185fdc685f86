"""The picture in the README: the command that makes it does, and it shows what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from top_kit import words_of

pytest.importorskip("textual")

ROOT = Path(__file__).parents[2]
WORDS = [
    "quiver top",
    "store · 2 cores · every 500ms · a look takes ",
    " bundles/s",
    "of 16.8MB",
    " dead letter",
    " core writer ",
    " subscriber ",
    " alerts ",
    " lake ",
    " uploader ",
    " what happened",
    " q Quit  p Pause  s Sort  ? Help",
]


def check(svg: str) -> None:
    text = words_of(svg)
    assert [word for word in WORDS if word not in text] == []
    assert re.search(r"^in [0-9,.]+ bundles/s  [0-9.]+k?M?B/s  [▁-█]*█", text, re.MULTILINE)
    writers = re.findall(r"^ ([01])    +([0-9]+) ", text, re.MULTILINE)
    assert [core for core, _ in writers] == ["0", "1"]
    assert "font-face" not in svg


def test_a_picture_of_a_store_at_work_is_drawn(tmp_path) -> None:
    path = tmp_path / "top.svg"
    command = [sys.executable, "-m", "bench.top", "--seconds", "3", "--out", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"wrote {path}\n"
    check(path.read_text())


def test_the_picture_in_the_readme_is_one_of_these() -> None:
    assert "(bench/top.svg)" in (ROOT / "README.md").read_text()
    assert "make top-picture" in (ROOT / "README.md").read_text()
    svg = (ROOT / "bench" / "top.svg").read_text()
    check(svg)
    assert "segment" in words_of(svg)
