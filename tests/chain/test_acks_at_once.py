"""Acks that a tail writes in the thread that synced: whose they are, and when it has to be another.

That thread may wait for nobody, so what is written has room: its loader read all before.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from cluster_kit import row, running
from copies_kit import BLOCK, append
from pyarrow import flight

from quiver.chain.loading import LoaderRules
from quiver.chain.loading.driver import Driver
from quiver.chain.loading.outbox import Waiting
from quiver.chain.peers import Ack, arrows_own
from quiver.chain.wire.messages import TailAcks
from quiver.chain.wire.telling import Telling
from quiver.errors import InputError, RemoteError

PATIENCE = 60


# a copy --------------------------------------------------------------------------------------


def unsynced(shelf, count):
    """Give a copy with entries, of which the first is synced."""
    append(shelf, 0)
    append(shelf, *range(1, count), sync=False)
    return shelf[BLOCK]


def shown(copy, *, at_once):
    """Sync, and show it: no other node is before this one."""
    extent = copy.sync()
    copy.readers.show(extent, at_once=at_once)
    return extent


def test_who_listens_is_told_by_the_thread_that_synced(shelf):
    copy, told = unsynced(shelf, 2), []
    with copy.readers.listening(lambda ack: not told.append((ack, threading.get_ident()))):
        end = shown(copy, at_once=True)
        assert told == [(Ack(end.length, 1), threading.get_ident())]
        append(shelf, 2)  # Nobody knows whether all before it was read.
        assert len(told) == 1
    shown(copy, at_once=True)
    assert len(told) == 1


@pytest.mark.parametrize("why", ["it is not taken", "another one listens", "it is not asked for"])
def test_what_is_not_told_so_wakes_who_waits_beside_it(shelf, why):
    copy, told = unsynced(shelf, 2), []

    def tell(ack):
        told.append(ack)
        return why != "it is not taken"

    first = copy.visible(-1)[0].length
    others = [lambda _: True] * (why == "another one listens")
    with copy.readers.listening(tell), ThreadPoolExecutor(1) as pool:
        copy.readers._listeners += tuple(others)
        seen = pool.submit(copy.visible, first, wait_seconds=600.0, listens=True)
        while not copy.readers._changed._waiters and not seen.done():
            pass
        shown(copy, at_once=why != "it is not asked for")
        assert seen.result(PATIENCE)[0].last_seq == 1
    assert len(told) == (why == "it is not taken")


def test_a_reader_who_waits_is_woken_as_ever(shelf):
    copy = unsynced(shelf, 2)
    first = copy.visible(-1)[0].length
    with copy.readers.listening(lambda _: True), ThreadPoolExecutor(1) as pool:
        seen = pool.submit(copy.visible, first, wait_seconds=600.0)
        while not copy.readers._changed._waiters and not seen.done():
            pass
        shown(copy, at_once=True)
        assert seen.result(PATIENCE)[0].last_seq == 1


def test_one_who_goes_just_as_he_would_be_told_breaks_nothing(shelf):
    """Whoever synced has counted those who listen without the lock, and tells the only one."""
    copy, told = unsynced(shelf, 2), []

    def tell(ack):
        told.append(ack)
        return False

    with copy.readers.listening(tell):
        counted = copy.readers._listeners
    assert not copy.readers._listeners
    assert len(counted) == 1
    copy.readers._listeners = counted
    assert shown(copy, at_once=True).last_seq == 1
    assert len(told) == 1


# the call of Flight ----------------------------------------------------------------------------


class Writer:
    """Of Flight; notes what it wrote and which thread did."""

    def __init__(self):
        self.written, self.fault = [], None

    def begin(self, _):
        """Nothing is sent."""

    def write_metadata(self, _):
        if self.fault is not None:
            raise self.fault
        self.written.append(threading.get_ident())


class Peer:
    """Gives acks, and who may tell them."""

    def __init__(self):
        self.tell, self.is_closed = None, False

    def acks(self, _block, _epoch, tell):
        self.tell = tell
        try:
            for length in range(3):
                yield Ack(length, length)
        finally:
            self.is_closed = True


@pytest.fixture
def peer():
    return Peer()


def test_nothing_is_written_once_the_call_has_returned(peer):
    writer = Writer()
    said = []

    def check():
        said.append(peer.tell(Ack(9, 9)))

    Telling(TailAcks(BLOCK, 5), writer).run(peer, check)
    assert (said, len(writer.written)) == ([True] * 3, 6)
    assert not peer.tell(Ack(9, 9))
    assert (len(writer.written), peer.is_closed) == (6, True)


def test_nobody_waits_for_a_write_of_another_thread(peer):
    writer, said = Writer(), []
    writer.write_metadata = lambda _: said.append(peer.tell(Ack(9, 9)))
    Telling(TailAcks(BLOCK, 5), writer).run(peer, lambda: None)
    assert said == [False] * 3


def test_a_write_that_fails_is_found_out_by_the_other_thread(peer):
    writer, said = Writer(), []

    def check():
        writer.fault = flight.FlightCancelledError("gone", "nothing more")
        said.append(peer.tell(Ack(9, 9)))

    with pytest.raises(flight.FlightCancelledError):
        Telling(TailAcks(BLOCK, 5), writer).run(peer, check)
    assert (said, writer.written, peer.is_closed) == ([False], [], True)


def test_a_node_that_ends_lets_go_of_who_listened(peer):
    def check():
        raise RemoteError("it is closing")

    with pytest.raises(RemoteError):
        Telling(TailAcks(BLOCK, 5), Writer()).run(peer, check)
    assert peer.is_closed
    assert not peer.tell(Ack(9, 9))


# a loader --------------------------------------------------------------------------------------


def test_a_loader_says_that_it_heard_of_all_before_only_if_the_tail_told_it(loader):
    sent, flow, turn = [], loader._driver._flow, loader._driver._flow.turn
    waiting = Waiting(0, 0, arrows_own(b"entry"))
    for told, length, has_heard in (
        ((0, 0), 0, False),  # Of no block yet.
        ((turn, 0), 0, True),
        ((turn, 0), 5, False),
        ((turn - 1, 5), 5, False),
        ((turn, 5), 5, True),
        ((turn, 10), 5, False),
    ):
        flow.told, flow.length = told, length
        flow.send([waiting], Spy(sent), flow.route)
        assert sent[-1].has_heard == has_heard, told


class Spy:
    """A stream that notes what goes down it."""

    def __init__(self, sent):
        self.sent = sent

    def send(self, entries):
        self.sent.append(entries)


def test_what_comes_back_along_the_chain_is_no_word_of_the_tail(loader):
    driver = loader._driver
    driver._flow.told = (0, 0)
    assert driver.hear(driver._flow.turn, Ack(0, -1))
    assert driver._flow.told == (0, 0)
    assert driver.hear(driver._flow.turn, Ack(0, -1), by_tail=True)
    assert driver._flow.told == (driver._flow.turn, 0)


# all of it over a wire ---------------------------------------------------------------------------


@pytest.fixture
def told(monkeypatch):
    """What was told by the thread that synced, and whether it was taken."""
    found = []
    tell = Telling.tell

    def noted(self, ack):
        found.append((threading.current_thread().name, tell(self, ack)))
        return found[-1][1]

    monkeypatch.setattr(Telling, "tell", noted)
    return found


def test_one_entry_behind_the_other_is_told_so_over_a_wire(tmp_path, told):
    with running(tmp_path, "a", "b", "c") as nodes, nodes.cluster() as cluster:
        with cluster.loader("p", ["events"], rules=LoaderRules(rf=3)) as loader:
            for number in range(20):
                loader.send(row(number)).wait(PATIENCE)
        with cluster.cursor(["p"]) as cursor:
            assert sum(1 for _ in cursor) == 20
    assert len(told) >= 15  # The first ones may be sent before the tail is listened to.
    assert sum(is_taken for _, is_taken in told) >= len(told) - 3


def test_a_loader_that_hears_nothing_of_the_tail_is_told_along_the_chain(
    tmp_path, told, monkeypatch
):
    hear = Driver.hear

    def deaf(self, turn, ack, *, by_tail=False):
        return by_tail or hear(self, turn, ack)

    monkeypatch.setattr(Driver, "hear", deaf)
    with (
        running(tmp_path, "a", "b") as nodes,
        nodes.cluster() as cluster,
        cluster.loader("p", ["events"], rules=LoaderRules(rf=2)) as loader,
    ):
        for number in range(20):
            loader.send(row(number)).wait(PATIENCE)
    assert not told


def test_where_nothing_is_read_on_the_way_of_a_block_it_is_refused(tmp_path):
    with running(tmp_path, "a") as nodes:
        client = flight.connect(f"grpc+tcp://{nodes.served['a'].address}")
        for command in (b"", b"x" * 100):
            writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(command))
            with pytest.raises(flight.FlightServerError, match="quiver/1"):
                reader.read_chunk()
            with pytest.raises(flight.FlightError):
                writer.close()
        client.close()


def test_a_node_that_is_not_the_last_one_has_nobody_listen(tmp_path):
    with (
        running(tmp_path, "a", "b") as nodes,
        nodes.cluster() as cluster,
        cluster.loader("p", ["events"], rules=LoaderRules(rf=2)) as loader,
    ):
        loader.send(row(0)).wait(PATIENCE)
        node = nodes.served[loader.record.open.locations[0]].node
        (block,) = [each.name for each in node.holdings()]
        with pytest.raises(InputError, match="its tail is"):
            next(node.acks(block, loader.record.epoch, lambda _: True))
        assert not node._copies[block].readers._listeners
