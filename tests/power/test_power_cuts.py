"""Cut the power of ext4 and XFS under a living store and judge what is there after the reboot.

``QUIVER_POWER_CUTS`` says how many cuts; the default is quick.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import pytest

from quiver.disk.local_file import LocalFile
from quiver.testing.lives import LIVES
from quiver.testing.oracle import QuiverSubject
from quiver.testing.real import (
    Actor,
    Leftover,
    Volume,
    cut_at_every_act,
    cut_at_random_moments,
    cut_in_a_row,
)
from quiver.testing.subject import Loss

CUTS = int(os.environ.get("QUIVER_POWER_CUTS", "24"))
"""Half of them on each file system: two fifths at acts and at moments, one fifth in a row."""

AT_ACTS = AT_MOMENTS = CUTS // 5
IN_A_ROW = CUTS // 10
ROW = 6
LIFE_CUTS = 8

pytestmark = [
    pytest.mark.root,
    pytest.mark.filterwarnings("ignore:.*lost without an outcome:ResourceWarning"),
]


def subject_for(cuts: int) -> QuiverSubject:
    """Offer enough lives for so many cuts."""
    return QuiverSubject(by_lot=cuts // LIFE_CUTS, seed=cuts)


def judge_all(leftovers: Iterable[Leftover], subject: QuiverSubject) -> int:
    count = 0
    for leftover in leftovers:
        leftover.judge(subject)
        count += 1
    return count


def at_acts(volume: Volume, subject: QuiverSubject, cuts: int) -> Iterator[Leftover]:
    for number, life in enumerate(subject.lives):
        share = cuts // len(subject.lives) + (number < cuts % len(subject.lives))
        yield from cut_at_every_act(volume, subject, life, budget=share)


def in_rows(volume: Volume, subject: QuiverSubject, cuts: int) -> Iterator[Leftover]:
    for row in range(-(-cuts // ROW)):
        yield from cut_in_a_row(volume, subject, cuts=min(ROW, cuts - row * ROW), seed=row)


def at_moments(volume: Volume, actor: Actor, cuts: int) -> Iterator[Leftover]:
    lives = QuiverSubject(by_lot=max(6, cuts // LIFE_CUTS)).lives
    return cut_at_random_moments(volume, actor, (lives[n % len(lives)] for n in range(cuts)))


def test_nothing_acknowledged_is_lost_when_the_power_fails_at_an_act(volume):
    subject = subject_for(AT_ACTS)
    assert judge_all(at_acts(volume, subject, AT_ACTS), subject) == AT_ACTS


def test_nothing_acknowledged_is_lost_when_the_power_fails_again_and_again(volume):
    subject = subject_for(IN_A_ROW)
    assert judge_all(in_rows(volume, subject, IN_A_ROW), subject) == IN_A_ROW


def test_nothing_acknowledged_is_lost_when_the_power_fails_at_any_moment(volume, actor):
    found = judge_all(at_moments(volume, actor, AT_MOMENTS), QuiverSubject())
    assert found == AT_MOMENTS


@pytest.mark.parametrize("part", ["wal/quiver.wal", ".qseg.tmp"])
def test_a_store_that_leaves_out_a_sync_is_found_out(volume, part, monkeypatch):
    real = LocalFile.sync

    def sync(file: LocalFile) -> None:
        if not file.path.endswith(part):
            real(file)

    monkeypatch.setattr(LocalFile, "sync", sync)
    subject = QuiverSubject()
    life = next(iter(LIVES))
    with pytest.raises(Loss):
        judge_all(cut_at_every_act(volume, subject, life, budget=40), subject)


def test_a_store_that_acknowledges_too_early_is_found_out_at_any_moment(volume, hasty):
    with pytest.raises(Loss, match="acknowledged bundles are lost"):
        judge_all(at_moments(volume, hasty, 200), QuiverSubject())
