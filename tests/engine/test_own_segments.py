"""Segments that a store wrote itself: checksums are checked, values were looked at before."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

import quiver
from quiver import ipc_alike, ipc_file
from quiver.engine import open as open_store
from quiver.testing import MemoryDisk
from tests.kit.follow_kit import killed

NAMES = ["n", "w", "t"]
WAYS: dict[str, dict[str, Any]] = {
    "kept": {"dictionaries": "keep", "target_size": "16MiB"},
    "united": {"dictionaries": "unite"},
    "compressed": {"compression": "lz4"},
}


def bundle(number: int) -> dict[str, pa.RecordBatch]:
    words = pa.array([f"w{n % 7}" for n in range(900)]).dictionary_encode()
    texts = pa.array([f"{number} {n} é" for n in range(900)])
    return {"a": pa.record_batch({"n": [number] * 900, "w": words, "t": texts})}


def opened(disk: MemoryDisk, **segment: Any) -> quiver.Store:
    return open_store(
        "store", slots=["a"], config={"segment": segment}, disk=disk, worker=False, core=0
    )


def filled(disk: MemoryDisk, **segment: Any) -> quiver.Store:
    store = opened(disk, **segment)
    store.subscribe("x")
    store.subscribe("y")
    for number in range(9):
        store.append(bundle(number))
    store.finalize()
    return store


def numbers(store: quiver.Store, name: str = "x") -> list[int]:
    found, subscription = [], store.subscribe(name)
    while (each := subscription.poll()) is not None:
        number = each["a"].column(0)[0].as_py()
        assert each["a"].equals(bundle(number)["a"])
        found.append(number)
        each.ack()
    return found


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note each look at values."""
    seen: list[str] = []

    def noted(module: Any, name: str) -> None:
        honest = getattr(module, name)

        def look(rows: Any, *more: Any) -> Any:
            if rows.schema.names == NAMES:  # Else it is one of the segment's own tables.
                seen.append(name)
            return honest(rows, *more)

        monkeypatch.setattr(module, name, look)

    noted(ipc_alike, "check_batch")
    for name in ("check_batch", "validate_table", "validate_later"):
        noted(ipc_file, name)
    return seen


@pytest.mark.parametrize("how", WAYS)
def test_values_are_looked_at_by_who_did_not_write_them(looks: list[str], how: str) -> None:
    disk = MemoryDisk()
    store = filled(disk, **WAYS[how])
    assert numbers(store) == list(range(9))
    assert looks == []
    store.close()
    assert numbers(opened(disk), "y") == list(range(9))
    assert looks


def test_what_was_in_the_log_before_this_process_came_is_looked_at(looks: list[str]) -> None:
    disk = MemoryDisk()
    store = opened(disk)
    store.subscribe("x")
    store.subscribe("y")
    for number in range(9):
        store.append(bundle(number))
    killed(store)
    store = opened(disk)
    store.append(bundle(9))
    store.finalize()
    looks.clear()
    assert numbers(store) == list(range(10))
    assert looks


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7])
def test_rot_in_a_segment_of_ones_own_is_found(how: str, share: float) -> None:
    disk = MemoryDisk()
    store = filled(disk, **WAYS[how])
    path = "core_0/segments/0000000000000000.qseg"
    place = int(disk.stat(path).size * share)
    with closing(disk.open(path, writable=True)) as file:
        file.write(place, bytes([file.read(place, 1)[0] ^ 0x10]))
    found = numbers(store)
    assert len(found) < 9, "a byte of a text was changed"
