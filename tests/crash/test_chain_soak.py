"""Nodes, loaders, links, disks and metadata of a chain are struck at random, a few times.

``QUIVER_CHAIN_FAULTS`` says how often, and has planted defects looked for: ``make crash`` sets it,
and ``make chain-soak`` strikes 500 times.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from bench.chain_soak.__main__ import means_here
from bench.chain_soak.faults import FAULTS, plan
from bench.chain_soak.judge import judge_values
from bench.chain_soak.network import Namespaces, namespaces_missing
from bench.chain_soak.pauses import Acks, Stills, longest
from bench.chain_soak.play import Means, Outcome, Play
from bench.chain_soak.settings import LIFE

STRIKES = int(os.environ.get("QUIVER_CHAIN_FAULTS", "0"))
PLANTED = Path(__file__).parent / "planted"
SECOND = 10**9
FOUND = {
    "a node acks before the one behind has it": "are missing",
    "a loader sends again what the sealed block has": "before the end of the one before it",
}
"""What is said of it; the second one is refused by the record before a reader could see it."""

sys.path.insert(0, str(PLANTED))
planting, chain_defects = map(import_module, ("planting", "chain_defects"))
sys.path.remove(str(PLANTED))


def loudly(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def played(folder: Path, means: Means, *, strikes: int, aim: int = -1, **how: Any) -> Outcome:
    with Play(folder / "play", means, random.Random(4), tell=loudly) as play:
        play.aim = aim
        return play.run(strikes, **how)


@pytest.mark.slow
@pytest.mark.skipif(not STRIKES, reason="make crash does it: it sets QUIVER_CHAIN_FAULTS")
@pytest.mark.timeout(400 + 20 * STRIKES)
def test_whatever_is_struck_each_bundle_is_there_once_and_in_order(tmp_path) -> None:
    means, said = means_here(tmp_path)
    loudly("\n".join(said))
    outcome = played(tmp_path, means, strikes=STRIKES)
    assert outcome.problems == []
    assert outcome.faults.total() >= STRIKES
    assert outcome.sent >= outcome.committed >= outcome.acked > 0
    assert outcome.read == 2 * outcome.committed


@pytest.mark.slow
@pytest.mark.skipif(not STRIKES, reason="make crash does it: it sets QUIVER_CHAIN_FAULTS")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("defect", chain_defects.DEFECTS, ids=lambda each: each.name)
def test_a_planted_defect_is_found(tmp_path, defect) -> None:
    words = (str(PLANTED / "started.py"), "chain_defects", defect.name)
    if defect.module == chain_defects.LOADER:
        means = Means(False, False, False, planted_loader=(*words, "bench.chain_soak.writer"))
    else:
        means = Means(False, False, False, planted=(*words, "quiver"))
    outcome = played(tmp_path, means, strikes=4, aim=1, kinds=["link down"], settles=5.0)
    told = " ".join(outcome.problems)
    assert FOUND[defect.name] in told
    assert "Traceback" not in told, "the defect itself is no sound Python"


@pytest.mark.parametrize("defect", chain_defects.DEFECTS, ids=lambda each: each.name)
def test_each_defect_still_has_its_line(defect: Any) -> None:
    compile(planting.mutated(defect), defect.module, "exec", dont_inherit=True)


@pytest.mark.parametrize(
    ("committed", "acked", "found"),
    [
        ([1, 2, 2], {0: 2}, "twice"),
        ([0, 2, 1], {0: 2}, "out of order"),
        ([0, 1, 3], {0: 3}, "1 are missing"),
        ([0, 1], {0: 2}, "acknowledged up to 2, there up to 1"),
        ([], {0: 0}, "acknowledged up to 0"),
        ([0, 1, 2, 3, 4, 5], {0: 4}, "5 was never sent"),
        ([0, 1, LIFE, 2], {0: 2}, "out of order"),
        ([0, 1, LIFE + 1], {0: 1}, "missing"),
    ],
)
def test_the_judge_sees(committed, acked, found) -> None:
    told = " ".join(judge_values(committed, acked, {0: 4, 1: LIFE + 4}))
    assert found in told


def test_what_is_right_is_right() -> None:
    sent = {0: 4, 1: LIFE + 4}
    assert judge_values([0, 1, 2, LIFE, LIFE + 1], {0: 1, 1: LIFE + 1}, sent) == []


def test_a_pause_is_the_longest_that_reaches_into_a_fault() -> None:
    times = [each * SECOND for each in (0, 1, 2, 5, 6, 13)]
    assert longest(times, 2 * SECOND + 1, 4 * SECOND) == 3.0
    assert longest(times, 0, 1 * SECOND) == 1.0
    assert longest(times, 5 * SECOND, 7 * SECOND) == 7.0
    assert longest([], 0, SECOND) == 0.0


def test_what_is_waited_for_while_the_machine_stands_still_is_left_out() -> None:
    stills = Stills()
    stills.close()
    stills._spans = [(5 * SECOND, 6 * SECOND)]
    assert stills.reach_into(4 * SECOND, 4 * SECOND)
    assert stills.reach_into(5 * SECOND, 9 * SECOND)
    assert not stills.reach_into(7 * SECOND, 9 * SECOND)
    assert not stills.reach_into(SECOND, 3 * SECOND)


def test_acks_are_read_as_they_come(tmp_path) -> None:
    place = tmp_path / "acks"
    acks = Acks(str(place))
    acks.look()
    place.write_text("open 1 5\nsent 10000000\nsent 10000001\nacked 100000")
    acks.look()
    assert (acks.sent, acks.acked) == ({1: LIFE + 1}, {})
    with place.open("a") as file:
        file.write("00 77\nfenced 1 80\n")
    acks.look()
    assert (acks.acked, acks.times, acks.lost) == ({1: LIFE}, [77], ["life 1 fenced: "])


def test_each_kind_has_its_share() -> None:
    kinds = list(FAULTS)
    found = plan(kinds, 500, random.Random(1))
    assert len(found) == 500
    assert set(found) == set(kinds)
    assert min(found.count(kind) for kind in kinds) >= 25


@pytest.mark.skipif(bool(namespaces_missing()), reason=namespaces_missing() or "there are some")
def test_in_namespaces_one_way_is_cut_alone_and_nothing_stays_behind() -> None:
    spaces = Namespaces(["a", "b"])
    try:
        assert said(spaces, "a", "b")
        spaces.cut("a", "b")
        assert not said(spaces, "a", "b")
        spaces.mend("a", "b")
        assert said(spaces, "a", "b")
        spaces.down("b")
        assert not said(spaces, "a", "b")
    finally:
        spaces.close()
    listed = subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
    assert f"{spaces.command('a')[-1]}" not in listed


def said(spaces: Namespaces, one: str, other: str) -> bool:
    """Whether a datagram of one node comes to another one."""
    host, port = spaces.listen(other)[1].rsplit(":", 1)
    hears = (
        "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        f"s.bind(('{host}', {port})); s.settimeout(1.0); print('ready', flush=True)\n"
        "try: s.recv(9)\n"
        "except TimeoutError: sys.exit(1)"
    )
    says = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        f"s.sendto(b'x', ('{host}', {port}))"
    )
    with subprocess.Popen(
        [*spaces.command(other), sys.executable, "-c", hears], stdout=subprocess.PIPE
    ) as hearing:
        assert hearing.stdout is not None
        hearing.stdout.readline()
        subprocess.run([*spaces.command(one), sys.executable, "-c", says], check=False)
        return hearing.wait(30) == 0
