"""What a queue in an object store gets of a mirror: each bundle of a partition, once."""

from __future__ import annotations

from pathlib import Path

from cluster_kit import row, running
from shipper_kit import shipped

import quiver
from quiver.chain import LoaderRules, Mirror
from quiver.disk import LocalDisk
from quiver.ship.objects import MemoryBucket
from quiver.ship.queue import Queue
from quiver.ship.shipper import Shipper

PATIENCE = 60.0
CONFIG = {"segment": {"time": "caller", "target_size": 2_000}}


def test_a_mirror_is_shipped_and_each_bundle_once_also_when_it_goes_on(tmp_path: Path) -> None:
    store, bucket = str(tmp_path / "store"), MemoryBucket("queue")
    with running(tmp_path / "nodes", "a", "b") as nodes, nodes.cluster() as cluster:
        loader = cluster.loader("core_0", ["events"], rules=LoaderRules(rf=2, soft_bytes=3_000))
        for begin in (0, 10):
            for number in range(begin, begin + 10):
                loader.send(row(number), timeout=PATIENCE).wait(PATIENCE)
            with (
                quiver.open(store, slots=["events"], core=0, config=CONFIG, worker=False) as opened,
                Mirror(opened, cluster) as mirror,
            ):
                assert mirror.run(once=True).bundle_count == 10
            Shipper(LocalDisk(store), Queue(bucket), "ship", keep=False).run()
        loader.close(timeout=PATIENCE)
    found = [
        reader.bundle(index)[0]["n"][0].as_py()
        for _, reader in shipped(bucket)
        for index in range(reader.bundle_count)
    ]
    assert found == list(range(20))
