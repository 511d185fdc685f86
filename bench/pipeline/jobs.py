"""The same job in four forms: without a store and with one, in one thread and in two."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import quiver
from bench.pipeline.sink import FILE_BUNDLES, Sink
from bench.pipeline.source import SLOTS, bundles
from quiver.engine.receipt import Receipt

__all__ = ["plain", "plain_threads", "through", "through_threads"]

CONFIG: Final = {"wal": {"durability": "sync"}}
_ENDED: Final[Any] = object()


def plain(text: Path, folder: Path) -> None:
    """Decode, transform and write, one after the other."""
    sink = Sink(folder / "out")
    for bundle in bundles(text):
        sink.add(bundle)
    sink.write()


def plain_threads(text: Path, folder: Path) -> None:
    """The same with the sink in a thread of its own, behind a queue in memory."""
    waiting: queue.Queue[Any] = queue.Queue(maxsize=FILE_BUNDLES)

    def write() -> None:
        sink = Sink(folder / "out")
        while (bundle := waiting.get()) is not _ENDED:
            sink.add(bundle)
        sink.write()

    def feed() -> None:
        try:
            for bundle in bundles(text):
                waiting.put(bundle)
        finally:
            waiting.put(_ENDED)

    _beside(write, feed)


def through(text: Path, folder: Path) -> dict[str, float]:
    """With a store between transform and sink: the one thread appends, and takes what is ready.

    Gives the seconds of each part of what the store does in this thread, and of its own threads.
    """
    sink = Sink(folder / "out")
    spent: dict[str, float] = {}
    with _spending(spent, "open"):
        store = quiver.open(folder / "store", slots=SLOTS, config=CONFIG)
    with store:
        ready = store.subscribe("parquet")
        receipt: Receipt | None = None
        count = 0
        for bundle in bundles(text):
            with _spending(spent, "append"):
                receipt = store.append(bundle, wait=False)
            count += 1
            _take(ready, sink, spent)
        with _spending(spent, "last_finalize"):
            _end(store, receipt)
        while sink.bundle_count < count:
            _take(ready, sink, spent)
        sink.write()
        threads = cpu_of_threads()
        with _spending(spent, "close"):
            store.close()
    return threads | spent


@contextmanager
def _spending(spent: dict[str, float], name: str) -> Iterator[None]:
    """Add the time of a block, by the clock, to what was spent under a name."""
    begun = time.perf_counter()
    yield
    spent[name] = spent.get(name, 0.0) + time.perf_counter() - begun


def through_threads(text: Path, folder: Path) -> dict[str, float]:
    """The same with the sink in a thread of its own."""
    with quiver.open(folder / "store", slots=SLOTS, config=CONFIG) as store:
        ready = store.subscribe("parquet")

        def write() -> None:
            sink = Sink(folder / "out")
            while (run := ready.next_run(sink.room)) is not None:
                sink.add({slot: run.table(slot) for slot in SLOTS}, run.ack, count=len(run))
                if sink.bundle_count == fed.get("count"):
                    break
            sink.write()

        def feed() -> None:
            receipt: Receipt | None = None
            count = 0
            for bundle in bundles(text):
                receipt = store.append(bundle, wait=False)
                count += 1
            fed["count"] = count
            _end(store, receipt)

        fed: dict[str, int] = {}
        _beside(write, feed)
        return cpu_of_threads()


def cpu_of_threads() -> dict[str, float]:
    """Say for how many seconds each thread of the store was on a processor."""
    return {
        thread.name: int(
            Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()[0]
        )
        / 1e9
        for thread in threading.enumerate()
        if thread.name.startswith("quiver-")
    }


def _take(ready: Any, sink: Sink, spent: dict[str, float]) -> None:
    """Give the sink all that is in segments by now; a bundle is acked once its files are synced."""
    while True:
        with _spending(spent, "delivery"):
            run = ready.poll_run(sink.room)
            tables = {} if run is None else {slot: run.table(slot) for slot in SLOTS}
        if run is None:
            return

        def ack(run: Any = run) -> None:
            with _spending(spent, "acks"):
                run.ack()

        sink.add(tables, ack, count=len(run))


def _end(store: quiver.Store, receipt: Receipt | None) -> None:
    """See to it that all is durable, and let the subscriber have it."""
    if receipt is not None:
        receipt.wait()
    store.finalize()


def _beside(act: Callable[[], None], other: Callable[[], None]) -> None:
    """Do one thing in a thread and another one here; raises what either raised."""
    failed: list[BaseException] = []

    def guarded() -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 Raised below, in the thread that asked.
            failed.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    try:
        other()
    finally:
        thread.join()
    if failed:
        raise failed[0]
