"""What the command line refuses: an exit code, two lines on stderr, and no file touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import quiver

Run = Callable[..., Any]


def check_refused(result: Any, code: int, message: str) -> None:
    """Hold a refusal to its two lines, an error and a hint, and to its exit code."""
    assert (result.code, result.out) == (code, "")
    *_, error, hint = result.err.splitlines()
    assert error.startswith("quiver: ")
    assert message in error
    assert hint.startswith("hint: ")
    assert "Traceback" not in result.err


def contents(folder: Path) -> dict[Path, bytes]:
    """Give the bytes of every file but the locks, which name whoever held them last."""
    found = (p for p in folder.rglob("*") if p.is_file() and p.name not in ("LOCK", "VISIT"))
    return {path: path.read_bytes() for path in found}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"n": [1]}), path)
    return path


def test_65_slots_are_exit_code_2_and_make_no_store(run: Run, tmp_path: Path, table: Path) -> None:
    slots = [word for n in range(65) for word in ("--slot", f"slot{n}={table}")]
    result = run("ingest", tmp_path / "s", *slots)
    check_refused(result, 2, "65 slots: a bundle has at most 64")
    assert not (tmp_path / "s").exists()
    assert run("ingest", tmp_path / "s", *slots[:-2]).code == 0


def test_a_column_nested_too_deep_is_exit_code_2_and_makes_no_store(
    run: Run, tmp_path: Path
) -> None:
    kind = pa.int64()
    for _ in range(49):
        kind = pa.struct([("inner", kind)])
    path = tmp_path / "deep.arrow"
    deep = pa.table({"n": pa.nulls(1, kind)})
    with pa.ipc.new_file(path, deep.schema) as writer:
        writer.write_table(deep)
    result = run("ingest", tmp_path / "s", "--slot", f"x={path}")
    assert (result.code, result.out) == (2, "")
    assert "nests deeper than 48 levels" in result.err
    assert not (tmp_path / "s").exists()


def test_an_unknown_slot_is_exit_code_2_and_touches_no_file(
    run: Run, store: Path, table: Path, kit: SimpleNamespace
) -> None:
    before = kit.tree_digest(store)
    check_refused(run("ingest", store, "--slot", f"x={table}"), 2, "no slot 'x' in this store")
    assert kit.tree_digest(store) == before
    assert run("ingest", store, "--slot", f"logs={table}").code == 0


def test_a_bundle_above_the_limit_is_exit_code_2_and_the_store_goes_on(
    run: Run, tmp_path: Path, table: Path
) -> None:
    large = tmp_path / "large.parquet"
    pq.write_table(pa.table({"s": ["x" * 20_000]}), large)
    folder = tmp_path / "s"
    assert run("ingest", folder, "--slot", f"x={table}").code == 0
    limited = ("--set", "limits.entry_bytes=10kB")
    result = run("ingest", folder, "--slot", f"x={large}", *limited)
    check_refused(result, 2, "the limit is 10,000")
    assert "appended no bundle" in result.err
    assert quiver.scan(folder, slot="x").to_table().to_pydict() == {"n": [1]}
    assert run("ingest", folder, "--slot", f"x={table}", "--json").document["wal_seq_first"] == 1


def test_a_file_in_the_place_of_a_store_is_exit_code_3_and_left_as_it_is(
    run: Run, tmp_path: Path, table: Path
) -> None:
    place = tmp_path / "file"
    place.write_text("mine")
    check_refused(run("ingest", place, "--slot", f"x={table}"), 3, "is not a folder")
    assert place.read_text() == "mine"


def test_a_second_writer_is_exit_code_4_and_touches_no_file(
    run: Run, store: Path, table: Path
) -> None:
    hold = "import quiver, sys; s = quiver.open(sys.argv[1]); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        holder.stdout.readline()
        before = contents(store)
        for verb in (["finalize"], ["ingest", "--slot", f"logs={table}"]):
            check_refused(run(*verb, store), 4, f"written by process {holder.pid}")
        assert contents(store) == before
        holder.stdin.close()
        assert holder.wait() == 0
    assert run("ingest", store, "--slot", f"logs={table}").code == 0


@pytest.mark.parametrize("verb", [["finalize"], ["ingest", "--slot", "logs={table}"]])
def test_a_newer_format_is_exit_code_5_for_writers_and_touches_no_file(
    run: Run, store: Path, table: Path, kit: SimpleNamespace, verb: list[str]
) -> None:
    manifest = store / "quiver.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 2}))
    before = kit.tree_digest(store)
    result = run(*(word.format(table=table) for word in verb), store)
    check_refused(result, 5, "the store has format 2, this Quiver reads 1")
    assert kit.tree_digest(store) == before


def test_a_log_of_another_slot_table_is_exit_code_5_and_names_both_digests(
    run: Run, store: Path
) -> None:
    manifest = store / "quiver.json"
    ours = quiver.SlotTable.of(["logs", "traces"]).digest().hex()
    theirs = quiver.SlotTable.of(["logs", "metrics"]).digest().hex()
    text = manifest.read_text()
    assert "traces" in text
    assert ours in text
    fields = json.loads(text.replace("traces", "metrics").replace(ours, theirs))
    del fields["crc32c"]
    manifest.write_text(json.dumps(fields))
    before = contents(store)
    result = run("finalize", store)
    check_refused(result, 5, ours)
    assert theirs in result.err
    assert contents(store) == before
    manifest.write_text(text)
    assert run("finalize", store).code == 0


def as_nobody(run: Run, *arguments: object) -> Any:
    """Run the program in a child that may not write everywhere, as root may."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        found = run(*arguments)
        os.write(writer, json.dumps([found.code, found.out, found.err]).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        code, out, err = json.load(answer)
    os.waitpid(child, 0)
    return SimpleNamespace(code=code, out=out, err=err)


def test_a_folder_that_cannot_be_written_is_exit_code_8_and_stays_readable(
    run: Run, tmp_path: Path, store: Path, table: Path, kit: SimpleNamespace
) -> None:
    for parent in list(tmp_path.parents)[:-2]:
        parent.chmod(parent.stat().st_mode | 0o011)
    tmp_path.chmod(0o755)
    for place in (store, *store.rglob("*")):
        place.chmod(0o555 if place.is_dir() else 0o444)
    before = kit.tree_digest(store)
    for verb in (["finalize"], ["ingest", "--slot", f"logs={table}"]):
        check_refused(as_nobody(run, *verb, store), 8, "Permission denied")
    refused = as_nobody(run, "ingest", store / "new", "--slot", f"x={table}")
    check_refused(refused, 8, "Permission denied")
    assert as_nobody(run, "check", store).code == 0
    assert kit.tree_digest(store) == before


def test_a_damaged_store_takes_nothing_strictly_and_stays_as_it_is(
    run: Run, store: Path, table: Path, kit: SimpleNamespace
) -> None:
    kit.flip(store / "core_0/acks/ack.log", 64 * 2 + 9)
    before = contents(store)
    result = run("ingest", store, "--slot", f"logs={table}", "--strict")
    assert (result.code, result.out) == (9, "")
    assert "the frame fails its checksum" in result.err
    assert contents(store) == before
    assert run("ingest", store, "--slot", f"logs={table}").code == 0
