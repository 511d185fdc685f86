"""``lag``: how far each subscriber is behind, read beside whoever writes."""

from __future__ import annotations

import pyarrow as pa
import pytest

import quiver


def lags(run, store, *arguments) -> dict[str, dict]:
    return {item["name"]: item for item in run("lag", store, *arguments, "--json").lines}


def test_each_subscriber_is_a_line(run, filled, kit) -> None:
    before = kit.tree_digest(filled)
    parquet, spark = run("lag", filled, "--json").lines
    assert (parquet["name"], spark["name"]) == ("parquet", "spark")
    assert (parquet["open_segment_count"], parquet["open_bundle_count"]) == (1, 2)
    assert (spark["open_bundle_count"], spark["waiting_bundle_count"]) == (3, 1)
    assert parquet["open_bytes"] < spark["open_bytes"]
    assert parquet["pinned_bytes"] == spark["pinned_bytes"] == 0
    assert parquet["oldest_open_time"] < parquet["last_seen_time"]
    assert parquet["unfolded_bundle_count"] == parquet["dead_letter_count"] == 0
    assert kit.tree_digest(filled) == before


def test_a_table_for_people(run, filled) -> None:
    title, head, parquet, _ = run("lag", filled).out.splitlines()
    assert title == "lag"
    assert head.split() == [
        *("subscriber", "segments", "bundles", "size", "oldest", "retrying", "dead", "paused"),
        *("seen", "pinned", "unfolded"),
    ]
    assert parquet.split()[:3] == ["parquet", "1", "2"]


def test_one_subscriber_is_asked_for(run, filled) -> None:
    assert list(lags(run, filled, "spark")) == ["spark"]
    result = run("lag", filled, "kafka")
    assert result.code == 2
    assert result.err.splitlines() == [
        "quiver: no subscriber 'kafka'",
        "hint: registered: parquet, spark",
    ]


def test_nobody_has_subscribed(run, tmp_path) -> None:
    quiver.open(tmp_path / "s", slots=["logs"], worker=False).close()
    assert run("lag", tmp_path / "s").out == "lag: nobody has subscribed\n"
    assert run("lag", tmp_path / "s", "--json").out == ""


def test_what_only_one_still_needs_is_told(run, store) -> None:
    with quiver.open(store, worker=False) as opened:
        parquet = opened.subscribe("parquet")
        while (handle := parquet.poll()) is not None:
            handle.ack()
        opened.pause("spark")
    found = lags(run, store)
    sizes = [path.stat().st_size for path in (store / "core_0/segments").iterdir()]
    assert len(sizes) == 2
    assert (found["spark"]["pinned_segment_count"], found["spark"]["is_paused"]) == (1, True)
    assert found["spark"]["pinned_bytes"] in sizes
    # What was in the log when it was closed.
    assert found["parquet"]["open_bundle_count"] == 2
    assert found["parquet"]["pinned_bytes"] == 0


def test_it_looks_beside_a_writer(run, store) -> None:
    with quiver.open(store) as opened:
        opened.subscribe("parquet").poll().reject("no use")
        found = lags(run, store)["parquet"]
    assert (found["open_bundle_count"], found["dead_letter_count"]) == (1, 1)


def test_what_another_process_is_done_with_is_told_until_it_is_folded_in(run, store) -> None:
    with quiver.subscribe(store, "spark", worker=False) as spark:
        for _ in range(2):
            spark.poll().ack()
    with quiver.subscribe(store, "late", worker=False) as late:
        late.poll().ack()
        late.poll().reject("no use")
    found = lags(run, store)
    assert found["spark"]["unfolded_bundle_count"] == 2
    assert found["spark"]["open_bundle_count"] == 3
    assert (found["late"]["unfolded_bundle_count"], found["late"]["subscriber_id"]) == (2, None)
    assert (found["late"]["open_bundle_count"], found["late"]["pinned_bytes"]) == (3, 0)
    quiver.open(store, worker=False).close()
    found = lags(run, store)
    assert found["spark"]["unfolded_bundle_count"] == found["late"]["unfolded_bundle_count"] == 0
    assert (found["late"]["dead_letter_count"], found["late"]["subscriber_id"]) == (1, 3)


def test_an_inbox_that_nobody_can_read_is_passed_over(run, store, kit) -> None:
    with quiver.subscribe(store, "spark", worker=False) as spark:
        spark.poll().ack()
    kit.flip(store / "core_0/acks/inbox/spark", 20)
    result = run("lag", store, "--json")
    assert f"quiver: passed over {store}/core_0/acks/inbox/spark: " in result.err
    assert [item["unfolded_bundle_count"] for item in result.lines] == [0, 0]


def test_an_inbox_of_one_who_was_removed_counts_for_nothing(run, store) -> None:
    with quiver.subscribe(store, "spark", worker=False) as spark:
        spark.poll().ack()
    kept = (store / "core_0/acks/inbox/spark").read_bytes()
    with quiver.open(store, worker=False) as opened:
        opened.unsubscribe("spark")
    (store / "core_0/acks/inbox/spark").write_bytes(kept)
    assert list(lags(run, store)) == ["parquet"]


def test_cores_are_told_apart(run, store) -> None:
    with quiver.open(store, core=2, worker=False) as second:
        second.append({"logs": pa.table({"n": [1]})})
        second.subscribe("spark")
    found = [(item["core"], item["name"]) for item in run("lag", store, "--json").lines]
    assert found == [(0, "parquet"), (0, "spark"), (2, "parquet"), (2, "spark")]
    assert run("lag", store).out.splitlines()[1].split()[0] == "core"


@pytest.mark.parametrize("name", ["none", "file"])
def test_no_store_is_exit_code_3(run, tmp_path, name) -> None:
    (tmp_path / "file").write_text("x")
    assert run("lag", tmp_path / name).code == 3
