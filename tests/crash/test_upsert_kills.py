"""Who writes a collection, who reads and who follows it are killed at random: all see what was.

``QUIVER_UPSERT_KILLS`` says how often, in a server and as often in a folder, and has planted
defects looked for: ``make crash`` sets it, and ``make upsert-kills`` kills 500 times. One in twenty
of ``QUIVER_DEFECTS`` is tried.
"""

from __future__ import annotations

import os
import random
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from bench.upsert_kills.rounds import VICTIMS, Play, plan

KILLS = int(os.environ.get("QUIVER_UPSERT_KILLS", "0"))
DEFECTS = os.environ.get("QUIVER_DEFECTS", "0")
PLANTED = Path(__file__).parent / "planted"
KILLS_MAX = 60
"""So many until a planted defect has to be found."""
ASLEEP: dict[str, Any] = {"zombies": 1.0, "away": 0.0}
WHO: dict[str, tuple[str, dict[str, Any]]] = {
    "a writer that was fenced goes on": ("writer", ASLEEP),
    "the manifest is put whatever is there by now": ("writer", ASLEEP),
    "a sweep deletes what is named": ("", {"grace": 1.0}),
}
"""Whose kills bring a defect to light, and how: all others are found whoever is killed."""
NEEDS_SERVER = {"an append whose answer was lost is made again as the next epoch"}

sys.path.insert(0, str(PLANTED))
planting, upsert_defects = map(import_module, ("planting", "upsert_defects"))
sys.path.remove(str(PLANTED))


def some_defects() -> list[Any]:
    every = [defect for defect in upsert_defects.DEFECTS if not defect.harmless]
    count = len(every) if DEFECTS == "all" else min(-(-int(DEFECTS) // 20), len(every))
    return [every[place * len(every) // count] for place in range(count)]


@pytest.mark.slow
@pytest.mark.skipif(not KILLS, reason="make crash does it: it sets QUIVER_UPSERT_KILLS")
@pytest.mark.timeout(600 + 10 * KILLS)
@pytest.mark.parametrize("place", ["server", "folder"])
def test_whoever_is_killed_what_is_read_is_what_was_appended(place, request, tmp_path) -> None:
    rng = random.Random(8)
    server = request.getfixturevalue("server") if place == "server" else None
    play = Play(str(tmp_path / "play"), server, rng, spoilt=server is not None, grace=2.0)
    outcome = play.run(plan(KILLS, rng, has_server=server is not None))
    assert outcome.problems == []
    assert outcome.epochs > 0
    assert min(outcome.reads, outcome.steps, outcome.folded, outcome.merged) > 0
    assert play.kills.total() == KILLS


@pytest.mark.slow
@pytest.mark.skipif(not KILLS, reason="make crash does it: it sets QUIVER_UPSERT_KILLS")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("defect", some_defects() if KILLS else [], ids=lambda each: each.name)
def test_a_planted_defect_is_found(defect, request, tmp_path) -> None:
    rng = random.Random(1)
    is_remote = defect.name in NEEDS_SERVER
    nursery = [
        *(sys.executable, str(PLANTED / "nursery.py")),
        *("upsert_defects", "upsert_kills", defect.name),
    ]
    who, how = WHO.get(defect.name, ("", {}))
    server = request.getfixturevalue("server") if is_remote else None
    play = Play(str(tmp_path / "play"), server, rng, spoilt=is_remote, nursery=nursery, **how)
    victims = [who] * KILLS_MAX if who else plan(KILLS_MAX, rng, has_server=is_remote)
    outcome = play.run(victims, until_wrong=True)
    assert outcome.problems
    told = " ".join(outcome.problems)
    assert "Traceback" not in told, "the defect itself is no sound Python"
    assert "ended by itself" not in told


def test_the_writer_is_killed_twice_as_often_as_anybody_else() -> None:
    victims = plan(1000, random.Random(1), has_server=True)
    assert len(victims) == 1000
    assert {name: victims.count(name) for name in VICTIMS} == {
        "writer": 400,
        "reader": 200,
        "follower": 200,
        "server": 200,
    }
    assert "server" not in plan(100, random.Random(1), has_server=False)


@pytest.mark.parametrize("defect", upsert_defects.DEFECTS, ids=lambda each: each.name)
def test_each_defect_still_has_its_line(defect: Any) -> None:
    text = planting.mutated(defect)
    assert text != planting.source_of(defect.module).read_text()
    compile(text, defect.module, "exec", dont_inherit=True)


def test_each_defect_has_its_own_name() -> None:
    names = {defect.name for defect in upsert_defects.DEFECTS}
    assert len(names) == len(upsert_defects.DEFECTS)
    assert set(WHO) | NEEDS_SERVER <= names
