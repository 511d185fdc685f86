"""A mirror that is run again behind an interrupt, and one that runs for long."""

from __future__ import annotations

import pytest
from cluster_kit import row, running

import quiver
from quiver.chain import LoaderRules, Mirror
from quiver.chain.metadata import BucketMetadata
from quiver.errors import RemoteError, WaitTimeoutError
from quiver.ship.objects import MemoryBucket
from quiver.testing import ManualClock

PATIENCE = 60.0
CONFIG = {"segment": {"time": "caller"}}


def opened(folder):
    return quiver.open(str(folder), slots=["events"], core=0, config=CONFIG, worker=False)


class Interrupted:
    """A store whose third append is interrupted once it is in."""

    def __init__(self, store: quiver.Store) -> None:
        self._store = store
        self._count = 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    def append(self, *values, **named):
        receipt = self._store.append(*values, **named)
        self._count += 1
        if self._count == 3:
            raise KeyboardInterrupt
        return receipt


def test_a_run_behind_an_interrupt_appends_nothing_twice(tmp_path):
    with running(tmp_path / "nodes", "a") as nodes, nodes.cluster() as cluster:
        loader = cluster.loader("core_0", ["events"], rules=LoaderRules(rf=1))
        for number in range(6):
            loader.send(row(number), timeout=PATIENCE)
        loader.close(PATIENCE)
        with opened(tmp_path / "store") as store, Mirror(Interrupted(store), cluster) as mirror:
            with pytest.raises(KeyboardInterrupt):
                mirror.run(once=True)
            mirror.run(once=True)
    with quiver.cursor(str(tmp_path / "store")) as cursor:
        assert [each.bundle["events"]["n"][0].as_py() for each in cursor] == list(range(6))


class Idle:
    """A cluster where nothing comes, and which fails now and then, or each time."""

    def __init__(self, looks: int) -> None:
        self.metadata = BucketMetadata(MemoryBucket())
        self.failures = 0
        self.is_at_end = False
        self.mirror: Mirror | None = None
        self._looks = looks
        self._count = 0

    def partitions(self):
        return ["core_0"]

    def cursor(self, *_, **__):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def next(self, _):
        self._count += 1
        if self._count % (self._looks + 1):
            raise WaitTimeoutError("nothing came")
        self.failures += 1
        if self.failures == 30:
            self.mirror.stop()
        raise RemoteError("a node was restarted", retryable=True)


def run_long(folder, cluster: Idle) -> int:
    with opened(folder) as store, Mirror(store, cluster, clock=ManualClock()) as mirror:
        cluster.mirror = mirror
        mirror.run()
    return cluster.failures


def test_failures_that_have_nothing_to_do_with_each_other_end_no_mirror(tmp_path):
    assert run_long(tmp_path, Idle(looks=3)) == 30


def test_failures_in_a_row_end_a_mirror(tmp_path):
    cluster = Idle(looks=0)
    with pytest.raises(RemoteError, match="restarted"):
        run_long(tmp_path, cluster)
    assert cluster.failures == 11
