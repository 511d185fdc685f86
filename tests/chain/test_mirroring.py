"""Partitions that are read into a store: whole, in order, each bundle once, whoever is lost."""

from __future__ import annotations

import threading
from contextlib import suppress

import pyarrow as pa
import pytest
from cluster_kit import STEADY, Nodes, row, running

import quiver
from quiver.chain import LoaderRules, Mirror, Mirrored, Partition
from quiver.chain.cluster import Cluster, connect
from quiver.chain.mirroring import place
from quiver.chain.reading import ChainPosition
from quiver.chain.tending import abandon
from quiver.clock import SystemClock
from quiver.errors import (
    CapacityError,
    ConfigError,
    InputError,
    LockedError,
    MissingError,
    QuiverError,
    SourceError,
)

PATIENCE = 60.0
SMALL = LoaderRules(rf=2, soft_bytes=5_000)
SLOTS = ["events", "logs"]


@pytest.fixture
def nodes(tmp_path):
    with running(tmp_path / "nodes", "a", "b", "c") as nodes:
        yield nodes


@pytest.fixture
def folder(tmp_path) -> str:
    return str(tmp_path / "store")


def opened(folder: str, time: str = "caller", **given) -> quiver.Store:
    config = {"segment": {"time": time, "target_size": 4_000}, **given}
    return quiver.open(folder, slots=SLOTS, core=0, config=config, worker=False)


def load(cluster: Cluster, partition: str, numbers, rules: LoaderRules = SMALL) -> list[int]:
    """Send bundles, every third one of two slots; gives their times."""
    loader = cluster.loader(partition, SLOTS, rules=rules)
    times = []
    for number in numbers:
        bundle = row(number)
        if number % 3 == 0:
            bundle["logs"] = pa.record_batch({"of": [number], "line": [f"line {number}"]})
        times.append(loader.send(bundle, timeout=PATIENCE).time_ns)
    loader.close(timeout=PATIENCE)
    return times


def mirrored(store: quiver.Store, cluster: Cluster, *names: str, **given) -> Mirrored:
    with Mirror(store, cluster, names, **given) as mirror:
        return mirror.run(once=True)


def content(folder: str) -> list[tuple[int, int, int | None]]:
    """Give time, number and what is in the other slot of each bundle, in order of time."""
    with quiver.cursor(folder) as cursor:
        return [
            (
                message.time_ns,
                message.bundle["events"]["n"][0].as_py(),
                message.bundle["logs"]["of"][0].as_py() if "logs" in message.bundle else None,
            )
            for message in cursor
        ]


def expected(times, numbers) -> list[tuple[int, int, int | None]]:
    found = zip(times, numbers, strict=True)
    return [(time, n, n if n % 3 == 0 else None) for time, n in found]


def test_bundles_come_whole_in_order_and_keep_their_times(nodes, folder):
    with nodes.cluster() as cluster, opened(folder) as store:
        times = load(cluster, "core_0", range(100))
        done = mirrored(store, cluster)
        assert (done.bundle_count, done.row_count, done.late_count) == (100, 134, 0)
        assert done.positions == {"core_0": ChainPosition(times[-1], 99)}
    assert content(folder) == expected(times, range(100))


def test_a_second_run_goes_on_behind_the_first(nodes, folder):
    times = []
    with nodes.cluster() as cluster:
        for first in (0, 10, 20):
            times += load(cluster, "core_0", range(first, first + 10))
            with opened(folder) as store:
                assert mirrored(store, cluster).bundle_count == 10
                assert mirrored(store, cluster).bundle_count == 0
    assert content(folder) == expected(times, range(30))


def test_several_partitions_are_merged_by_time(nodes, folder):
    with nodes.cluster() as cluster, opened(folder) as store:
        loaders = [cluster.loader(f"core_{n}", SLOTS, rules=SMALL) for n in range(3)]
        times = []
        for number in range(60):
            receipt = loaders[number % 3].send(row(number), timeout=PATIENCE)
            times.append(receipt.time_ns)
        for loader in loaders:
            loader.close(timeout=PATIENCE)
        sent = sorted((time, f"core_{n % 3}", n) for n, time in enumerate(times))
        assert mirrored(store, cluster, "core_2", "core_0").bundle_count == 40
        done = mirrored(store, cluster)
        assert done.bundle_count == 20
        assert done.late_count > 0
    numbers = [n for _, n, _ in content(folder)]
    assert sorted(numbers) == list(range(60))
    first = [n for _, name, n in sent if name != "core_1"]
    assert [n for n in numbers if n % 3 != 1] == first


def test_two_clusters_with_partitions_of_one_name_stay_apart(tmp_path, nodes, folder):
    with running(tmp_path / "others", "a", "b") as others, opened(folder) as store:
        for each in (nodes, others):
            with each.cluster() as cluster:
                load(cluster, "core_0", range(10))
                assert mirrored(store, cluster).bundle_count == 10
                assert mirrored(store, cluster).bundle_count == 0


def test_addresses_may_change_between_runs(nodes, folder):
    with nodes.cluster() as cluster:
        load(cluster, "core_0", range(10))
        with opened(folder) as store:
            assert mirrored(store, cluster).bundle_count == 10
    where = f"quiver://127.0.0.1:1,{nodes.served['c'].address}"
    with connect(where, wire=STEADY) as cluster, opened(folder) as store:
        assert mirrored(store, cluster).bundle_count == 0


def test_a_partition_is_read_into_a_store_by_one_at_a_time(nodes, folder):
    with nodes.cluster() as cluster, opened(folder) as store:
        load(cluster, "core_0", range(5))
        with Mirror(store, cluster, ["core_0"]) as first:
            first.run(once=True)
            with pytest.raises(LockedError):
                mirrored(store, cluster)
        assert mirrored(store, cluster).bundle_count == 0


def test_a_store_with_times_of_its_own(nodes, folder):
    with nodes.cluster() as cluster, opened(folder, "clock") as store:
        load(cluster, "core_0", range(5))
        with pytest.raises(InputError, match="clock"):
            mirrored(store, cluster)
        assert mirrored(store, cluster, keeps_times=False).bundle_count == 5


def test_slots_that_the_store_has_not_are_refused_and_nothing_is_passed(nodes, folder):
    with nodes.cluster() as cluster, opened(folder) as store:
        loader = cluster.loader("core_0", ["events", "other"], rules=SMALL)
        loader.send(row(0), timeout=PATIENCE)
        loader.send({"other": row(1)["events"]}, timeout=PATIENCE)
        loader.close(timeout=PATIENCE)
        for _ in range(2):
            with pytest.raises(InputError, match="other"):
                mirrored(store, cluster)
        assert store.stats().next_wal_seq == 1


# gaps --------------------------------------------------------------------------------


def nobody(name: str):
    """Know no node."""
    raise MissingError(f"there is no node {name}")


def test_what_was_purged_before_it_was_read_is_told(nodes, folder):
    with nodes.cluster() as cluster:
        load(cluster, "core_0", range(10))
        with opened(folder) as store:
            mirrored(store, cluster)
        load(cluster, "core_0", range(10, 100))
        partition = Partition(nodes.metadata, "core_0", clock=SystemClock())
        blocks = partition.read().recent
        partition.purge(blocks[-1].start)
        first_seq = blocks[-2].last_seq + 1
        with opened(folder) as store:
            with pytest.raises(SourceError, match="purged") as caught:
                mirrored(store, cluster)
            assert caught.value.split == "core_0"
            done = mirrored(store, cluster, gap="tell")
            assert done.gaps == [("core_0", 9, first_seq)]
    assert [n for _, n, _ in content(folder)] == [*range(10), *range(first_seq, 100)]


@pytest.mark.parametrize("read", [10, 12], ids=["nothing of it was read", "some of it was read"])
def test_what_was_abandoned_before_it_was_read_is_told_once(nodes, folder, read):
    with nodes.cluster() as cluster, opened(folder) as store:
        load(cluster, "core_0", range(10))
        mirrored(store, cluster)
        loader = cluster.loader("core_0", SLOTS, rules=SMALL)
        for number in range(10, read):
            loader.send(row(number), timeout=PATIENCE).wait(PATIENCE)
        assert mirrored(store, cluster).bundle_count == read - 10
        for number in range(read, 15):
            loader.send(row(number), timeout=PATIENCE).wait(PATIENCE)
        partition = Partition(nodes.metadata, "core_0", clock=SystemClock())
        abandon(partition, partition.read(), by="somebody", peers=nobody)
        with suppress(QuiverError):
            loader.close(timeout=PATIENCE)
        load(cluster, "core_0", range(15, 30))
        for _ in range(2):
            with pytest.raises(SourceError, match="abandoned") as caught:
                mirrored(store, cluster)
            assert caught.value.split == "core_0"
        done = mirrored(store, cluster, gap="tell")
        assert (done.gaps, done.bundle_count) == ([("core_0", read - 1, 10)], 15)
        load(cluster, "core_0", range(30, 40))
        assert mirrored(store, cluster).bundle_count == 10
    assert [n for _, n, _ in content(folder)] == [*range(read), *range(15, 40)]


def test_a_new_mirror_begins_with_what_there_is(nodes, folder):
    with nodes.cluster() as cluster, opened(folder) as store:
        load(cluster, "core_0", range(100))
        partition = Partition(nodes.metadata, "core_0", clock=SystemClock())
        partition.purge(partition.read().recent[-1].start)
        assert mirrored(store, cluster).gaps == []


# live --------------------------------------------------------------------------------


class Live:
    """A mirror in a thread of its own, until so many bundles came."""

    def __init__(self, store: quiver.Store, cluster: Cluster, *names: str) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self.mirror = Mirror(store, cluster, names)
        self.faults: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.mirror.run(watch=self._watch)
        except Exception as error:  # noqa: BLE001 It is looked at where it is waited for.
            self.faults.append(error)
        finally:
            self.mirror.close()

    def _watch(self, _: int) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def wait(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._count >= count, PATIENCE), self.faults

    def close(self) -> Mirrored:
        self.mirror.stop()
        self._thread.join()
        assert not self.faults
        return self.mirror.mirrored


def test_r43_only_what_all_copies_have_is_heard_of_and_a_node_may_die_meanwhile(nodes, folder):
    with nodes.cluster() as cluster, opened(folder) as store:
        live = Live(store, cluster, "core_0")  # Of what does not exist yet.
        loader = cluster.loader("core_0", SLOTS, rules=LoaderRules(rf=2, soft_bytes=3_000))
        for number in range(30):
            loader.send(row(number), timeout=PATIENCE).wait(PATIENCE)
            live.wait(number + 1)
        nodes.stop(loader.record.open.locations[-1])
        for number in range(30, 60):
            loader.send(row(number), timeout=PATIENCE)
        loader.flush(PATIENCE)
        live.wait(60)
        loader.close(timeout=PATIENCE)
        assert live.close().bundle_count == 60
    assert [n for _, n, _ in content(folder)] == list(range(60))


def test_new_partitions_are_found_without_a_name(nodes, folder, monkeypatch):
    monkeypatch.setattr("quiver.chain.mirroring.mirror._LIST_NS", 0)
    with nodes.cluster() as cluster, opened(folder) as store:
        live = Live(store, cluster)
        load(cluster, "core_0", range(5))
        live.wait(5)
        load(cluster, "core_7", range(5, 10))
        live.wait(10)
        assert live.close().positions.keys() == {"core_0", "core_7"}


# what keeps it from going on ------------------------------------------------------------


def test_a_full_store_is_waited_for_and_nothing_is_left_out(nodes, folder):
    full = {"retention": {"size_cap": 160_000}, "wal": {"max_size": 20_000, "rotate_size": 4_000}}
    full["limits"] = {"entry_bytes": 3_000}
    with nodes.cluster() as cluster, opened(folder, **full) as store:
        load(cluster, "core_0", range(300))
        reader = store.subscribe("reader")
        live = Live(store, cluster, "core_0")
        found: list[int] = []
        while len(found) < 300:
            store.maintain()
            handle = reader.poll()
            if handle is None:
                assert not live.faults
                store.finalize()
                continue
            found.append(handle["events"]["n"][0].as_py())
            handle.ack()
        assert live.close().bundle_count == 300
        assert found == list(range(300))


def test_what_the_disk_did_not_take_is_read_again(nodes, folder, monkeypatch):
    with nodes.cluster() as cluster:
        load(cluster, "core_0", range(20))
        with opened(folder) as store, Mirror(store, cluster) as mirror:
            monkeypatch.setattr(mirror, "_settle", lambda: (_ for _ in ()).throw(CapacityError("")))
            with pytest.raises(CapacityError):
                mirror.run()  # And not tried again from places that may not be durable.
        with opened(folder) as store:
            mirrored(store, cluster)
    assert [n for _, n, _ in content(folder)] == list(range(20))


def test_a_partition_that_is_named_and_not_there(nodes, folder):
    with nodes.cluster() as cluster, opened(folder) as store:
        assert mirrored(store, cluster).bundle_count == 0
        with pytest.raises(MissingError):
            mirrored(store, cluster, "core_0")
        with pytest.raises(ConfigError):
            Mirror(store, cluster, gap="fill")


@pytest.mark.parametrize(
    "state",
    ["", "{}", place.encode_place(ChainPosition(1, 2)).replace("1", '"x"', 1)]
    + [
        place.encode_place(ChainPosition(1, 2)).replace("2}", more)
        for more in ("true}", '2,"a":1}')
    ],
    ids=["empty", "nothing", "version", "bool", "more"],
)
def test_what_is_no_place_is_refused(state):
    with pytest.raises(InputError):
        place.decode_place(state)


def test_a_place_survives_as_text():
    at = ChainPosition(1_800_000_000_000_000_000, 7)
    assert place.decode_place(place.encode_place(at)) == at


def test_a_cluster_has_one_number_for_ever_and_nonsense_is_none(tmp_path):
    metadata = Nodes(tmp_path, STEADY).metadata
    clock = SystemClock()
    assert place.identity(metadata, clock) == place.identity(metadata, clock)
    metadata.cas("identity", metadata.get("identity").revision, b"nonsense")
    with pytest.raises(InputError, match="nonsense"):
        place.identity(metadata, clock)
