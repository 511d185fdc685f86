"""R38: cursors on the same data read the same server, whatever they read before."""

from __future__ import annotations

from collections import defaultdict

from cluster_kit import row, running, value_of

from quiver.chain.loading import LoaderRules
from quiver.chain.record import Partition
from quiver.clock import SystemClock

PATIENCE = 60.0


def counted(nodes):
    """Count who is read of each block, where the wire hands it to the node."""
    read = defaultdict(list)
    for name, served in nodes.served.items():
        for kind in ("read", "segment"):
            real = getattr(served.node, kind)

            def counting(block, *args, name=name, real=real, **given):
                found = real(block, *args, **given)
                read[block.number].append(name)
                return found

            setattr(served.node, kind, counting)
    return read


def test_r38_cursors_on_the_same_data_read_the_same_server(tmp_path):
    """Six of them, from other places: of each block the last location alone has the streams."""
    with running(tmp_path, "a", "b", "c", "d") as nodes, nodes.cluster() as cluster:
        rules = LoaderRules(rf=3, soft_bytes=5_000)
        loader = cluster.loader("core_0", ["events"], rules=rules)
        for number in range(60):
            loader.send(row(number), timeout=PATIENCE)
        loader.flush(PATIENCE)
        partition = Partition(nodes.metadata, "core_0", clock=SystemClock())
        record = partition.read()
        assert len(record.recent) >= 3
        read = counted(nodes)
        for start in [None, None, None, *(block.start for block in record.recent[1:4])]:
            with nodes.cluster() as other, other.cursor("core_0", start=start) as cursor:
                assert [value_of(each) for each in cursor][-1] == 59
        tails = {each.number: each.locations[-1] for each in record.recent}
        tails[record.open.number] = record.open.locations[-1]
        assert {number: set(names) for number, names in read.items()} == {
            number: {tail} for number, tail in tails.items()
        }
        assert len(read[record.open.number]) == 6
        loader.close(PATIENCE)
