"""``subscriber``: who takes bundles is seen, comes, moves, pauses and goes."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pyarrow as pa
import pytest

import quiver
from quiver.cli.subscriber import VERBS


def names(run, store) -> list[str]:
    return [item["name"] for item in run("subscriber", "ls", store, "--json").lines]


def drain(store, name: str) -> int:
    with quiver.open(store, worker=False) as opened:
        opened.finalize()
        taken, subscription = 0, opened.subscribe(name)
        while (handle := subscription.poll()) is not None:
            handle.ack()
            taken += 1
    return taken


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_each_begins_with_examples(run, verb) -> None:
    result = run("subscriber", verb, "--help")
    first, *rest = result.out.splitlines()
    assert (result.code, first) == (0, "Examples:")
    for line in rest[: rest.index("")]:
        assert line.split()[:3] == ["quiver", "subscriber", verb]
    assert max(map(len, result.out.splitlines())) <= 100
    assert VERBS[verb] in result.out
    assert "--json" in result.out
    assert f"  {verb} " in run("subscriber", "--help").out


@pytest.mark.parametrize("verb", VERBS)
def test_help_imports_nothing_heavy(verb) -> None:
    code = (
        "import sys\nfrom quiver.cli.main import main\n"
        f"main(['subscriber', {verb!r}, '--help'])\n"
        "sys.exit(bool({'pyarrow', 'numpy', 'rich'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_misspelt_verb_is_told(run, store) -> None:
    result = run("subscriber", "remve", store)
    assert result.code == 2
    assert "there is no verb 'remve' (did you mean 'quiver subscriber remove'?)" not in result.err
    assert "there is no verb 'remve'" in result.err
    assert "quiver subscriber --help" in result.err
    assert "did you mean 'quiver subscriber pause'" in run("subscriber", "pasue", store).err


# ls ----------------------------------------------------------------------------------------------


def test_all_are_listed_and_nothing_is_changed(run, filled, kit) -> None:
    before = kit.tree_digest(filled)
    parquet, spark = run("subscriber", "ls", filled, "--json").lines
    assert (parquet["name"], parquet["is_orphan"]) == ("parquet", False)
    assert (spark["open_bundle_count"], spark["is_paused"]) == (3, False)
    title, head, *rows = run("subscriber", "ls", filled).out.splitlines()
    assert title == "subscribers"
    assert head.split() == ["subscriber", "id", "open", "pinned", "seen", "paused", "orphan"]
    assert [row.split()[0] for row in rows] == ["parquet", "spark"]
    assert kit.tree_digest(filled) == before


def test_who_is_gone_is_an_orphan(run, store) -> None:
    with quiver.open(store, worker=False) as opened:
        opened.subscribe("idle")
    by_name = {i["name"]: i for i in run("subscriber", "ls", store, "--json").lines}
    assert by_name["idle"]["orphan_reason"] == "never seen since it was registered"
    assert not by_name["spark"]["is_orphan"]
    found = run("subscriber", "ls", store, "--unseen", "0s")
    assert "not seen for" in found.out
    assert found.out.splitlines()[-1].startswith("3 orphans: ")
    assert run("subscriber", "ls", store, "--unseen", "soon").code == 2


def test_who_lives_in_another_process_was_seen(run, store) -> None:
    with quiver.open(store, worker=False) as opened:
        opened.subscribe("idle")
    quiver.subscribe(store, "idle", worker=False).close()
    quiver.subscribe(store, "new", worker=False).close()
    by_name = {i["name"]: i for i in run("subscriber", "ls", store, "--json").lines}
    assert not by_name["idle"]["is_orphan"]
    assert (by_name["new"]["is_orphan"], by_name["new"]["subscriber_id"]) == (False, None)


# add, reset, pause, resume, rename ---------------------------------------------------------------


@pytest.mark.parametrize(
    "start, count", [("earliest", 5), ("latest", 0), ("1", 2), ("2000-01-01", 5), ("2100-01-01", 0)]
)
def test_one_is_added_from_a_position_on(run, store, start, count) -> None:
    result = run("subscriber", "add", store, "new", "--start", start)
    assert result.out.startswith(f"new is registered from {start} on: ")
    assert drain(store, "new") == count


def test_one_who_is_there_is_not_added(run, store) -> None:
    result = run("subscriber", "add", store, "spark")
    assert result.code == 2
    assert "there is a subscriber 'spark' already" in result.err
    assert "reset" in result.err


def test_one_starts_over(run, store) -> None:
    assert drain(store, "parquet") == 4
    result = run("subscriber", "reset", store, "parquet")
    assert result.out == "parquet starts over at earliest: 5 open bundles\n"
    result = run("subscriber", "reset", store, "parquet", "--start", "latest", "--json")
    assert result.document["cores"][0]["open_bundle_count"] == 0


def test_one_is_paused_and_goes_on(run, store) -> None:
    assert run("subscriber", "pause", store, "parquet").out.startswith("parquet is paused: ")
    assert drain(store, "parquet") == 0
    assert run("subscriber", "ls", store, "--json").lines[0]["is_paused"]
    assert run("subscriber", "resume", store, "parquet").out.startswith("parquet is not paused: ")
    assert drain(store, "parquet") == 4


def test_one_gets_another_name(run, store) -> None:
    result = run("subscriber", "rename", store, "spark", "flink")
    assert result.out.startswith("flink was spark: ")
    assert names(run, store) == ["flink", "parquet"]
    assert run("subscriber", "rename", store, "flink", "parquet").code == 2
    assert names(run, store) == ["flink", "parquet"]


def test_a_process_that_goes_on_under_the_name_is_told(run, store) -> None:
    with quiver.subscribe(store, "spark", worker=False) as spark:
        run("subscriber", "reset", store, "spark")
        spark.poll().ack()
        with pytest.raises(quiver.SubscriberError, match="removed, renamed or reset"):
            spark.commit()


def test_all_cores_change_together(run, store) -> None:
    with quiver.open(store, core=2, worker=False) as second:
        second.append({"logs": pa.table({"n": [1]})})
    result = run("subscriber", "add", store, "new")
    assert result.out == "new is registered from earliest on in 2 cores: 6 open bundles\n"
    with quiver.open(store, core=2):
        result = run("subscriber", "pause", store, "new")
        assert result.code == 4
    assert not any(i["is_paused"] for i in run("subscriber", "ls", store, "--json").lines)
    assert [c["core"] for c in run("subscriber", "pause", store, "new", "--json").document["cores"]]


# what becomes free -------------------------------------------------------------------------------


def segment_bytes(store) -> int:
    return sum(path.stat().st_size for path in (store / "core_0/segments").iterdir())


def test_what_a_start_leaves_behind_is_told_and_deleted(run, store) -> None:
    drain(store, "parquet")
    whole = segment_bytes(store)
    result = run("subscriber", "reset", store, "spark", "--start", "1", "--yes", "--json")
    assert "Nobody needs 1 segment with 3 bundles, " in result.err
    assert "when spark starts from 1 on: they are deleted." in result.err
    (core,) = result.document["cores"]
    assert (core["freed_segment_count"], core["freed_bundle_count"]) == (1, 3)
    assert core["freed_bytes"] == whole - segment_bytes(store) > 0


@pytest.mark.parametrize("verb, name", [("reset", "parquet"), ("add", "new")])
def test_what_others_need_is_not_deleted_and_nobody_is_asked(run, store, verb, name) -> None:
    result = run("subscriber", verb, store, name, "--start", "latest", "--json")
    assert result.err == f"Nothing is deleted when {name} starts from latest on.\n"
    (core,) = result.document["cores"]
    assert (core["freed_segment_count"], core["freed_bytes"]) == (0, 0)
    assert len(list((store / "core_0/segments").iterdir())) == 2


@pytest.mark.parametrize("start, left", [("2100-01-01", 0), ("1", 1), ("0", 2)])
def test_the_first_one_of_all_may_free_what_was_kept_for_nobody(run, store, start, left) -> None:
    for name in ("parquet", "spark"):
        run("subscriber", "rm", store, name, "--yes")
    refused = run("subscriber", "add", store, "new", "--start", start)
    segments = store / "core_0/segments"
    if left == 2:
        assert (refused.code, len(list(segments.iterdir()))) == (0, 2)
        return
    assert refused.code == 2
    assert "nobody is there to be asked: Delete what lies before?" in refused.err
    assert refused.err.splitlines()[-1] == "hint: --yes"
    assert (names(run, store), len(list(segments.iterdir()))) == ([], 2)
    result = run("subscriber", "add", store, "new", "--start", start, "--yes")
    assert f"Nobody needs {2 - left} segment" in result.err
    assert len(list(segments.iterdir())) == left


def test_only_the_cores_that_change_count(run, store) -> None:
    with quiver.open(store, core=2, worker=False) as second:
        second.append({"logs": pa.table({"n": [1]})})
        for name in second.info().subscribers:
            second.unsubscribe(name)
    drain(store, "parquet")  # Only in core 0 is there anybody, and there it is spark who keeps it.
    result = run("subscriber", "add", store, "spark", "--start", "latest", "--yes", "--json")
    assert "Nobody needs 1 segment with 1 bundle, " in result.err
    (core,) = result.document["cores"]
    assert (core["core"], core["freed_segment_count"]) == (2, 1)
    assert len(list((store / "core_0/segments").iterdir())) == 2


def test_a_person_is_asked_before_a_backlog_is_deleted(run, store) -> None:
    drain(store, "parquet")
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "quiver", "subscriber", "reset", str(store), "spark"]
    os.write(master, b"n\n")
    done = subprocess.run(
        [*command, "--start", "latest"],
        stdin=slave,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(master)
    os.close(slave)
    assert "Nobody needs 2 segments with 5 bundles, " in done.stderr
    assert (done.returncode, len(list((store / "core_0/segments").iterdir()))) == (130, 2)


# rm ----------------------------------------------------------------------------------------------


def test_what_only_one_needed_is_told_and_deleted(run, store) -> None:
    drain(store, "parquet")
    files = list((store / "core_0/segments").iterdir())
    freed = sum(path.stat().st_size for path in files)
    result = run("subscriber", "rm", store, "spark", "--yes", "--json")
    assert "Only it needs 2 segments with 5 bundles" in result.err
    (core,) = result.document["cores"]
    assert (core["freed_segment_count"], core["freed_bundle_count"]) == (2, 5)
    assert core["freed_bytes"] == freed
    assert not list((store / "core_0/segments").iterdir())
    assert names(run, store) == ["parquet"]


def test_the_last_one_frees_nothing(run, store) -> None:
    assert "Nothing is kept for it alone" in run("subscriber", "rm", store, "spark", "--yes").err
    result = run("subscriber", "rm", store, "parquet", "--yes")
    assert "Nobody else has subscribed: nothing is deleted until somebody does." in result.err
    assert result.out == "parquet is removed\n"
    assert len(list((store / "core_0/segments").iterdir())) == 2


def test_nobody_is_there_to_be_asked(run, store) -> None:
    result = run("subscriber", "rm", store, "spark")
    assert result.code == 2
    assert result.err.splitlines()[-1] == "hint: --yes"
    assert names(run, store) == ["parquet", "spark"]


@pytest.mark.parametrize("answer, left", [(b"y\n", ["parquet"]), (b"n\n", ["parquet", "spark"])])
def test_a_person_is_asked(run, store, answer, left) -> None:
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "quiver", "subscriber", "rm", str(store), "spark"]
    os.write(master, answer)
    done = subprocess.run(
        command, stdin=slave, capture_output=True, text=True, timeout=60, check=False
    )
    os.close(master)
    os.close(slave)
    assert "Remove the subscriber spark?" in done.stderr
    assert done.returncode == (0 if left == ["parquet"] else 130)
    assert names(run, store) == left


def test_one_who_came_in_another_process_is_removed(run, store) -> None:
    with quiver.subscribe(store, "new", worker=False) as new:
        new.poll().ack()
    assert run("subscriber", "rm", store, "new", "--yes").code == 0
    assert names(run, store) == ["parquet", "spark"]
    assert not (store / "core_0/acks/inbox/new").exists()


# refused -----------------------------------------------------------------------------------------

CHANGES = [
    (("add", "new"), "store.subscribe('new', start='earliest')"),
    (("rm", "spark", "--yes"), "store.unsubscribe('spark')"),
    (("reset", "spark"), "store.reset('spark', start='earliest')"),
    (("pause", "spark"), "store.pause('spark')"),
    (("resume", "spark"), "store.resume('spark')"),
    (("rename", "spark", "flink"), "store.rename('spark', 'flink')"),
]


@pytest.mark.parametrize("arguments, call", CHANGES)
def test_whoever_has_the_store_open_has_to_do_it(run, store, arguments, call) -> None:
    verb, *rest = arguments
    with quiver.open(store):
        result = run("subscriber", verb, store, *rest)
    assert (result.code, result.out) == (4, "")
    assert f"is being written by process {os.getpid()}" in result.err
    hint = "hint: end that process (SIGTERM, if it is quiver run), or let it call"
    assert f"{hint} {call}" in result.err


@pytest.mark.parametrize("arguments, call", CHANGES[1:])
def test_nobody_of_that_name(run, store, arguments, call) -> None:
    verb, _, *rest = arguments
    result = run("subscriber", verb, store, "kafka", *rest)
    assert result.code == 2
    assert "no subscriber 'kafka'" in result.err
    assert "hint: registered: parquet, spark" in result.err


@pytest.mark.parametrize(
    "arguments, text",
    [
        (("add", "a b"), "subscriber name 'a b' is not allowed"),
        (("rename", "spark", "a/b"), "subscriber name 'a/b' is not allowed"),
        (("add", "new", "--start", "soon"), "'soon' is no position"),
        (("reset", "spark", "--start", "-1"), "'-1' is no position"),
    ],
)
def test_what_makes_no_sense_is_refused(run, store, kit, arguments, text) -> None:
    before = kit.tree_digest(store)
    verb, *rest = arguments
    result = run("subscriber", verb, store, *rest)
    assert result.code == 2
    assert text in result.err
    assert kit.tree_digest(store) == before


@pytest.mark.parametrize("arguments", [("ls",), ("add", "new"), ("rm", "x"), ("pause", "x")])
def test_no_store_is_exit_code_3(run, tmp_path, arguments) -> None:
    verb, *rest = arguments
    assert run("subscriber", verb, tmp_path / "none", *rest).code == 3
