"""What is told of bundles that subscribers have before their segment."""

from __future__ import annotations

from store_kit import bundle, numbers, on_memory

from quiver.engine import forgoing, sealed
from quiver.testing import MemoryDisk


def test_a_segment_that_nobody_needs_is_told(heard) -> None:
    store = on_memory(MemoryDisk())
    store.subscribe("reader")
    store.ack_early("reader", [store.append(bundle(0))])
    core = store._core
    with core.events.telling(), core.lock:
        sealed.seal(core)
        assert forgoing.forgo(core)
    (told,) = heard.of("segment.forgone")
    assert (told["segment_seq"], told["bundle_count"]) == (0, 1)


def test_what_was_had_and_cannot_be_written_down_is_told_and_comes_again(heard) -> None:
    disk = MemoryDisk()
    store = on_memory(disk)
    store.subscribe("reader")
    store.ack_early("reader", [store.append(bundle(0))])
    disk.fail(lambda act: act.path.endswith("ack.log"), error="ENOSPC")
    store.finalize()
    (told,) = heard.of("subscriber.early_acks_lost")
    assert told["subscriber"] == "reader"
    disk.heal()
    assert numbers(store) == [0]
