"""A process that ends with calls to nodes under way ends well: nothing comes back behind that."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from cluster_kit import running

from quiver.chain import LoaderRules

PROGRAM = """
import sys
import pyarrow as pa
import quiver
cluster = quiver.connect(sys.argv[1])
loader = cluster.loader("left", ["events"])
for n in range(5):
    loader.send({"events": pa.table({"n": [n]})}).wait(60)
cursor = cluster.cursor(["left"], live=True)
for _, message in zip(range(5), cursor):
    pass
subscription = cluster.subscribe("s", ["core_0"])
print(subscription.next(timeout=60) is not None)
"""


@pytest.mark.parametrize("number", range(4))
def test_what_was_left_open_does_not_end_it_by_a_fault(tmp_path, number) -> None:
    """One process in fifteen ended by SIGSEGV, which none of these has to be."""
    with running(tmp_path, "a", "b") as nodes, nodes.cluster() as cluster:
        with cluster.loader("core_0", ["events"], rules=LoaderRules()) as loader:
            loader.send({"events": pa.table({"n": [number]})}).wait(60)
        places = ",".join(each.address for each in nodes.served.values())
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM, f"quiver://{places}"],
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr
