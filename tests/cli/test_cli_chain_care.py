"""``quiver chain repair``, ``drain`` and ``abandon`` on nodes of this process."""

from __future__ import annotations

import dataclasses
import errno
import json
from collections import Counter

import pytest
from cluster_kit import STEADY, Nodes, row, value_of
from record_kit import begun, rolled

from quiver.chain.loading import LoaderRules
from quiver.chain.metadata import open_metadata
from quiver.chain.record import Partition, encode_record
from quiver.chain.serving import AuditRules
from quiver.cli.node import room_of
from quiver.clock import SystemClock
from quiver.errors import StorageError, SubscriberError

PATIENCE = 60.0
SMALL = LoaderRules(rf=2, soft_bytes=5_000)


@pytest.fixture
def place(tmp_path) -> str:
    (tmp_path / "meta").mkdir()
    return str(tmp_path / "meta")


@pytest.fixture
def nodes(tmp_path, place):
    """Three nodes that leave all passes to the command line, and a partition on them."""
    nodes = Nodes(tmp_path, STEADY)
    nodes.metadata = open_metadata(place)
    nodes.audit = AuditRules(every_seconds=3600)
    try:
        for name in "abc":
            nodes.start(name)
        with nodes.cluster() as cluster:
            loader = cluster.loader("core_0", ["events"], rules=SMALL)
            for number in range(40):
                loader.send(row(number), timeout=PATIENCE)
            loader.close(PATIENCE)
        yield nodes
    finally:
        nodes.close()


def blocks_of(nodes):
    partition = Partition(nodes.metadata, "core_0", clock=SystemClock())
    return list(partition.blocks_now(partition.read()))


def values_of(nodes):
    with nodes.cluster() as cluster, cluster.cursor("core_0") as cursor:
        return [value_of(each) for each in cursor]


def test_a_repair_finishes_and_copies_at_once_and_says_so(run, place, nodes) -> None:
    found = json.loads(run("chain", "repair", "--metadata", place, "--json").out)
    acts = Counter(each["act"] for each in found["acts"])
    count = len(blocks_of(nodes))
    assert acts == {"finish": 2 * count, "settle": 2 * count}
    assert (found["gone"], found["failed_count"]) == ([], 0)
    lost = blocks_of(nodes)[0].locations[0]
    nodes.stop(lost)
    told = run("chain", "repair", "--metadata", place)
    assert told.code == 0
    assert f"gone: {lost}" in told.out
    assert "copy" in told.out
    assert all(lost not in each.locations for each in blocks_of(nodes))
    assert {len(each.locations) for each in blocks_of(nodes)} == {2}
    assert values_of(nodes) == list(range(40))


def test_a_repair_that_reads_all_finds_what_is_rotten_and_copies_it_anew(run, place, nodes) -> None:
    run("chain", "repair", "--metadata", place)
    block = blocks_of(nodes)[0]
    bad = block.locations[0]
    file = nodes.folder / bad / "core_0" / f"{block.number:016d}.qseg"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.chmod(0o600)
    file.write_bytes(data)
    assert "nothing was to be done" in run("chain", "repair", "--metadata", place).out
    found = run("chain", "repair", "--verify", "--metadata", place, "--json")
    assert found.code == 1
    acts = json.loads(found.out)["acts"]
    (told,) = [each for each in acts if each["fault"]]
    assert (told["act"], told["node"], told["number"]) == ("verify", bad, block.number)
    assert "rotten" in told["fault"]
    assert ("copy", block.number) in [(each["act"], each["number"]) for each in acts]
    again = run("chain", "repair", "--verify", "--metadata", place)
    assert again.code == 0
    assert f"verify: {sum(len(each.locations) for each in blocks_of(nodes))}" in again.out
    assert values_of(nodes) == list(range(40))


def test_what_is_damaged_is_in_the_status(run, place, nodes) -> None:
    run("chain", "repair", "--metadata", place)
    block = blocks_of(nodes)[0]
    bad = block.locations[0]
    file = nodes.folder / bad / "core_0" / f"{block.number:016d}.qseg"
    nodes.stop(bad)
    file.unlink()
    nodes.start(bad)
    (told,) = [
        each["damaged"]
        for each in json.loads(run("chain", "status", "--metadata", place, "--json").out)["nodes"]
        if each["name"] == bad
    ]
    assert [(each["partition"], each["number"]) for each in told] == [("core_0", block.number)]
    assert "segment is gone" in run("chain", "status", "--metadata", place).out


def test_how_far_subscribers_are_is_in_the_status(run, place, nodes) -> None:
    run("chain", "repair", "--metadata", place)
    with nodes.cluster() as cluster, cluster.subscribe("report", "core_0") as subscription:
        for _ in range(3):
            subscription.next(PATIENCE).ack()
        (told,) = json.loads(run("chain", "status", "--metadata", place, "--json").out)[
            "subscribers"
        ]
        assert (told["name"], told["is_taken"], told["fault"]) == ("report", True, "")
        (mark,) = told["partitions"]
        assert mark["partition"] == "core_0"
        assert mark["blocks_behind"] == len(blocks_of(nodes))
        assert mark["pinned"] == mark["floor"] == blocks_of(nodes)[0].number
        assert "report" in run("chain", "status", "--metadata", place).out


def test_marks_on_nodes_that_are_down_are_not_told_as_none(run, place, nodes) -> None:
    run("chain", "repair", "--metadata", place)
    with nodes.cluster() as cluster, cluster.subscribe("report", "core_0") as subscription:
        subscription.next(PATIENCE).ack()
    for name in "abc":
        nodes.stop(name)
    found = run("chain", "status", "--metadata", place)
    assert found.code == 1
    assert "subscriber report: " in found.err
    assert "cannot be reached" in found.err
    assert "none has begun" not in found.out


def test_what_all_subscribers_have_is_purged_when_that_is_asked_for(run, place, nodes) -> None:
    run("chain", "repair", "--metadata", place)
    assert "nobody subscribed" in run("chain", "gc", "--metadata", place).out
    first, *_, last = blocks_of(nodes)
    with nodes.cluster() as cluster, cluster.subscribe("report", "core_0") as subscription:
        while (handle := subscription.next(PATIENCE)).segment_seq < last.number:
            handle.ack()
        handle.defer()
    (told,) = json.loads(run("chain", "gc", "--metadata", place, "--json").out)["partitions"]
    assert (told["partition"], told["below"], told["held_by"]) == ("core_0", last.number, "report")
    assert told["block_count"] > first.number
    assert [each.number for each in blocks_of(nodes)] == [last.number]
    assert "report" in run("chain", "gc", "core_0", "--metadata", place).out


def test_a_subscriber_that_is_forgotten_keeps_no_block(run, place, nodes) -> None:
    run("chain", "repair", "--metadata", place)
    last = blocks_of(nodes)[-1]
    with nodes.cluster() as cluster:
        with cluster.subscribe("ready", "core_0") as ready:
            while (handle := ready.next(PATIENCE)).segment_seq < last.number:
                handle.ack()
            handle.defer()
        fenced = pytest.raises(SubscriberError, match="another process")
        with fenced, cluster.subscribe("report", "core_0") as report:
            handle = report.next(PATIENCE)
            refused = run("chain", "unsubscribe", "report", "--metadata", place)
            assert refused.code == 2
            assert "--yes" in refused.err
            assert "dead letter" in refused.err
            assert run("chain", "gc", "--metadata", place, "--json").out.count('"report"') == 1
            done = run("chain", "unsubscribe", "report", "--yes", "--json", "--metadata", place)
            told = json.loads(done.out)
            assert (told["name"], told["was_taken"], told["letter_count"]) == ("report", True, 0)
            assert told["blocks_behind"] == len(blocks_of(nodes))
            with pytest.raises(SubscriberError):
                handle.ack()
            handle.defer()
    assert '"report"' not in run("chain", "status", "--json", "--metadata", place).out
    (gone,) = json.loads(run("chain", "gc", "--metadata", place, "--json").out)["partitions"]
    assert (gone["below"], gone["held_by"]) == (last.number, "ready")
    again = run("chain", "unsubscribe", "report", "--yes", "--metadata", place)
    assert again.code != 0
    assert "chain status" in again.err


def test_a_subscriber_is_paused_renamed_and_started_over(run, place, nodes) -> None:
    run("chain", "repair", "--metadata", place)

    def changed(verb: str, *words: str) -> dict[str, object]:
        done = run("chain", verb, *words, "--json", "--metadata", place)
        assert done.code == 0, done.err
        return json.loads(done.out)

    with nodes.cluster() as cluster:
        with cluster.subscribe("report", "core_0") as report:
            first = report.next(PATIENCE)
            first.ack()
        assert changed("pause", "report")["is_paused"]
        assert '"is_paused": true' in run("chain", "status", "--json", "--metadata", place).out
        assert "report is paused" in run("chain", "status", "--metadata", place).out
        with cluster.subscribe("report", "core_0") as report:
            assert report.poll() is None
        assert changed("rename", "report", "daily")["name"] == "daily"
        assert not changed("resume", "daily")["is_paused"]
        with cluster.subscribe("daily", "core_0") as daily, daily.next(PATIENCE) as second:
            assert second.wal_seq > first.wal_seq
        refused = run("chain", "reset", "daily", "--metadata", place)
        assert refused.code == 2
        assert "--yes" in refused.err
        told = changed("reset", "daily", "--yes")
        assert told["blocks_behind"] == len(blocks_of(nodes))
        with cluster.subscribe("daily", "core_0") as daily, daily.next(PATIENCE) as again:
            assert again.wal_seq == first.wal_seq
    said = run("chain", "reset", "daily", "--yes", "--start", "latest", "--metadata", place)
    assert "daily begins anew at latest, 0 blocks behind" in said.out
    wrong = run("chain", "reset", "daily", "--yes", "--start", "soon", "--metadata", place)
    assert wrong.code == 2
    for verb, *words in (("pause", "no"), ("resume", "no"), ("reset", "no")):
        gone = run("chain", verb, *words, "--metadata", place)
        assert gone.code != 0
        assert "chain status" in gone.err


def test_a_repair_without_partitions_has_nothing_to_do(run, place) -> None:
    found = run("chain", "repair", "--metadata", place)
    assert found.code == 0
    assert "nothing was to be done" in found.out


def test_what_a_repair_could_not_do_is_told(run, place, nodes) -> None:
    nodes.metadata.cas("aaa/record", None, b"damaged")
    found = run("chain", "repair", "--metadata", place)
    assert found.code == 1
    assert "1 act failed" in found.out
    (failed,) = [
        each
        for each in json.loads(run("chain", "repair", "--metadata", place, "--json").out)["acts"]
        if each["fault"]
    ]
    assert (failed["partition"], failed["number"]) == ("aaa", None)


def test_a_node_that_drains_may_be_stopped_when_others_have_all(run, place, nodes) -> None:
    left = blocks_of(nodes)[0].locations[0]
    found = run("chain", "drain", left, "--metadata", place)
    assert found.code == 0, found.err
    assert f"{left} has nothing that is listed, and may be stopped" in found.out
    nodes.stop(left)
    assert {len(each.locations) for each in blocks_of(nodes)} == {2}
    assert values_of(nodes) == list(range(40))
    told = json.loads(run("chain", "drain", left, "--undo", "--metadata", place, "--json").out)
    assert told == {"node": left, "is_leaving": False, "block_count": 0, "may_be_stopped": False}


def test_a_drain_that_finds_no_room_says_what_is_left(run, place, nodes) -> None:
    one, other = blocks_of(nodes)[0].locations
    nodes.stop(next(name for name in "abc" if name not in (one, other)))
    found = run("chain", "drain", one, "--timeout", "0s", "--metadata", place)
    assert found.code == 1
    assert f"{one} still has" in found.out
    assert run("chain", "drain", "nobody", "--metadata", place).code == 3


def test_an_open_block_is_given_up_when_somebody_says_so(run, place) -> None:
    metadata = open_metadata(place)
    metadata.cas("core_0/record", None, encode_record(rolled(begun())))
    asked = ("chain", "abandon", "core_0", "1", "--metadata", place)
    refused = run("chain", "abandon", "core_0", "7", "--yes", "--metadata", place)
    assert refused.code == 2
    assert "block 1 is" in refused.err
    assert run(*asked).code == 2  # Nobody is there to be asked.
    found = json.loads(run(*asked, "--yes", "--json").out)
    assert (found["number"], found["last_seq"]) == (1, 9)
    listed = run("chain", "ls", "core_0", "--metadata", place).out
    assert "abandoned" in listed
    assert run(*asked, "--yes").code == 2


def test_an_open_block_that_a_node_has_is_not_given_up(run, place, nodes) -> None:
    with nodes.cluster() as cluster:
        loader = cluster.loader("core_1", ["events"], rules=SMALL)
        loader.send(row(0), timeout=PATIENCE).wait(PATIENCE)
        number = str(loader.record.open.number)
        found = run("chain", "abandon", "core_1", number, "--yes", "--metadata", place)
        assert found.code == 2
        assert "has block" in found.err
        loader.send(row(1), timeout=PATIENCE).wait(PATIENCE)
        loader.close(PATIENCE)


def test_blocks_move_to_a_node_that_joins_empty(run, place, nodes) -> None:
    run("chain", "repair", "--metadata", place)
    held = max(map(nodes.held, "abc"))
    nodes.capacities = dict.fromkeys("abcd", 2 * held + 200_000)
    for name in "abcd":
        if name in nodes.served:
            nodes.stop(name)
        nodes.start(name)
    asked = ("chain", "balance", "--metadata", place)
    planned = json.loads(run(*asked, "--dry-run", "--json").out)
    assert "d" in {each["target"] for each in planned["moves"]}
    assert all("d" not in each.locations for each in blocks_of(nodes))
    told = run(*asked)
    assert told.code == 0, told.err
    assert "moved" in told.out
    assert any("d" in each.locations for each in blocks_of(nodes))
    assert {len(each.locations) for each in blocks_of(nodes)} == {2}
    assert values_of(nodes) == list(range(40))
    again = run(*asked)
    assert "moved: nothing: nodes are as full as each other" in again.out


def opened_on(nodes, place):
    """A block that is open, whose loader is gone; gives its number and the first node."""
    with nodes.cluster() as cluster:
        loader = cluster.loader("core_1", ["events"], rules=SMALL)
        loader.send(row(0), timeout=PATIENCE).wait(PATIENCE)
        record = loader.record
        loader.abandon()
    return str(record.open.number), record.open.locations


def test_nodes_that_let_nobody_in_are_not_gone(run, place, tmp_path) -> None:
    """A token that is wrong must not look like copies that are lost."""
    nodes = Nodes(tmp_path, dataclasses.replace(STEADY, token="right"))
    nodes.metadata = open_metadata(place)
    nodes.audit = AuditRules(every_seconds=3600)
    try:
        for name in "ab":
            nodes.start(name)
        number, _ = opened_on(nodes, place)
        (tmp_path / "token").write_text("wrong")
        chosen = ("--token-file", str(tmp_path / "token"), "--metadata", place)
        for asked in (("abandon", "core_1", number, "--yes"), ("repair",)):
            found = run("chain", *asked, *chosen)
            assert found.code == 7
            assert "lets nobody in without its token" in found.err
        opened = Partition(nodes.metadata, "core_1", clock=SystemClock()).read().open
        assert str(opened.number) == number
    finally:
        nodes.close()


def test_nodes_that_are_up_and_are_not_reached_from_here_are_not_gone(run, place, nodes) -> None:
    number, locations = opened_on(nodes, place)
    for name in locations:
        nodes.served[name]._server.close(seconds=0)  # They still say that they are there.
    found = run("chain", "abandon", "core_1", number, "--yes", "--metadata", place)
    assert found.code == 2
    assert "is up, and does not answer here" in found.err
    told = json.loads(run("chain", "repair", "--json", "--metadata", place).out)
    assert told["gone"] == []
    assert all(set(each.locations) <= set("abc") for each in blocks_of(nodes))


def test_what_is_not_there_is_told_by_its_name(run, place) -> None:
    found = run("chain", "ls", "nope", "--metadata", place)
    assert (found.code, found.out) == (3, "")
    assert "there is no partition nope" in found.err
    found = run("chain", "ls", "--metadata", "quiver://nonsense")
    assert found.code == 2
    assert "'nonsense' is no address of a node" in found.err


def test_a_disk_that_does_not_say_how_full_it_is_refuses_one_beat_and_not_all(tmp_path) -> None:
    free, total = room_of(str(tmp_path))
    assert 0 <= free <= total
    with pytest.raises(StorageError, match="how full the disk") as caught:
        room_of(str(tmp_path / "gone"))
    assert caught.value.errno == errno.ENOENT
