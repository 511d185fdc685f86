"""Files in memory: seen as long as anybody looks, and without a descriptor for each."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest
from held_files import files_held

import quiver
from quiver.disk import LocalDisk, is_mapped, let_go, read_along
from quiver.disk.mapping import MAPPED, map_file, map_of
from quiver.errors import StorageError

SEGMENTS = 200
PROGRAM = """
    import resource, sys, quiver

    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
    path = sys.argv[1]
    table = quiver.scan(path, slot="a").to_table()
    batches = list(quiver.scan(path, slot="a").to_reader())
    with quiver.cursor(path) as cursor:
        messages = [message.bundle["a"] for message in cursor]
    with quiver.subscribe(path, "beside") as consumer:
        handles = list(iter(consumer.poll, None))
        beside = [handle["a"] for handle in handles]
        for handle in handles:
            handle.defer()
    with quiver.open(path, worker=False) as store:
        subscription = store.subscribe("inside")
        inside = []
        while (handle := subscription.poll()) is not None:
            inside.append(handle["a"])
            handle.ack()
    print(len(table), *map(len, (batches, messages, beside, inside)))
"""


def is_in_memory(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


def test_a_map_keeps_no_descriptor_and_goes_with_its_last_view(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"some bytes" * 1000)
    disk = LocalDisk(tmp_path)
    before = files_held(tmp_path)
    view = disk.map("file")
    assert files_held(tmp_path) == before
    path.unlink()
    part = view[5:10]
    buffer = pa.py_buffer(view)
    address, length = map_of(part)
    assert (bytes(part), length, view.readonly, view.format) == (b"bytes", 10_000, True, "B")
    assert address in MAPPED
    del view, part
    assert bytes(buffer[:4]) == b"some"
    assert is_in_memory(path)
    del buffer
    assert address not in MAPPED
    assert not is_in_memory(path)


def test_what_is_no_map_is_not_taken_for_one(tmp_path):
    (tmp_path / "file").write_bytes(b"some bytes")
    view = LocalDisk(tmp_path).map("file")
    for other in (b"some bytes", pa.py_buffer(b"some bytes"), bytearray(view)):
        assert not is_mapped(memoryview(other))
    assert is_mapped(view)
    let_go(view)
    read_along(view, 0, 100)
    assert bytes(view) == b"some bytes"


def test_what_the_system_does_not_map_is_an_error_with_its_path(tmp_path, monkeypatch):
    with pytest.raises(OSError, match="Bad file") as caught:
        map_file(10**6, 1)
    assert caught.value.errno == errno.EBADF
    (tmp_path / "file").write_bytes(b"some bytes")
    monkeypatch.setattr("quiver.disk.local.map_file", refuse)
    with pytest.raises(StorageError, match=r"cannot map .*/file: Cannot allocate memory"):
        LocalDisk(tmp_path).map("file")


def refuse(descriptor: int, length: int) -> memoryview:
    raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))


def test_more_segments_are_in_hand_than_a_process_may_have_files(tmp_path):
    """And what is in hand at the end of the process is in nobody's way."""
    config = {"wal": {"durability": "segment"}}
    with quiver.open(tmp_path, slots=["a"], config=config, worker=False) as store:
        store.subscribe("inside")
        for number in range(SEGMENTS):
            store.append({"a": pa.record_batch({"n": [number]})})
            store.finalize()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [str(SEGMENTS)] * 5
