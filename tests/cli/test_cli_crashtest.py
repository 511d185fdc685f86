"""``crashtest``: its screen, its JSON, its exit codes, and the disk of a loss."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BROKEN = """
from quiver.testing.oracle import QuiverSubject
from quiver.wal.writer import Writer

Writer.sync = lambda self, offset=None: None


def subject(seed):
    return QuiverSubject(by_lot=1, seed=seed)
"""

SMALL = ["--images", "60", "--budget", "12", "--jobs", "1"]


def crashtest(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "quiver.testing", *arguments]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=300
    )


def test_equal_seeds_give_equal_digests(tmp_path: Path) -> None:
    runs = [crashtest(*SMALL, "--seed", seed, "--json", cwd=tmp_path) for seed in "119"]
    assert [run.returncode for run in runs] == [0, 0, 0]
    first, second, other = (json.loads(run.stdout) for run in runs)
    first.pop("seconds")
    second.pop("seconds")
    assert first == second
    assert first["digest"] != other["digest"]
    assert first["image_count"] >= 60
    assert first["loss_count"] == 0


def test_a_loss_is_told_and_its_disk_kept(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    run = crashtest(
        *SMALL, "--subject", "broken:subject", "--export", "case", "--no-color", cwd=tmp_path
    )
    assert run.returncode == 1
    assert "acknowledged bundles are lost: [" in run.stdout
    assert "lost" in run.stdout
    assert "write core_0/wal/quiver.wal [" in run.stdout
    assert (tmp_path / "case/core_0/wal/quiver.wal").exists()
    again = crashtest(*SMALL, "--subject", "broken:subject", "--export", "case", cwd=tmp_path)
    assert again.returncode == 2
    assert "case" in again.stderr


@pytest.mark.parametrize(
    "wrong", [["--images", "0"], ["--model", "fat"], ["--subject", "nowhere:x"], ["--depth", "9"]]
)
def test_wrong_options_are_wrong_usage(wrong: list[str], tmp_path: Path) -> None:
    run = crashtest(*wrong, cwd=tmp_path)
    assert run.returncode == 2
    assert "Traceback" not in run.stderr
