"""Kill real processes, several in a row over one store, and judge what each left.

``QUIVER_KILLS`` says how many; the default is quick. Needs no right that a user has not.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quiver.testing.oracle import QuiverSubject
from quiver.testing.real import Actor, kill_in_a_row
from quiver.testing.subject import Loss

KILLS = int(os.environ.get("QUIVER_KILLS", "12"))
ROW = 5


def kill_rows(actor: Actor, folder: Path, kills: int) -> int:
    subject = QuiverSubject(by_lot=20)
    count = 0
    for row in range(-(-kills // ROW)):
        share = min(ROW, kills - row * ROW)
        for leftover in kill_in_a_row(
            actor, subject, str(folder / f"{row}"), kills=share, seed=row
        ):
            leftover.judge(subject)
            count += 1
    return count


def test_nothing_acknowledged_is_lost_when_processes_are_killed_in_a_row(actor, tmp_path):
    assert kill_rows(actor, tmp_path, KILLS) == KILLS


def test_a_store_that_acknowledges_too_early_is_found_out_by_kills(hasty, tmp_path):
    with pytest.raises(Loss, match="acknowledged bundles are lost"):
        kill_rows(hasty, tmp_path, 200)


def test_a_life_that_breaks_down_is_not_taken_for_a_kill(clumsy, tmp_path):
    with pytest.raises(Loss, match="ZeroDivisionError"):
        kill_rows(clumsy, tmp_path, 20)


def test_an_actor_tells_what_it_marked_up_to_the_kill_and_no_more(actor, tmp_path):
    whole = actor.perform("rotate", str(tmp_path / "whole"))
    whole.finish()
    assert not whole.killed
    assert (whole.refusal, whole.loss) == ("", "")
    half = actor.perform("rotate", str(tmp_path / "half"), kill_before=70)
    half.finish()
    assert half.killed
    assert half.marks == whole.marks[: len(half.marks)]
    assert 0 < len(half.marks) < len(whole.marks)


def test_an_actor_tells_what_the_disk_refused(actor, tmp_path):
    (tmp_path / "file").write_text("in the way")
    refused = actor.perform("rotate", str(tmp_path / "file"))
    refused.finish()
    assert "is not a folder" in refused.refusal
    assert not refused.killed


def test_the_actor_forks_from_a_single_thread(actor):
    status = Path(f"/proc/{actor.pid}/status").read_text()
    assert "Threads:\t1\n" in status
