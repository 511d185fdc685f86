"""Subscribers of a chain in tests: partitions with numbers, and the numbers that come."""

from __future__ import annotations

from cluster_kit import row

from quiver.chain import LoaderRules
from quiver.chain.cluster import Cluster
from quiver.chain.serving import AuditRules

__all__ = ["PATIENCE", "QUICK", "SMALL", "load", "number_of", "take"]

PATIENCE = 60.0
SMALL = LoaderRules(rf=2, soft_bytes=5_000)
QUICK = AuditRules(every_seconds=0.1)


def load(cluster: Cluster, partition: str, numbers, rules: LoaderRules = SMALL) -> list[int]:
    loader = cluster.loader(partition, ["events"], rules=rules)
    times = [loader.send(row(number), timeout=PATIENCE).time_ns for number in numbers]
    loader.close(timeout=PATIENCE)
    return times


def number_of(handle) -> int:
    return handle["events"]["n"][0].as_py()


def take(subscription, count: int) -> list[int]:
    """Ack so many bundles; gives their numbers."""
    found = []
    for _ in range(count):
        with subscription.next(PATIENCE) as handle:
            found.append(number_of(handle))
    return found
