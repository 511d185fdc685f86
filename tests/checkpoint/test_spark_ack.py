"""``quiver spark-ack``: the last batch of a query that ended, without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from quiver.checkpoint import hold, write_note
from quiver.cli.program import program
from quiver.disk import LocalDisk


@pytest.fixture
def run(capsys):
    def run(*arguments: object) -> tuple[int, str, str]:
        code = program.run([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def ended(ground):
    """A query that ended after a batch which it did not ack."""
    ground.lay_out(upto=3)
    write_note(LocalDisk(ground.checkpoint), ground.note())
    return ground


def test_the_last_batch_is_acked_and_then_there_is_nothing_more(ended, run) -> None:
    code, out, _ = run("spark-ack", ended.checkpoint)
    assert (code, ended.left()) == (0, 11)
    assert "7 bundles acked, up to batch 3" in out
    _, out, _ = run("spark-ack", ended.checkpoint, "--json")
    (source,) = json.loads(out)["sources"]
    assert source["acked_bundle_count"] == 0
    assert source["subscriber"] == "spark"


def test_a_query_that_runs_is_left_alone(ended, run) -> None:
    lock = hold(LocalDisk(ended.checkpoint), ended.note())
    code, _, err = run("spark-ack", ended.checkpoint)
    assert code != 0
    assert "is running" in err
    lock.release()
    assert run("spark-ack", ended.checkpoint)[0] == 0


def test_a_store_that_moved_is_named_and_another_one_refused(ended, run, tmp_path) -> None:
    ended.store.close()
    moved = tmp_path / "moved"
    ended.store_path.rename(moved)
    assert run("spark-ack", ended.checkpoint)[0] != 0
    assert run("spark-ack", ended.checkpoint, "--store", moved)[0] == 0
    import quiver

    with quiver.open(tmp_path / "other", slots=["logs"]):
        pass
    code, _, err = run("spark-ack", ended.checkpoint, "--store", tmp_path / "other")
    assert code != 0
    assert "the query read" in err
    assert not list((tmp_path / "other").glob("core_*/acks/inbox/*"))  # Nobody is kept waiting for.


def test_of_two_stores_only_the_one_that_moved_is_acked(ended, run) -> None:
    elsewhere = replace(ended.note(), store="/gone", store_id="f" * 32)
    write_note(LocalDisk(ended.checkpoint), elsewhere)
    assert run("spark-ack", ended.checkpoint)[0] != 0
    code, out, _ = run("spark-ack", ended.checkpoint, "--store", ended.store_path, "--json")
    assert (code, len(json.loads(out)["sources"])) == (0, 1)


def test_a_checkpoint_without_a_note_says_what_is_missing(ended, run, tmp_path) -> None:
    for arguments in ([tmp_path], [ended.checkpoint, "--subscriber", "other"]):
        code, _, err = run("spark-ack", *arguments)
        assert code != 0
        assert "no query" in err


def test_it_needs_no_spark(ended) -> None:
    script = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from quiver.cli.program import program\n"
        f"sys.exit(program.run(['spark-ack', {str(ended.checkpoint)!r}]))"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ended.left() == 11
