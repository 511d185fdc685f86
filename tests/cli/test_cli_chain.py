"""``quiver chain`` and ``quiver node`` on metadata of a folder."""

from __future__ import annotations

import json

import pytest
from record_kit import begun, rolled
from tls_kit import Authority, openssl_missing

from quiver.chain.membership import Registration
from quiver.chain.metadata import open_metadata
from quiver.chain.peers import NodeState
from quiver.chain.record import encode_record
from quiver.clock import SystemClock


@pytest.fixture
def place(tmp_path) -> str:
    return str(tmp_path / "meta")


@pytest.fixture
def partition(place, tmp_path):
    """Two blocks that were sealed and one that is open, on nodes that are not up."""
    (tmp_path / "meta").mkdir()
    metadata = open_metadata(place)
    metadata.cas("core_0/record", None, encode_record(rolled(rolled(begun()))))
    return metadata


def test_partitions_are_listed(run, place, partition) -> None:
    found = run("chain", "ls", "--metadata", place)
    assert found.code == 0
    assert "core_0" in found.out
    (row,) = map(json.loads, run("chain", "ls", "--metadata", place, "--json").out.splitlines())
    assert row["state"] == "open"
    assert (row["block_count"], row["rf"], row["last_seq"]) == (2, 3, 19)
    assert row["open_locations"] == ["node-a", "node-b", "node-c"]


@pytest.mark.parametrize("verb", ["ls", "status"])
def test_a_record_that_is_damaged_hides_no_other(run, place, partition, verb) -> None:
    for name in ("aaa", "zzz"):
        partition.cas(f"{name}/record", None, b"junk" * 99)
    found = run("chain", verb, "--metadata", place)
    assert found.code == 9
    assert "core_0" in found.out
    assert "aaa" in found.err
    assert "zzz" in found.err
    found = run("chain", verb, "--metadata", place, "--json")
    assert found.code == 9
    is_one = verb == "status"
    told = json.loads(found.out)["partitions"] if is_one else [json.loads(found.out)]
    assert [row["partition"] for row in told] == ["core_0"]


def test_blocks_are_listed_oldest_first(run, place, partition) -> None:
    found = run("chain", "ls", "core_0", "--metadata", place)
    assert "node-a > node-b > node-c" in found.out
    out = run("chain", "ls", "core_0", "--metadata", place, "--json").out
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["number"], row["state"]) for row in rows] == [
        (0, "sealed"),
        (1, "sealed"),
        (2, "open"),
    ]
    assert rows[0]["start"] == "1970-01-01T00:00:00.000000001Z"
    assert not any(row["is_under_replicated"] for row in rows)
    out = run("chain", "ls", "core_0", "--last", "1", "--metadata", place, "--json").out
    assert json.loads(out)["number"] == 2


def test_status_ends_with_7_if_no_node_answers_and_no_block_says_more(run, place) -> None:
    metadata = open_metadata(place)
    node = Registration(
        metadata, "node-a", address="127.0.0.1:1", room=lambda: (5, 10), clock=SystemClock()
    )
    node.state = NodeState.SERVING
    node.beat()
    found = run("chain", "status", "--metadata", place)
    assert found.code == 7
    assert "not reached" in found.out
    told = run("chain", "status", "--metadata", place, "--json")
    assert told.code == 7
    assert json.loads(told.out)["partitions"] == []


def test_blocks_whose_nodes_do_not_answer_lack_copies(run, place, partition) -> None:
    node = Registration(
        partition,
        "node-a",
        address="127.0.0.1:1",
        room=lambda: (5, 10),
        clock=SystemClock(),
    )
    node.state = NodeState.SERVING
    node.beat()
    found = run("chain", "status", "--metadata", place)
    assert found.code == 1
    assert "not reached" in found.out
    told = json.loads(run("chain", "status", "--metadata", place, "--json").out)
    assert told["under_replicated"] == 3
    assert told["partitions"][0]["without_copy"] == 3
    (seen,) = told["nodes"]
    assert (seen["name"], seen["is_reached"], seen["block_count"]) == ("node-a", False, None)
    assert "cannot be reached" in seen["fault"]
    node.stop()
    assert "offline" in run("chain", "status", "--metadata", place).out


def test_a_partition_that_is_none_is_missing(run, place, partition) -> None:
    assert run("chain", "ls", "core_9", "--metadata", place).code == 3
    assert run("chain", "ls", "../x", "--metadata", place).code == 2


def test_a_folder_of_metadata_that_is_none_is_missing_and_is_not_made(run, tmp_path) -> None:
    for asked in ("ls", "status", "repair"):
        found = run("chain", asked, "--metadata", str(tmp_path / "nowhere"))
        assert found.code == 3
        assert "there is no folder" in found.err
    assert not list(tmp_path.iterdir())


def test_a_node_refuses_other_machines_without_certificates(run, place, tmp_path) -> None:
    folder = str(tmp_path / "n")
    asked = ("node", "--dir", folder, "--metadata", place, "--name")
    found = run(*asked, "a", "--listen", "0.0.0.0:0")
    assert found.code == 2
    assert "no TLS" in found.err
    assert run(*asked, "a/b").code == 2
    assert run(*asked, "a", "--tls-cert", "x").code == 2
    assert run(*asked, "a", "--token-file", str(tmp_path / "nothing")).code == 8


@pytest.mark.skipif(bool(openssl_missing()), reason=openssl_missing() or "openssl is there")
def test_a_node_on_all_addresses_has_to_say_where_others_reach_it(run, place, tmp_path) -> None:
    authority = Authority(tmp_path / "tls")
    certificate, key = map(str, authority.signed("a"))
    tls = ("--tls-cert", certificate, "--tls-key", key, "--tls-ca", str(authority.ca))
    asked = ("node", "--dir", str(tmp_path / "n"), "--metadata", place, "--name", "a", *tls)
    found = run(*asked, "--listen", "0.0.0.0:0")
    assert found.code == 2
    assert "--advertise" in found.err


@pytest.mark.parametrize(
    "token", ["", " \n", "a\nb", "\u00e4"], ids=["none", "space", "two", "umlaut"]
)
def test_a_token_file_without_a_token_does_not_open_a_node_to_all(
    run, place, tmp_path, token
) -> None:
    file = tmp_path / "token"
    file.write_text(token, encoding="utf-8")
    asked = ("--dir", str(tmp_path / "n"), "--metadata", place, "--name", "a")
    found = run("node", *asked, "--token-file", str(file))
    assert found.code == 2
    assert "has no token" in found.err
