"""All who use a queue, and its server, are killed at random; each record is in the sink once.

``QUIVER_SHIP_KILLS`` says how often, and has planted defects looked for: ``make crash`` sets it,
and ``make ship-kills`` kills 1,000 times. One in ten of ``QUIVER_DEFECTS`` is tried.
"""

from __future__ import annotations

import os
import random
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from bench.ship_kills.rounds import VICTIMS, Play, plan

KILLS = int(os.environ.get("QUIVER_SHIP_KILLS", "0"))
DEFECTS = os.environ.get("QUIVER_DEFECTS", "0")
PLANTED = Path(__file__).parent / "planted"
KILLS_MAX = 60
"""So many until a planted defect has to be found."""
WHO: dict[str, tuple[str, dict[str, float]]] = {
    "a consumer acks before it commits": ("consumer", {"away": 0.0, "zombies": 0.0}),
    "rows and sequence have a transaction each": ("consumer", {"away": 0.0, "zombies": 0.0}),
    "a consumer writes behind the next one": ("consumer", {"away": 0.0, "zombies": 1.0}),
    "a shipper acks before it appends": ("shipper", {"away": 0.0}),
    "a sweeper deletes what is named": ("consumer", {"away": 0.5, "zombies": 0.0}),
    "an append drops the marks that were there": ("shipper", {"away": 0.5, "aims": 1.0}),
    "a dequeue drops the marks": ("shipper", {"away": 0.5, "aims": 1.0}),
}
"""Whose kills bring a defect to light, how often he has to be away for long, or asleep; all others
are found whoever is killed."""

sys.path.insert(0, str(PLANTED))
planting, ship_defects = map(import_module, ("planting", "ship_defects"))
sys.path.remove(str(PLANTED))


def some_defects() -> list[Any]:
    every = list(ship_defects.DEFECTS)
    count = len(every) if DEFECTS == "all" else min(-(-int(DEFECTS) // 10), len(every))
    return [every[place * len(every) // count] for place in range(count)]


@pytest.mark.slow
@pytest.mark.skipif(not KILLS, reason="make crash does it: it sets QUIVER_SHIP_KILLS")
@pytest.mark.timeout(600 + 10 * KILLS)
def test_whoever_is_killed_each_record_is_in_the_sink_once(server, tmp_path) -> None:
    rng = random.Random(8)
    play = Play(str(tmp_path / "play"), server, rng, spoilt=True)
    outcome = play.run(plan(KILLS, rng))
    assert outcome.problems == []
    assert outcome.records >= outcome.acknowledged > 0
    assert outcome.bundles > 0
    assert outcome.swept > 0  # Both senders had a batch in, and one at most is kept.
    assert play.kills.total() == KILLS


@pytest.mark.slow
@pytest.mark.skipif(not KILLS, reason="make crash does it: it sets QUIVER_SHIP_KILLS")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("defect", some_defects() if KILLS else [], ids=lambda each: each.name)
def test_a_planted_defect_is_found(server, tmp_path, defect) -> None:
    rng = random.Random(1)
    nursery = [
        *(sys.executable, str(PLANTED / "nursery.py"), "ship_defects", "ship_kills", defect.name)
    ]
    who, how = WHO.get(defect.name, ("", {}))
    play = Play(str(tmp_path / "play"), server, rng, spoilt=True, nursery=nursery, **how)
    victims = [who] * KILLS_MAX if who else plan(KILLS_MAX, rng)
    outcome = play.run(victims, until_wrong=True)
    assert outcome.problems
    told = " ".join(outcome.problems)
    assert "Traceback" not in told, "the defect itself is no sound Python"
    assert "ended by itself" not in told


def test_each_kind_is_killed_as_often_as_the_others() -> None:
    victims = plan(1000, random.Random(1))
    assert len(victims) == 1000
    assert {victims.count(kind) for kind in VICTIMS} == {166, 167}


@pytest.mark.parametrize("defect", ship_defects.DEFECTS, ids=lambda each: each.name)
def test_each_defect_still_has_its_line(defect: Any) -> None:
    text = planting.mutated(defect)
    assert text != planting.source_of(defect.module).read_text()
    compile(text, defect.module, "exec", dont_inherit=True)


def test_each_defect_has_its_own_name() -> None:
    names = {defect.name for defect in ship_defects.DEFECTS}
    assert len(names) == len(ship_defects.DEFECTS)
    assert set(WHO) <= names
