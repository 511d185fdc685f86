import random

import pytest

from bench.demo.kills import Kill, Life, plan, read_life, surprises

MONTHS = {9, 19, 29, 39, 49, 59, 69, 79, 89, 99}


def planned(seed=2013):
    return plan(random.Random(seed), 100, months=MONTHS, appends=5)


def test_a_plan_kills_in_all_acts_in_the_order_of_bundles():
    kills = planned()
    acts = [kill.act for kill in kills]
    assert (acts.count("append"), acts.count("finalize"), acts.count("opening")) == (5, 2, 1)
    assert [kill.bundle for kill in kills] == sorted(kill.bundle for kill in kills)
    assert acts[0] != "opening"


def test_a_plan_depends_on_its_seed_alone():
    assert planned() == planned()
    assert planned() != planned(seed=2014)


def test_kills_in_appends_are_spread_over_all_bundles():
    kills = [kill.bundle // 20 for kill in planned() if kill.act == "append"]
    assert kills == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "kill,word,bundle,strikes",
    [
        (Kill("append", 5), "append", 4, False),
        (Kill("append", 5), "append", 5, True),
        (Kill("append", 5), "append", 6, True),
        (Kill("append", 5), "durable", 5, False),
        (Kill("finalize", 5), "append", 5, False),
        (Kill("opening", 5), "opening", -1, True),
    ],
)
def test_a_kill_strikes_in_its_act_at_or_behind_its_bundle(kill, word, bundle, strikes):
    assert kill.strikes(word, bundle) is strikes


OPENED = 'opened {"next": 3, "replayed": 2, "torn": false, "damaged": 0}\n'


@pytest.mark.parametrize(
    "lines,act,bundle,acknowledged",
    [
        ([], "", -1, 3),
        (["opening\n"], "opening", -1, 3),
        (["opening\n", OPENED], "", -1, 3),
        (["opening\n", OPENED, "append 3\n"], "append", 3, 3),
        (["opening\n", OPENED, "append 3\n", "durable 3\n"], "", -1, 4),
        (["opening\n", OPENED, "append 3\n", "durable 3\n", "finalize 3\n"], "finalize", 3, 4),
        (["durable 3\n", "finalize 3\n", "finalized 3\n"], "", -1, 4),
    ],
)
def test_last_words_tell_in_which_act_a_writer_died(lines, act, bundle, acknowledged):
    life = read_life(lines, acknowledged=3)
    assert (life.act, life.bundle, life.acknowledged) == (act, bundle, acknowledged)


def test_what_recovery_found_is_read_from_the_line_that_ends_it():
    life = read_life(["opening\n", OPENED], acknowledged=0)
    assert life.found == {"next": 3, "replayed": 2, "torn": False, "damaged": 0}


def start(there, *, acknowledged, act="", damaged=0):
    found = {"next": there, "replayed": 0, "torn": False, "damaged": damaged}
    return Life(found=found, acknowledged=acknowledged, act=act)


@pytest.mark.parametrize("there", [5, 6])
def test_a_bundle_that_was_being_appended_may_be_there_or_not(there):
    assert surprises([start(0, acknowledged=5, act="append"), start(there, acknowledged=9)]) == []


def test_a_kill_during_recovery_leaves_what_was_there_before():
    dead = Life(acknowledged=5, act="opening")
    lives = [start(0, acknowledged=5, act="append"), dead, start(6, acknowledged=9)]
    assert surprises(lives) == []


@pytest.mark.parametrize(
    "lives",
    [
        [start(1, acknowledged=5)],
        [start(0, acknowledged=5, act="append"), start(4, acknowledged=9)],
        [start(0, acknowledged=5, act="append"), start(7, acknowledged=9)],
        [start(0, acknowledged=5, act="finalize"), start(6, acknowledged=9)],
        [start(0, acknowledged=5), start(5, acknowledged=9, damaged=1)],
    ],
    ids=["not empty", "lost", "two too many", "one too many", "damage"],
)
def test_what_recovery_must_not_find_is_told(lives):
    assert len(surprises(lives)) == 1
