"""Subscribers and nodes as processes: who is lost for good costs no ack, and no bundle."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from node_processes import PATIENCE, Load, Processes, small

from quiver.chain import SubscriberRules
from quiver.chain.copies.entries import ENTRY_BYTES_MAX
from quiver.chain.copies.format import LOG_BEGIN
from quiver.errors import DamageError, SubscriberError
from quiver.wal.format import frame_at

pytestmark = pytest.mark.timeout(240)
CHILD = Path(__file__).parents[1] / "kit" / "subscriber_child.py"
COUNT = 60


class Child:
    """A subscriber in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.acked: list[int] = []
        assert self._line() == "begun"

    def _line(self) -> str:
        line = self.process.stdout.readline()
        assert line, "it ended by itself"
        return line.strip()

    def take(self, count: int) -> None:
        """Return once it has acked so many more."""
        for _ in range(count):
            got, number = self._line().split()
            assert got == "got"
            assert self._line() == f"acked {number}"
            self.acked.append(int(number))

    def kill(self) -> None:
        self.process.kill()
        rest = self.process.stdout.read().split()
        self.acked += [
            int(n) for word, n in zip(rest[::2], rest[1::2], strict=False) if word == "acked"
        ]


def end_of_entries(log: memoryview) -> int:
    end = LOG_BEGIN
    with suppress(DamageError):
        while True:
            end = frame_at(log, end, ENTRY_BYTES_MAX).end
    return end


@contextmanager
def subscribed(folder: Path, count: int = COUNT):
    command = [sys.executable, str(CHILD), str(folder / "meta"), "s", "core_0", str(count)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        try:
            yield Child(process)
        finally:
            process.kill()


def rest_of(cluster) -> list[int]:
    """Take what comes as the same subscriber, until it has all."""
    found = []
    with cluster.subscribe("s", "core_0", rules=SubscriberRules(patience=PATIENCE)) as subscription:
        while not found or found[-1] < COUNT - 1:
            with subscription.next(PATIENCE) as handle:
                found.append(handle["events"]["n"][0].as_py())
        assert subscription.next(0) is None
    return found


def check_goes_on(acked: list[int], found: list[int]) -> None:
    """All that was acked stays so; at most the one that was under way was acked unseen."""
    assert acked == list(range(len(acked)))
    assert found == list(range(found[0], COUNT))
    assert found[0] in (len(acked), len(acked) + 1)


def loaded(cluster) -> None:
    load = Load(cluster.loader("core_0", ["events"], rules=small(2)))
    load.send(COUNT)
    load.loader.close(timeout=PATIENCE)


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1], ids=["head", "tail"])
def test_r44_a_node_and_the_subscriber_are_lost_for_good_and_it_goes_on(tmp_path, place):
    with Processes(tmp_path, "a", "b", "c") as nodes, nodes.connect() as cluster:
        loaded(cluster)
        with subscribed(tmp_path) as child:
            child.take(15)
            lost = nodes.record(cluster, "acks.s").open.locations[place]
            nodes.nodes[lost].kill()
            shutil.rmtree(tmp_path / lost)
            child.take(10)  # Its acks go to other nodes from now on.
            child.kill()  # With all that its machine had: there is nothing on its disk.
        check_goes_on(child.acked, rest_of(cluster))


@pytest.mark.slow
def test_r44_a_cut_in_the_midst_of_an_ack_costs_that_one_alone(tmp_path):
    with Processes(tmp_path, "a", "b") as nodes, nodes.connect() as cluster:
        loaded(cluster)
        with subscribed(tmp_path, 15) as child:
            child.take(15)
            opened = nodes.record(cluster, "acks.s").open
            child.kill()
        for name in opened.locations:
            nodes.nodes[name].kill()
            log = tmp_path / name / "acks.s" / f"{opened.number:016d}.log"
            data = log.read_bytes()
            with log.open("r+b") as file:  # An entry of which a part came to the disk.
                file.seek(end_of_entries(memoryview(data)))
                file.write(data[LOG_BEGIN : LOG_BEGIN + 100])
        for name in opened.locations:
            nodes.restart(name)
        check_goes_on(child.acked, rest_of(cluster))


@pytest.mark.slow
def test_r44_a_process_that_stood_still_is_fenced_by_the_next(tmp_path):
    with Processes(tmp_path, "a", "b") as nodes, nodes.connect() as cluster:
        loaded(cluster)
        subscription = cluster.subscribe("s", "core_0")
        for _ in range(5):
            with subscription.next(PATIENCE) as handle:
                number = handle["events"]["n"][0].as_py()
        held = subscription.next(PATIENCE)
        with subscribed(tmp_path) as child:
            child.take(10)
            with pytest.raises(SubscriberError, match="another process goes on"):
                held.ack()
            held.defer()
            child.kill()
        assert (number, child.acked[0]) == (4, 5)
        found = rest_of(cluster)
        check_goes_on([*range(5), *child.acked], found)
        subscription.abandon()
