"""``quiver chain mirror``: partitions into a store, and what reads that."""

from __future__ import annotations

import pytest
from cluster_kit import STEADY, row, running

import quiver
from quiver.chain import LoaderRules
from tests.cli.test_cli_json import fields

PATIENCE = 60.0


@pytest.fixture
def where(tmp_path):
    """Three nodes with ten bundles, by the address of one."""
    with running(tmp_path / "nodes", "a", "b", "c", options=STEADY) as nodes:
        with nodes.cluster() as cluster:
            loader = cluster.loader("core_0", ["events"], rules=LoaderRules(rf=2))
            for number in range(10):
                loader.send(row(number), timeout=PATIENCE)
            loader.close(timeout=PATIENCE)
        yield f"quiver://{nodes.served['b'].address}"


def test_a_store_is_made_filled_and_gone_on_with(run, where, tmp_path, kit) -> None:
    store = tmp_path / "store"
    command = ["chain", "mirror", store, "--metadata", where, "--once", "--json"]
    found = run(*command).document
    assert set(kit.leaves(found)) == fields("chain mirror")
    assert (found["created"], found["bundle_count"], found["late_count"]) == (True, 10, 0)
    assert found["partitions"][0]["last_seq"] == 9
    found = run(*command).document
    assert (found["created"], found["bundle_count"]) == (False, 0)
    assert run("check", store).code == 0
    told = run(*command[:-1])
    assert "0 rows in 0 bundles, of 1 partition" in told.out
    out = tmp_path / "lake"
    arguments = ["--slot", "events", "--subscriber", "lake", "--out", out, "--json"]
    assert run("export", store, *arguments).lines[-1]["row_count"] == 10
    assert run("export", store, *arguments).lines[-1]["row_count"] == 0
    with quiver.open(store, core=0, config={"segment": {"time": "caller"}}) as opened:
        assert opened.slots.ids == {"events": 0}


def test_where_nothing_was_loaded_no_store_is_made(run, tmp_path) -> None:
    with running(tmp_path / "nodes", "a", options=STEADY) as nodes:
        where = f"quiver://{nodes.served['a'].address}"
        found = run("chain", "mirror", tmp_path / "store", "--metadata", where, "--once")
    assert "no partition says yet" in found.err
    assert not (tmp_path / "store").exists()


def test_metadata_that_are_not_there_are_told_as_by_all_others(run, tmp_path) -> None:
    found = run("chain", "mirror", tmp_path / "store", "--metadata", tmp_path / "gone", "--once")
    assert found.code == 3
    assert f"there is no folder {tmp_path / 'gone'}" in found.err
    assert "hint: give --metadata as the nodes have it" in found.err
    assert not (tmp_path / "store").exists()
