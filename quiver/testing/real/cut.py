"""Real power cuts: a life on a volume that is shut down before an act, or at any moment.

Each yields a ``Leftover`` of the volume mounted again, with its journal replayed. Before half of
the cuts some dirty pages are written, as the kernel may do at any time: bytes then reach the disk
out of order.

=========================  ==============================================================
function                   where it cuts
=========================  ==============================================================
``cut_at_every_act``       before each act of one life, on an empty disk each time
``cut_in_a_row``           one store again and again, often inside the recovery from the
                           cut before
``cut_at_random_moments``  another process, from outside, in the middle of any call
=========================  ==============================================================
"""

from __future__ import annotations

import os
import random
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

from quiver.disk import LocalDisk
from quiver.testing.acts import Act, Mark
from quiver.testing.real.actor import Actor, Performance
from quiver.testing.real.folder_tree import read_tree
from quiver.testing.real.kernel import Power, sync_all, write_back
from quiver.testing.real.leftover import Leftover
from quiver.testing.real.volume import Volume
from quiver.testing.real.watched_disk import WatchedDisk
from quiver.testing.recorder import Killed
from quiver.testing.subject import Subject

__all__ = ["POWERS", "cut_at_every_act", "cut_at_random_moments", "cut_in_a_row"]

POWERS: Final = (Power.JOURNAL, Power.NOTHING)

_KEPT: Final = {
    Power.JOURNAL: "the journal still gets to the disk",
    Power.NOTHING: "nothing more gets to the disk",
}

_HALF: Final = 0.5

_ACTS: Final = 120
_EARLY_ACTS: Final = 12
"""Half of the cuts in a row are among the first acts: there is the recovery from the last one."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Before which act, what still gets through, and a seed for what is written just before."""

    act: int
    power: Power
    stir: int | None

    @classmethod
    def by_lot(cls, act: int, power: Power, lot: random.Random) -> Self:
        """Write some pages before half of the cuts."""
        return cls(act, power, lot.getrandbits(32) if lot.random() < _HALF else None)


def cut_at_every_act(
    volume: Volume,
    subject: Subject,
    life: str,
    *,
    powers: Sequence[Power] = POWERS,
    budget: int | None = None,
    seed: int = 0,
) -> Iterator[Leftover]:
    """Lead a life again and again, and cut the power before each of its acts and after the last.

    ``budget`` chooses so many cuts by lot; equal arguments choose the same.
    """
    lot = random.Random(f"{seed} {life}")
    count = _count_acts(volume, subject, life) + 1
    every = [(act, power) for act in range(count) for power in powers]
    chosen = every if budget is None else sorted(lot.sample(every, min(budget, len(every))))
    for act, power in chosen:
        folder, marks = volume.new_folder(), list[Mark]()
        cut = Cut.by_lot(act, power, lot)
        crash = _live_and_cut(volume, subject, life, cut=cut, folder=folder, marks=marks)
        tree = read_tree(folder)
        volume.clear()
        yield Leftover(life, crash, tuple(marks), tree)


def cut_in_a_row(
    volume: Volume, subject: Subject, *, cuts: int, seed: int = 0
) -> Iterator[Leftover]:
    """Lead lives by lot in one folder and cut the power in each of them."""
    lot = random.Random(f"{seed} row")
    folder, marks = volume.new_folder(), list[Mark]()
    for number in range(cuts):
        life = lot.choice(subject.lives)
        act = lot.randrange(_EARLY_ACTS if lot.random() < _HALF else _ACTS)
        cut = Cut.by_lot(act, lot.choice(POWERS), lot)
        crash = _live_and_cut(volume, subject, life, cut=cut, folder=folder, marks=marks)
        yield Leftover(life, f"cut {number + 1} in a row, {crash}", tuple(marks), read_tree(folder))
    volume.clear()


def cut_at_random_moments(
    volume: Volume,
    actor: Actor,
    lives: Iterable[str],
    *,
    powers: Sequence[Power] = POWERS,
    seed: int = 0,
) -> Iterator[Leftover]:
    """Cut the power once in each life, from outside, while another process leads it.

    ``seed`` chooses the moments; what the life does at each is up to the machine.
    """
    lot = random.Random(f"{seed} moments")
    seconds: dict[str, float] = {}
    for life in lives:
        if life not in seconds:
            seconds[life] = _time_of(actor.perform(life, volume.new_folder()))
        moment = lot.uniform(0.0, seconds[life])
        power = lot.choice(powers)
        folder = volume.new_folder()
        performance = actor.perform(life, folder)
        if lot.random() < _HALF:
            early = lot.uniform(0.0, moment)
            performance.watch(early)
            sync_all(volume.path)
            moment -= early
        performance.watch(moment)
        # A process without power returns from no call; the kernel goes on with the one it is in.
        performance.kill()
        volume.shut_down(power)
        performance.finish()
        volume.remount()
        tree = read_tree(folder)
        volume.clear()
        crash = f"{volume.kind}, from outside; {_KEPT[power]}"
        yield Leftover(life, crash, tuple(performance.marks), tree)


def _live_and_cut(
    volume: Volume,
    subject: Subject,
    life: str,
    *,
    cut: Cut,
    folder: str,
    marks: list[Mark],
) -> str:
    """Lead a life up to a cut, mount again, and say what happened."""
    fate = "after the last act"

    def before(number: int, op: Act) -> bool:
        nonlocal fate
        if number < cut.act:
            return False
        fate = f"before act {number}, {op}"
        _shut_down(volume, folder, cut)
        return True

    disk = WatchedDisk(LocalDisk(folder, create=True), before=before, note=marks.append)
    if _live(subject, life, disk):
        _shut_down(volume, folder, cut)
    disk.close()
    volume.remount()
    stirred = "" if cut.stir is None else ", some pages were written just before"
    return f"{volume.kind}, {fate}; {_KEPT[cut.power]}{stirred}"


def _live(subject: Subject, life: str, disk: WatchedDisk) -> bool:
    """Lead a life; False if it was ended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # Who dies leaves bundles unresolved.
        try:
            subject.live(life, disk)
        except Killed:
            return False
    return True


def _count_acts(volume: Volume, subject: Subject, life: str) -> int:
    disk = WatchedDisk(LocalDisk(volume.new_folder(), create=True))
    _live(subject, life, disk)
    disk.close()
    return disk.act_count


def _time_of(performance: Performance) -> float:
    start = time.monotonic()
    performance.finish()
    return time.monotonic() - start


def _shut_down(volume: Volume, folder: str, cut: Cut) -> None:
    if cut.stir is not None:
        lot = random.Random(cut.stir)
        for place, folders, names in os.walk(folder):
            folders.sort()
            for name in sorted(names):
                if lot.random() < _HALF:
                    write_back(os.path.join(place, name))
    volume.shut_down(cut.power)
