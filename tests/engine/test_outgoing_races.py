"""What two threads may find between two steps of one of them, while the disk refuses entries."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
from gated_disk import PATIENCE, GatedDisk
from outgoing_kit import QUIET, fill, is_entry, numbers_after, send
from receipt_kit import after_power_cuts
from store_kit import bundle

import quiver
from quiver.engine.outgoing import Outgoing

pytestmark = pytest.mark.usefixtures("no_ticks")


def in_a_thread(act: Callable[[], object]) -> list[Any]:
    """What came of something that another thread did."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(act())
        except quiver.QuiverError as error:
            found.append(type(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    return found


@pytest.mark.parametrize("act", ["wait", "flush"])
def test_nobody_takes_what_is_being_refused_for_durable(
    disk: GatedDisk, open_gated, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    store = open_gated(wal=QUIET)
    receipts = send(store, 0, 1)
    fill(disk, store, 0)
    let_go, found = Outgoing._let_go, []

    def let_go_and_look(outgoing: Outgoing, count: int, place: Any) -> None:
        let_go(outgoing, count, place)
        if count and place is None and not found:
            found.extend(in_a_thread({"wait": receipts[1].wait, "flush": store.flush}[act]))

    monkeypatch.setattr(Outgoing, "_let_go", let_go_and_look)
    with contextlib.suppress(quiver.CapacityError):  # Unless the other thread was told.
        store.finalize()
    assert found == [quiver.CapacityError]
    disk.heal()
    assert not any(receipt.is_durable for receipt in receipts)
    assert all(kept == [] for kept in after_power_cuts(disk))


def test_who_finds_bytes_gone_finds_the_place_of_their_entry(
    open_gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = []

    def count(outgoing: Outgoing, byte_count: int) -> None:
        if byte_count and not outgoing.__dict__.get("gone"):
            places.append(receipt._ticket.place)
        outgoing.__dict__["gone"] = byte_count

    gone = property(lambda outgoing: outgoing.__dict__["gone"], count)
    monkeypatch.setattr(Outgoing, "gone_bytes", gone, raising=False)
    store = open_gated(wal=QUIET)
    [receipt] = send(store, 0)
    store.flush()
    assert places != []
    assert None not in places


def test_a_disk_that_has_room_again_leaves_nothing_to_be_refused(
    disk: GatedDisk, open_gated
) -> None:
    """It has it when all was tried in vain, and somebody else is faster at trying again."""
    store = open_gated(wal=QUIET)
    receipts = send(store, 0, 1)
    fill(disk, store, 0)
    core = store._core

    class Turn:
        """The log's turn, for which whoever settles waits for the third time."""

        asked = 0

        def __init__(self, turn: Any) -> None:
            self.turn = turn

        def __enter__(self) -> Any:
            if threading.current_thread() is threading.main_thread():
                self.asked += 1
                if self.asked == 3:
                    disk.heal()
                    assert in_a_thread(lambda: core.outgoing.write_some(core)) == [True]
            return self.turn.__enter__()

        def __exit__(self, *raised: object) -> None:
            self.turn.__exit__(*raised)

        def _is_owned(self) -> bool:
            return self.turn._is_owned()

    real, core.log.turn = core.log.turn, Turn(core.log.turn)
    assert store.append(bundle(2)) == 2
    core.log.turn = real
    assert [receipt.wait() for receipt in receipts] == [0, 1]
    assert numbers_after(store) == [0, 1, 2]


def test_files_that_are_kept_to_be_written_over_go_before_a_bundle_is_refused(
    disk: GatedDisk, open_gated
) -> None:
    store = open_gated(
        wal={**QUIET, "reclaim": "recycle", "rotate_size": 4096, "reclaim_size": 1024}
    )
    number = 0
    while not len(store._core.log._spares):
        store.append(bundle(number))
        store.finalize()
        number += 1
        assert number < 100
    receipts = send(store, number, number + 1)
    assert all(receipt._ticket.place is None for receipt in receipts)
    disk.fail(
        lambda act: is_entry(act) and len(store._core.log._spares) > 0, error="ENOSPC", sticky=True
    )
    assert [receipt.wait() for receipt in receipts] == [number, number + 1]
    assert not len(store._core.log._spares)
