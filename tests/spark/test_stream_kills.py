"""Writers, driver and Python processes of a live query are killed; the sink has each row once.

Each JVM that has to be started takes its time, so this is done if QUIVER_SPARK_KILLS says how
often: ``make crash`` does, and ``make spark-kills`` kills 200 times.
"""

from __future__ import annotations

import os
import random

import pytest

from bench.demo_stream.rounds import VICTIMS, Play, plan

KILLS = int(os.environ.get("QUIVER_SPARK_KILLS", "0"))

pytestmark = pytest.mark.spark


@pytest.mark.slow
@pytest.mark.skipif(not KILLS, reason="make crash does it: it sets QUIVER_SPARK_KILLS")
@pytest.mark.timeout(max(900, 60 * KILLS))
def test_whoever_is_killed_each_row_arrives_once_and_none_is_deleted_too_early(tmp_path) -> None:
    rng = random.Random(8)
    victims = plan(KILLS, rng) if KILLS > 2 else ["writer", "driver"][:KILLS]
    play = Play(str(tmp_path / "play"), rng)
    outcome = play.run(victims)
    assert outcome.problems == []
    assert (outcome.lost, outcome.twice, outcome.differ) == (0, 0, 0)
    assert outcome.rows_in == outcome.rows_out > 0
    assert sum(play.kills.values()) == KILLS


def test_each_kind_is_killed_as_often_as_the_others() -> None:
    victims = plan(200, random.Random(1))
    assert len(victims) == 200
    assert {victims.count(kind) for kind in VICTIMS} == {66, 67}
