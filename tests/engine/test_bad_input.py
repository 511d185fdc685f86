"""Whatever is wrong with what the caller gives: one clear error, nothing written, still usable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest
from store_kit import SLOTS, bundle, numbers

import quiver


def deep(levels: int) -> pa.RecordBatch:
    kind = pa.int64()
    for _ in range(levels):
        kind = pa.list_(kind)
    return pa.record_batch({"n": pa.nulls(1, kind)})


def broken() -> pa.RecordBatch:
    """A string column that is no UTF-8: cheap checks pass, readers would not."""
    offsets = pa.py_buffer(bytes([0, 0, 0, 0, 1, 0, 0, 0]))
    array = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff")])
    return pa.RecordBatch.from_arrays([array], ["s"])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"event": bundle(0)["events"]}, "no slot 'event' in this store (its slots are: events"),
        ({"events": [1, 2, 3]}, "slot 'events': list is not Arrow data"),
        ({"events": "text"}, "slot 'events': str is not Arrow data"),
        ({"events": deep(60)}, "slot 'events': a column nests deeper"),
        ({}, "the bundle is empty"),
        ({"events": None}, "the bundle is empty"),
        ({"events": pa.table({"s": ["x" * 60_000]})}, "the bundle takes 6"),
        ({"events": broken()}, "slot 'events': invalid Arrow data"),
        ([("events", 1)], "a bundle is a mapping"),
        (None, "a bundle is a mapping"),
    ],
    ids=[
        "unknown slot",
        "a list",
        "text",
        "too deep",
        "empty",
        "all absent",
        "too large",
        "invalid",
        "no mapping",
        "nothing",
    ],
)
def test_a_bad_bundle_is_refused_and_the_store_goes_on(
    opener, path: Path, value: object, words: str
) -> None:
    store = opener({"limits": {"entry_bytes": 50_000}})
    store.append(bundle(0))
    before = (path / "core_0/wal/quiver.wal").read_bytes()
    with pytest.raises(quiver.InputError) as caught:
        store.append(value)
    assert words in str(caught.value)
    assert (path / "core_0/wal/quiver.wal").read_bytes() == before
    store.append(bundle(1))
    store.finalize()
    assert numbers(store) == [0, 1]


@pytest.mark.parametrize(
    ("slots", "words"),
    [
        ([f"s{n}" for n in range(65)], "65 slots: a bundle has at most 64"),
        ([], "at least one slot"),
        (["a", "a"], "'a' (id 1) is in the table twice"),
        (["../a"], "slot name '../a' is not allowed"),
        ({"a": 64}, "slot id 64"),
        ("events", "'events' is one string"),
        (5, "5 is not a list of names"),
        ([3], "slot name 3 is not allowed"),
    ],
)
def test_a_bad_slot_table_is_refused_and_no_folder_is_made(
    path: Path, slots: object, words: str
) -> None:
    with pytest.raises(quiver.InputError) as caught:
        quiver.open(path, slots=slots)
    assert words in str(caught.value)
    assert not path.exists()


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"wal": {"max_sise": 1}}, "wal.max_sise: there is no such option (did you mean wal.max_s"),
        ({"wall": {}}, "wall: there is no such option (did you mean wal?)"),
        ({"wal": 3}, "wal: 3 is not a section"),
        ({"wal": {"flush_interval": "soon"}}, "'soon' is not a duration"),
        ({"wal": {"durability": "maybe"}}, "'maybe' is none of sync, interval, segment"),
        ({"segment": {"target_size": 0}}, "segment.target_size: must be above zero"),
        ({"wal": {"max_size": "1MB"}}, "is below limits.entry_bytes"),
        ({"retention": {"size_cap": "1MB"}}, "retention.size_cap (1000000) is below"),
    ],
)
def test_a_bad_option_names_its_key_path(path: Path, config: object, words: str) -> None:
    with pytest.raises(quiver.ConfigError) as caught:
        quiver.open(path, slots=SLOTS, config=config)
    assert words in str(caught.value)
    assert not path.exists()


def test_opening_nothing_says_how_to_create_it(path: Path) -> None:
    with pytest.raises(quiver.MissingError) as caught:
        quiver.open(path)
    assert isinstance(caught.value, FileNotFoundError)
    assert not path.exists()
    path.mkdir()
    with pytest.raises(quiver.MissingError, match="slots="):
        quiver.open(path)
    assert list(path.iterdir()) == []


def test_a_store_of_another_slot_table_is_refused_and_names_both(opener, path: Path) -> None:
    opener().close()
    with pytest.raises(quiver.VersionError) as caught:
        quiver.open(path, slots=["events", "remarks"])
    text = str(caught.value)
    assert quiver.SlotTable.of(SLOTS).digest().hex() in text
    assert quiver.SlotTable.of(["events", "remarks"]).digest().hex() in text
    opener().close()


def test_a_newer_format_is_refused(opener, path: Path) -> None:
    opener().close()
    manifest = path / "quiver.json"
    fields = json.loads(manifest.read_text()) | {"format": 2}
    manifest.write_text(json.dumps(fields))
    before = sorted(path.rglob("*"))
    with pytest.raises(quiver.VersionError, match="format 2"):
        quiver.open(path)
    assert sorted(path.rglob("*")) == before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": "x"}', "[" * 99999])
def test_a_manifest_that_is_not_readable_is_damage(opener, path: Path, text: str) -> None:
    opener().close()
    (path / "quiver.json").write_text(text)
    with pytest.raises((quiver.DamageError, quiver.VersionError)) as caught:
        quiver.open(path)
    assert "Traceback" not in str(caught.value)


def test_a_lost_manifest_is_not_replaced_by_another_identity(opener, path: Path) -> None:
    opener().close()
    (path / "quiver.json").unlink()
    with pytest.raises(quiver.DamageError, match=r"quiver\.json is missing"):
        opener()


def test_a_path_that_is_a_file_is_refused(path: Path) -> None:
    path.write_text("mine")
    with pytest.raises(quiver.StorageError, match="is not a folder"):
        quiver.open(path, slots=SLOTS)
    assert path.read_text() == "mine"


def test_a_folder_with_something_else_in_it_is_refused(path: Path) -> None:
    path.mkdir()
    (path / "thesis.tex").write_text("mine")
    with pytest.raises(quiver.InputError, match=r"thesis\.tex"):
        quiver.open(path, slots=SLOTS)
    assert [p.name for p in path.iterdir()] == ["thesis.tex"]


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """Root may write everywhere, so a child that gave root up tries."""
    folder = tmp_path / "sealed"
    folder.mkdir()
    folder.chmod(0o555)
    for parent in list(tmp_path.parents)[:-2]:
        parent.chmod(parent.stat().st_mode | 0o011)
    tmp_path.chmod(0o755)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            quiver.open(folder / "store", slots=SLOTS)
        except quiver.QuiverError as error:
            os.write(writer, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as answer:
        text = answer.read()
    assert text.startswith("StorageError: cannot open")
    assert "Permission denied" in text
    assert "the store needs a folder that this user can write" in text
    assert list(folder.iterdir()) == []


def test_a_second_writer_is_refused_and_told_who_writes(opener, path: Path) -> None:
    store = opener()
    store.append(bundle(0))
    code = f"""
        import quiver
        try:
            quiver.open({str(path)!r}, core=0)
        except quiver.LockedError as error:
            print(error.pid, error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    pid, _, message = done.stdout.partition(" ")
    assert int(pid) == os.getpid()
    assert f"process {os.getpid()}" in message
    with pytest.raises(quiver.LockedError):
        opener(core=0)
    store.append(bundle(1))
    store.close()
    opener().close()


@pytest.mark.parametrize(
    "name", ["", "a/b", "..", "a..b", "x" * 129, "na\nme", "ü", ".hidden", "a\0b", 7, None]
)
def test_a_bad_subscriber_name_is_refused(opener, name: object) -> None:
    store = opener()
    with pytest.raises(quiver.SubscriberError):
        store.subscribe(name)
    assert store.info().subscribers == ()


def test_resolving_twice_is_an_error_and_changes_nothing(opener) -> None:
    store = opener()
    store.append(bundle(0))
    store.finalize()
    handle = store.subscribe("reader").poll()
    handle.ack()
    for act in (handle.ack, handle.nack, handle.defer):
        with pytest.raises(quiver.SubscriberError):
            act()
    assert store.maintain() == 1


@pytest.mark.parametrize("timeout", ["soon", -1, float("nan")])
def test_a_bad_timeout_is_refused(opener, timeout: object) -> None:
    with pytest.raises(quiver.ConfigError, match="timeout"):
        opener().subscribe("reader").next(timeout)


@pytest.mark.parametrize("core", [-1, "0", 1.5, 10**6])
def test_a_bad_core_is_refused(path: Path, core: object) -> None:
    with pytest.raises(quiver.InputError, match="core"):
        quiver.open(path, slots=SLOTS, core=core)
    assert not path.exists()


def test_a_full_store_refuses_appends_and_takes_them_when_subscribers_have_acked(opener) -> None:
    config = {
        "segment": {"target_size": 4000},
        "limits": {"entry_bytes": 4000},
        "wal": {"max_size": 5000},
        "retention": {"size_cap": 150_000},
    }
    store = opener(config)
    subscriber = "reader"
    store.subscribe(subscriber)
    taken = 0
    with pytest.raises(quiver.CapacityError) as caught:
        for n in range(1000):
            store.append(bundle(n))
            taken += 1
    assert caught.value.retryable
    assert taken > 10
    assert numbers(store, subscriber)[0] == 0
    store.maintain()
    store.append(bundle(taken))
    store.finalize()
    assert numbers(store, subscriber)[-1] == taken


def test_drop_oldest_makes_room_and_writes_down_what_it_dropped(opener) -> None:
    config = {
        "segment": {"target_size": 4000},
        "limits": {"entry_bytes": 4000},
        "wal": {"max_size": 5000},
        "retention": {"size_cap": 150_000, "size_cap_policy": "drop_oldest"},
    }
    store = opener(config)
    store.subscribe("reader")
    for n in range(300):
        store.append(bundle(n))
    store.finalize()
    dropped = store.metrics()["quiver.subscriber.dropped_bundles", "reader"]
    delivered = numbers(store)
    assert dropped > 0
    assert delivered == list(range(dropped, 300))
