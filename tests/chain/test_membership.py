"""Nodes say that they are there, and who falls silent is held for gone."""

from __future__ import annotations

import json

import pytest
from memory_peer import MemoryPeer

from quiver.chain.membership import GONE_NS, Members, Registration, list_partitions
from quiver.chain.membership.member import decode_member, encode_member, key_of, name_in
from quiver.chain.metadata import BucketMetadata
from quiver.chain.peers import NodeState
from quiver.chain.placing import Lease, Node
from quiver.chain.record import Partition
from quiver.chain.wire import Server
from quiver.errors import (
    CapacityError,
    DamagedEntry,
    InputError,
    LockedError,
    MissingError,
    RemoteError,
    StorageError,
)
from quiver.ship.objects import FolderBucket, MemoryBucket, UnclearError
from quiver.testing import MemoryDisk
from quiver.testing.manual_clock import ManualClock


class Machine:
    """Metadata, a clock, and nodes of one."""

    def __init__(self) -> None:
        self.metadata = BucketMetadata(MemoryBucket())
        self.clock = ManualClock()
        self.members = Members(self.metadata, clock=self.clock)

    def node(self, name: str, *, address: str = "127.0.0.1:1", host: str = "") -> Registration:
        made = Registration(
            self.metadata,
            name,
            address=address,
            host=host,
            room=lambda: (30, 100),
            clock=self.clock,
        )
        made.state = NodeState.SERVING
        return made


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_node_that_beats_is_there_and_gets_blocks(machine):
    node = machine.node("a", host="h1")
    assert [node.beat().counter for _ in range(3)] == [1, 2, 3]
    (member,) = machine.members.look()
    assert (member.name, member.address, member.counter) == ("a", "127.0.0.1:1", 3)
    assert machine.members.nodes() == [Node("a", 30, 100, "h1")]
    assert machine.members.gone_since() == {}


def test_whose_counter_stands_still_for_long_is_gone_until_it_goes_on(machine):
    node = machine.node("a")
    node.beat()
    machine.members.look()
    since = machine.clock.monotonic_ns()
    machine.clock.step((GONE_NS - 1) / 1e9)
    machine.members.look()
    assert machine.members.nodes()
    machine.clock.step("1s")
    machine.members.look()
    gone = machine.members.gone_since()["a"]
    assert gone - since >= GONE_NS
    machine.clock.step("1s")
    machine.members.look()
    assert machine.members.gone_since() == {"a": gone}
    assert machine.members.is_gone("a")
    assert not machine.members.nodes()
    node.beat()
    machine.members.look()
    assert machine.members.nodes()
    assert machine.members.gone_since() == {}


@pytest.mark.parametrize(
    "fault",
    [RemoteError("the metadata are away", retryable=True), StorageError("stale file handle")],
    ids=["no answer", "no folder"],
)
def test_nobody_is_gone_because_the_metadata_were(machine, monkeypatch, fault):
    for name in "ab":
        machine.node(name).beat()
    machine.members.look()
    machine.clock.step("3s")  # One of them was silent before.
    machine.node("a").beat()
    machine.members.look()

    def away(*_):
        raise fault

    with monkeypatch.context() as patch:
        patch.setattr(machine.metadata, "keys", away)
        for _ in range(20):
            machine.clock.step("1s")
            with pytest.raises(type(fault)):
                machine.members.look()
            assert len(machine.members.nodes()) == 2
            assert not machine.members.is_gone("a")
    machine.members.look()
    assert len(machine.members.nodes()) == 2
    assert machine.members.gone_since() == {}
    machine.node("a").beat()
    machine.clock.step("2s")
    machine.members.look()
    assert list(machine.members.gone_since()) == ["b"]


def test_nobody_is_gone_because_an_answer_took_long(machine, monkeypatch):
    machine.node("a").beat()
    machine.members.look()
    real = machine.metadata.keys

    def slow(prefix):
        machine.clock.step("9s")
        assert len(machine.members.nodes()) == 1
        return real(prefix)

    monkeypatch.setattr(machine.metadata, "keys", slow)
    machine.members.look()
    assert machine.members.gone_since() == {}


def test_who_looks_for_the_first_time_waits_before_a_node_is_gone(machine):
    machine.node("a").beat()
    machine.clock.step("100s")
    assert machine.members.look()
    assert not machine.members.is_gone("a")


@pytest.mark.parametrize(
    "state", [None, *NodeState], ids=lambda state: state.value if state else "offline"
)
def test_r40_only_a_node_that_serves_gets_blocks(machine, state):
    node = machine.node("a")
    node.state = state
    node.beat()
    machine.members.look()
    is_serving = state is NodeState.SERVING
    assert bool(machine.members.nodes()) == is_serving
    assert ("a" in machine.members.gone_since()) != is_serving


def test_a_node_that_ends_says_that_it_is_offline(machine):
    node = machine.node("a")
    node.beat()
    node.start()
    node.stop()
    (member,) = machine.members.look()
    assert member.state_name == "offline"
    assert machine.members.is_gone("a")


def test_two_nodes_of_one_name_do_not_both_go_on(machine):
    first, second = machine.node("a"), machine.node("a", address="127.0.0.1:2")
    first.beat()
    second.beat()
    with pytest.raises(LockedError, match="another node"):
        first.beat()
    second.beat()


def test_a_node_that_never_came_leaves_the_name_to_whoever_has_it(machine):
    first, second = machine.node("a"), machine.node("a", address="127.0.0.1:2")
    assert second.rival() == ""
    first.beat()
    assert (first.rival(), second.rival()) == ("", "127.0.0.1:1")
    second.stop()
    first.beat()
    first.stop()
    assert second.rival() == ""


def test_labels_that_nobody_could_read_back_are_refused(machine):
    with pytest.raises(InputError, match="300 letters"):
        machine.node("a", host="x" * 301)


def test_a_node_that_starts_anew_goes_on_counting(machine):
    machine.node("a").beat()
    assert machine.node("a").beat().counter == 2


def test_a_beat_that_fails_is_kept_and_the_next_one_is_tried(machine):
    class Down(BucketMetadata):
        def get(self, key):
            raise RemoteError("down", retryable=True)

    node = machine.node("a")
    node._metadata = Down(MemoryBucket())
    answers = iter([False, True])
    node._over.wait = lambda _seconds: next(answers)
    node._run()
    assert isinstance(node.fault, RemoteError)


def test_nodes_are_reached_by_their_names_also_after_they_moved(machine):
    node = machine.node("a")
    with Server(MemoryPeer("a"), "127.0.0.1:0") as server:
        node.beat()
        peer = machine.members("a")
        assert machine.members("a") is peer
        with pytest.raises(RemoteError):
            peer.status()
        machine.node("a", address=server.address).beat()
        assert peer.status().name == "a"
    own = MemoryPeer("b")
    machine.members.add_own(own)
    assert machine.members("b") is own
    with pytest.raises(MissingError, match="'z'"):
        machine.members("z")


def test_where_a_node_was_last_is_known_when_metadata_are_down(machine):
    machine.node("a").beat()
    machine.members.look()

    def down(_key):
        raise RemoteError("down", retryable=True)

    machine.metadata.get = down
    assert machine.members.address("a") == "127.0.0.1:1"
    with pytest.raises(RemoteError) as caught:
        machine.members.address("z")
    assert caught.value.retryable


def test_a_node_whose_disk_is_full_says_that_it_is_there(machine):
    has_room = [True]

    def rise(generation):
        if not has_room[0]:
            raise CapacityError("the disk is full")
        return generation + 1

    node = Registration(
        machine.metadata,
        "a",
        address="127.0.0.1:1",
        room=lambda: (0, 100),
        clock=machine.clock,
        rise=rise,
    )
    assert node.beat().generation == 1
    has_room[0] = False
    assert [node.beat().counter for _ in range(25)] == list(range(2, 27))
    assert node.remembered() == 1
    has_room[0] = True
    assert max(node.beat().generation for _ in range(10)) == 2


class Late(BucketMetadata):
    """Keeps a cas on its way, which arrives right before the next one."""

    unanswered = 0
    held = None

    def cas(self, key, revision, data):
        if self.unanswered:
            self.unanswered -= 1
            self.held = key, revision, data
            raise UnclearError("no answer", retryable=True)
        held, self.held = self.held, None
        if held is not None:
            super().cas(*held)
        return super().cas(key, revision, data)


def test_a_nodes_own_beat_that_comes_late_is_no_other_nodes(machine):
    machine.metadata = Late(MemoryBucket())
    free = iter(range(100))
    node = Registration(
        machine.metadata,
        "a",
        address="127.0.0.1:1",
        room=lambda: (next(free), 100),
        clock=machine.clock,
    )
    node.beat()
    machine.metadata.unanswered = 5
    with pytest.raises(UnclearError):
        node.beat()
    assert node.beat().counter == 3


def test_of_two_that_begin_at_once_one_is_told(machine, monkeypatch):
    first, second = machine.node("a"), machine.node("a", address="127.0.0.1:2")
    real = machine.metadata.cas

    def overtaken(*args):
        monkeypatch.setattr(machine.metadata, "cas", real)
        second.beat()
        return real(*args)

    monkeypatch.setattr(machine.metadata, "cas", overtaken)
    with pytest.raises(LockedError, match="another node"):
        first.beat()
    second.beat()


def test_partitions_are_listed_beside_nodes(machine):
    machine.node("record").beat()
    for name in ("core_1", "nodes", "core_0"):
        Partition(machine.metadata, name, clock=machine.clock).create()
    for stray in ("bad name/record", ".old/record", "core_0~/record", "a/b/record"):
        machine.metadata.cas(stray, None, b"what somebody left")
    assert list_partitions(machine.metadata) == ["core_0", "core_1", "nodes"]
    assert [each.name for each in machine.members.look()] == ["record"]


def test_entries_are_read_as_they_were_written_and_nothing_else_is(machine):
    member = machine.node("a").beat()
    data = encode_member(member)
    assert decode_member(data, "x") == member
    values = json.loads(data)
    for name, wrong in (
        ("counter", -1),
        ("counter", True),
        ("counter", "1"),
        ("free_bytes", 1 << 63),
        ("state", "asleep"),
        ("address", None),
        ("host", "h" * 301),
        ("name", "../x"),
    ):
        with pytest.raises(DamagedEntry):
            decode_member(json.dumps(values | {name: wrong}).encode(), "x")
    for bad in (b"", b"{}", b"[]", b"\xff", b"[" * 100_000):
        with pytest.raises(DamagedEntry):
            decode_member(bad, "x")
    machine.metadata.cas(key_of("bad"), None, b"{}")
    assert [each.name for each in machine.members.look()] == ["a"]
    assert machine.node("bad").beat().counter == 1


@pytest.mark.parametrize("name", ["", "a/b", ".a", "a" * 101, "ä"])
def test_names_that_are_no_names_are_refused(machine, name):
    with pytest.raises(InputError):
        machine.node(name)
    assert name_in(f"nodes/{name}.node") == ""


def test_to_see_who_is_there_and_who_audits_syncs_nothing():
    """In a folder each second, by each node and client: all else on that disk would wait for it."""
    disk, clock = Synced(), ManualClock()
    metadata = BucketMetadata(FolderBucket("/nowhere", disk=disk))
    node = Registration(
        metadata, "a", address="127.0.0.1:1", room=lambda: (30, 100), clock=clock
    )  # fmt: skip
    node.beat()
    leases = [Lease(metadata, "auditor", name, clock=clock) for name in "ab"]
    assert [each.look() for each in leases] == [True, False]
    members = Members(metadata, clock=clock)
    disk.count = 0
    assert [each.name for each in members.look()] == ["a"]
    assert members.address("a") == "127.0.0.1:1"
    assert not leases[1].look()
    assert not disk.count
    metadata.get(key_of("a"))  # What others are to rely on is on the disk.
    assert disk.count == 1


class Synced(MemoryDisk):
    """Counts how often a folder is synced."""

    count = 0

    def sync_dir(self, path: str) -> None:
        self.count += 1
        super().sync_dir(path)
