"""Records that cannot be read, or of which a part is gone: no verb stops at one of them."""

from __future__ import annotations

import json

import pytest
from cluster_kit import STEADY, Nodes, row
from crc32c import crc32c
from record_kit import begun, purged_in_part, rolled

from quiver.chain.loading import LoaderRules
from quiver.chain.metadata import open_metadata
from quiver.chain.record import Partition, encode_record
from quiver.chain.serving import AuditRules
from quiver.clock import SystemClock
from quiver.testing.manual_clock import ManualClock

PATIENCE = 60.0


def newer(data: bytes) -> bytes:
    """Give a record as of a version that nobody knows."""
    body = data[:8] + b"\x63" + data[9:-4]
    return body + crc32c(body).to_bytes(4, "little")


@pytest.fixture
def place(tmp_path) -> str:
    (tmp_path / "meta").mkdir()
    return str(tmp_path / "meta")


def test_blocks_of_a_page_that_were_purged_are_not_counted(run, place) -> None:
    partition = Partition(open_metadata(place), "core_0", clock=ManualClock())
    record = purged_in_part(partition)
    found = run("chain", "ls", "--metadata", place, "--json")
    assert found.code == 0
    count = len(list(partition.blocks(record)))
    assert json.loads(found.out)["block_count"] == count < 300


@pytest.mark.parametrize("verb", ["ls", "status", "balance"])
def test_a_record_of_a_newer_version_hides_no_other(run, place, verb) -> None:
    metadata = open_metadata(place)
    record = encode_record(rolled(begun()))
    for name, data in (("aaa", newer(record)), ("core_0", record), ("zzz", newer(record))):
        metadata.cas(f"{name}/record", None, data)
    found = run("chain", verb, "--metadata", place)
    assert found.code == 5
    assert verb == "balance" or "core_0" in found.out
    assert "aaa" in found.err
    assert "zzz" in found.err


@pytest.mark.parametrize(
    ("spoil", "code"), [(lambda _: b"{}", 9), (newer, 5)], ids=["damaged", "newer"]
)
def test_a_node_is_drained_of_what_can_be_read(run, place, tmp_path, spoil, code) -> None:
    nodes = Nodes(tmp_path, STEADY)
    nodes.metadata = open_metadata(place)
    nodes.audit = AuditRules(every_seconds=3600)
    try:
        for name in "abc":
            nodes.start(name)
        with nodes.cluster() as cluster:
            loader = cluster.loader("core_1", ["events"], rules=LoaderRules(rf=2))
            loader.send(row(0), timeout=PATIENCE)
            loader.close(PATIENCE)
        partition = Partition(nodes.metadata, "core_1", clock=SystemClock())
        node = partition.read().recent[0].locations[0]
        data = spoil(encode_record(rolled(begun())))
        nodes.metadata.cas("core_0/record", None, data)
        found = run("chain", "drain", node, "--timeout", "30s", "--metadata", place, "--json")
        assert found.code == code
        told = json.loads(found.out)
        assert (told["block_count"], told["may_be_stopped"]) == (0, False)
        assert "core_0/record" in found.err
        assert node not in partition.read().recent[0].locations
        text = run("chain", "drain", node, "--timeout", "0s", "--metadata", place)
        assert (text.code, "where that can be read" in text.out) == (code, True)
        assert run("chain", "drain", node, "--undo", "--metadata", place).code == code
    finally:
        nodes.close()


@pytest.mark.parametrize("option", ["--interval", "--for"])
def test_a_look_that_nobody_lives_to_see_is_refused(run, place, option) -> None:
    asked = ("chain", "top", "--once", option, "99999999999999d", "--metadata", place)
    found = run(*asked)
    assert found.code == 2
    assert f"{option}: 99999999999999d is too long" in found.err
