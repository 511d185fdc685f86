"""The ways to look for a defect, each run on one defect in a process of its own.

============  ===============================================================================
method        what it looks at
============  ===============================================================================
``kill``      what a kill leaves before each act of a life, and of each recovery: nothing that
              was written is lost
``journaled`` the simulator: what a power cut leaves on a file system that keeps names in order
``posix``     the simulator: what a power cut leaves when only the standard is believed
``ext4 cut``  real power cuts of a real file system, see ``quiver.testing.real``
``xfs cut``
============  ===============================================================================

All lead the same lives in the same order, for each defect and for the store without one. The two
simulators also let acts fail, and kill the process and go on. They go through the lives quickly
first and thoroughly then; a method ends with the first loss, or when its time is up.

``python methods.py METHOD [DEFECT]`` prints what came of it as one line of JSON. With ``--known``
the chapter that ``known.json`` has for the defect comes first: it is one of those that would come
anyway, so the answer is the same and comes sooner.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from defects import ALL
from planting import plant

if TYPE_CHECKING:
    from quiver.testing.acts import Mark
    from quiver.testing.campaign import Chapter
    from quiver.testing.file_tree import History, Tree
    from quiver.testing.recorder import FaultKind

__all__ = [
    "CUTS",
    "CUT_LIVES",
    "KNOWN",
    "METHODS",
    "ROUNDS",
    "Search",
    "Verdict",
    "chapters",
    "tell",
    "try_method",
]


@dataclass(frozen=True, slots=True)
class Round:
    """Which lives, and how much of each."""

    lives: Sequence[int]
    images: int
    nested: float = 0.3
    """Of how many images the recovery is cut as well."""
    faults: int = 0
    kinds: tuple[FaultKind, ...] = ("EIO", "ENOSPC", "short", "kill")
    cuts: int = 4
    """After each fault."""


EVERY: Final = 10_000
ROTATE, UPKEEP, REFUSALS, BEGIN, WITHOUT_HOLES = 1, 6, 7, 8, 9
DROPPING: Final = 20, 22
FOLLOWING: Final = range(27, 33)
"""Lives of a store that reads a source."""
OUTGOING: Final = 33, 36
GOING_ROUND: Final = range(37, 42)
"""Lives of a store whose log files are used again."""
FORGOING: Final = range(42, 45)
"""Lives of a store whose subscribers have bundles before their segment."""
NO_LOG: Final = 50, 54
"""Places of lives; the last two are by lot, and of stores without a log."""
ROUNDS: Final = (
    Round(
        [*range(18), *DROPPING, *NO_LOG, *FOLLOWING, *OUTGOING, *GOING_ROUND, *FORGOING],
        images=150,
        nested=1.0,
    ),
    Round([BEGIN], images=0, faults=EVERY, kinds=("kill",), cuts=EVERY),
    Round(
        [REFUSALS, WITHOUT_HOLES, GOING_ROUND[-1]],
        images=0,
        faults=EVERY,
        kinds=("EIO", "short"),
        cuts=10,
    ),
    Round([REFUSALS, ROTATE, UPKEEP], images=0, faults=EVERY, kinds=("kill",), cuts=12),
    Round(range(18), images=300, faults=50),
    Round(range(18, 64), images=60, faults=60),
)
SEED: Final = 0
CUTS: Final = 8
"""Real cuts of one life."""
CUT_LIVES: Final = 16
"""Real cuts take these many lives: those written by hand."""
KNOWN: Final = Path(__file__).with_name("known.json")
"""By name of a defect, the round and the life that found it last. Nothing is lost with it."""


@dataclass(slots=True)
class Verdict:
    """What came of one method."""

    found: bool = False
    images: int = 0
    """Judged, the one that showed it included."""
    faults: int = 0
    lives: int = 0
    turn: int = 0
    """The round, for simulators."""
    life: str = ""
    how: str = ""
    seconds: float = 0.0
    """Of one core; of a clock on the wall for real cuts."""
    given_up: bool = False
    obstacle: str = ""


class _Found(Exception):
    """The defect has shown itself."""


class NotRunError(Exception):
    """This machine does not offer what the method needs."""


class _OutOfTimeError(Exception):
    """Nothing was found in the time that there is."""


@dataclass(frozen=True, slots=True)
class Search:
    """How to look: at most so long, by which clock, and at which chapter first."""

    until: float = float("inf")
    clock: Callable[[], float] = time.process_time
    first: tuple[int, str] | None = None

    def chapters(self) -> Iterator[tuple[int, str]]:
        """Go through the chapters for as long as there is time."""
        yield from () if self.first is None else (self.first,)
        for chapter in chapters():
            yield chapter  # At least one, however short the time is.
            self.check()

    def lives(self) -> Iterator[str]:
        """Go through the lives alone, each once."""
        yield from dict.fromkeys(life for _, life in self.chapters())

    def check(self) -> None:
        """Raise _OutOfTimeError if the time is up."""
        if self.clock() > self.until:
            raise _OutOfTimeError


def chapters() -> Iterator[tuple[int, str]]:
    """Go through the lives in order, each with the number of its round."""
    from quiver.testing.oracle import subject

    lives = subject(SEED).lives
    for number, turn in enumerate(ROUNDS):
        for place in turn.lives:
            yield number, lives[place]


def tell(model: Any, number: int, life: str, *, faults_max: int = EVERY) -> Chapter:
    """Judge one life under one model as much as its round says, or with fewer faults."""
    from quiver.testing.campaign import Campaign, Plan
    from quiver.testing.oracle import subject

    turn = ROUNDS[number]
    plan = Plan(
        seed=SEED,
        models=(model,),
        images_per_life=turn.images,
        nested_share=turn.nested,
        faults_per_life=min(turn.faults, faults_max),
        fault_kinds=turn.kinds,
        cuts_per_fault=turn.cuts,
    )
    return Campaign(subject(SEED), plan).tell(life)


def simulate(model: Any, search: Search, verdict: Verdict) -> None:
    """Run the campaign of the harness under one model."""
    for number, life in search.chapters():
        verdict.lives, verdict.turn, verdict.life = verdict.lives + 1, number, life
        chapter = tell(model, number, life)
        verdict.images += chapter.images
        verdict.faults += chapter.faults
        if chapter.failure is not None:
            raise _Found(str(chapter.failure))


def kill(search: Search, verdict: Verdict) -> None:
    """Open what is visible at each moment of a life, and of each recovery of that."""
    from quiver.testing.campaign import judge_disk
    from quiver.testing.memory_disk import MemoryDisk
    from quiver.testing.oracle import subject

    quiver = subject(SEED)
    seen: set[object] = set()
    for life in search.lives():
        verdict.lives, verdict.life = verdict.lives + 1, life
        waiting = deque([(MemoryDisk(), None)])
        quiver.live(life, waiting[0][0])
        while waiting:
            stage, promised = waiting.popleft()
            for tree, marks in _moments(stage.history):
                facts = promised or quiver.facts(marks)
                key = facts, tree.digest()
                if key not in seen:
                    seen.add(key)
                    verdict.images += 1
                    disk = MemoryDisk(tree.copy())
                    judge_disk(quiver, disk, life=life, facts=facts, torn=False)
                    if promised is None:
                        waiting.append((disk, facts))
            search.check()


def _moments(history: History) -> Iterator[tuple[Tree, list[Mark]]]:
    """Go through what is visible between the acts, with the marks so far."""
    from quiver.testing.acts import Mark

    tree, marks = history.base.copy(), []
    for op in history.ops:
        yield tree, marks
        if isinstance(op, Mark):
            marks.append(op)
        else:
            tree.apply(op)
    yield tree, marks


def real(fs: Any, search: Search, verdict: Verdict) -> None:
    """Cut the power of a real file system before acts of each life by lot; needs root."""
    from quiver.testing.oracle import subject
    from quiver.testing.real import Volume, cut_at_every_act, obstacle

    if (reason := obstacle(fs)) is not None:
        raise NotRunError(reason)
    quiver = subject(SEED)
    with Volume(fs) as volume:
        # By lot a life may give none, and a busy machine take all the time for that one.
        for life in islice(replace(search, until=float("inf")).lives(), CUT_LIVES):
            verdict.lives, verdict.life = verdict.lives + 1, life
            for left in cut_at_every_act(volume, quiver, life, budget=CUTS, seed=SEED):
                verdict.images += 1
                left.judge(quiver)
                search.check()
            if verdict.images:
                search.check()


REAL: Final = ("ext4 cut", "xfs cut")
METHODS: Final[dict[str, Callable[[Search, Verdict], None]]] = {
    "kill": kill,
    "ext4 cut": partial(real, "ext4"),
    "xfs cut": partial(real, "xfs"),
    "journaled": partial(simulate, "journaled"),
    "posix": partial(simulate, "posix"),
}


def try_method(method: str, search: Search) -> Verdict:
    """Look for a defect in the store of this process; what no store may raise is not caught."""
    from quiver.errors import QuiverError
    from quiver.testing.subject import Loss

    verdict = Verdict()
    start = search.clock()
    try:
        METHODS[method](search, verdict)
    except (_Found, Loss) as found:
        verdict.found, verdict.how = True, str(found)
    except QuiverError as error:
        verdict.found, verdict.how = True, f"the life itself fails: {error}"
    except _OutOfTimeError:
        verdict.given_up = True
    except NotRunError as reason:
        verdict.obstacle = str(reason)
    verdict.seconds = round(search.clock() - start, 2)
    return verdict


def _main() -> None:
    parser = argparse.ArgumentParser(description="look for one planted defect with one method")
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("defect", nargs="?", help="none: the store as it is")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="give up after these")
    parser.add_argument("--known", action="store_true", help="begin where it was found last")
    asked = parser.parse_args()
    if asked.defect:
        [defect] = [defect for defect in ALL if defect.name == asked.defect]
        plant(defect)
    known = json.loads(KNOWN.read_text()) if asked.known and KNOWN.exists() else {}
    turn, life = known.get(asked.defect, (0, ""))
    # A simulator keeps one core busy, and is not slower for what else the machine does.
    clock = time.perf_counter if asked.method in REAL else time.process_time
    search = Search(clock() + asked.seconds, clock, (turn, life) if life else None)
    warnings.simplefilter("ignore", ResourceWarning)  # Who is killed leaves bundles unresolved.
    sys.stdout.write(json.dumps(asdict(try_method(asked.method, search))) + "\n")


if __name__ == "__main__":
    _main()
