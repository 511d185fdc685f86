"""Many splits as one source: fair, bounded, awake when it has to be."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from toy_source import ToySource, toy_state

from quiver.errors import ClosedError, ConfigError, InputError, SourceError
from quiver.source import ConnectorSource, MessageParser, SourceLimits, Split


def splits(*names: str) -> list[Split]:
    return [Split(name) for name in names]


def test_each_split_comes_in_its_turn() -> None:
    source = ToySource({"a": range(8), "b": range(8), "c": range(2)})
    with ConnectorSource(source, splits("a", "b", "c"), threads=False) as whole:
        order = [whole.poll().split for _ in range(9)]
        assert order == ["a", "b", "c", "a", "b", "a", "b", "a", "b"]
        assert whole.poll() is None


def test_a_split_that_is_full_or_stuck_takes_nothing_from_the_others() -> None:
    source = ToySource({"a": range(1000), "b": [1]}, batch_rows=1)
    limits = SourceLimits(batches_max=8)
    with ConnectorSource(source, splits("a", "b"), limits=limits) as whole:
        first = [whole.next(10).split for _ in range(3)]
        assert Counter(first)["b"] <= 1
        counts = Counter(first)
        for _ in range(100):
            if counts["b"]:
                break
            counts[whole.next(10).split] += 1
        assert counts["b"] == 1
        ahead = [len(lane.queue) for lane in whole._lanes]
        assert ahead[0] <= 4


def test_what_is_read_ahead_is_bounded_in_bytes_and_one_batch_always_fits() -> None:
    source = ToySource({"a": range(100_000)}, batch_rows=1000)
    with ConnectorSource(source, splits("a"), limits=SourceLimits(bytes_max=30_000)) as whole:
        (lane,) = whole._lanes
        for _ in range(50):
            chunk = whole.next(10)
            assert lane.queue_bytes <= 30_000 + chunk.nbytes
    with ConnectorSource(source, splits("a"), limits=SourceLimits(bytes_max=1)) as whole:
        assert whole.next(10).batch.num_rows == 1000
    for wrong in ({"bytes_max": 0}, {"batches_max": 0}):
        with pytest.raises(ConfigError):
            SourceLimits(**wrong)


def test_states_are_of_what_was_taken_and_not_of_what_was_read() -> None:
    source = ToySource({"a": range(10), "b": range(10)})
    with ConnectorSource(source, splits("a", "b"), states={"b": toy_state(4)}) as whole:
        assert whole.states == {"a": None, "b": toy_state(4)}
        chunk = whole.next(10)
        expected = {"a": None, "b": toy_state(4)} | {chunk.split: chunk.state}
        assert whole.states == expected


def test_what_fails_is_raised_behind_what_was_read_before_it() -> None:
    source = ToySource({"a": range(2), "b": range(2)})
    with ConnectorSource(source, splits("a", "b"), threads=False) as whole:
        assert whole.poll().split == "a"
        source.failing["a"] = SourceError("gone")
        assert whole.poll().split == "b"
        for _ in range(2):
            with pytest.raises(SourceError, match="gone"):
                whole.poll()
        assert whole.states == {"a": toy_state(2), "b": toy_state(2)}


def test_a_reader_that_cannot_be_made_is_a_failure_of_its_split() -> None:
    source = ToySource({"a": range(2)})
    with (
        ConnectorSource(source, splits("a"), states={"a": "no state"}) as whole,
        pytest.raises(InputError, match="no state of a split"),
    ):
        assert whole.next(10) is None
        whole.next(10)


def test_without_splits_it_waits_and_a_close_wakes_it() -> None:
    whole = ConnectorSource(ToySource({}), [])
    assert whole.poll() is None
    ended = []
    waiter = threading.Thread(target=lambda: ended.append(whole.next(600)), daemon=True)
    waiter.start()
    whole.close()
    waiter.join(30)
    assert not waiter.is_alive()
    with pytest.raises(ClosedError):
        whole.poll()


def test_a_close_lets_every_reader_go_also_while_they_wait() -> None:
    source = ToySource({"a": range(2), "b": []})
    whole = ConnectorSource(source, splits("a", "b"))
    assert whole.next(30) is not None
    whole.close()
    whole.close()
    assert all(reader.is_closed for reader in source.readers)
    assert not any(thread.is_alive() for thread in whole._threads)


def test_a_drained_split_ends_its_thread() -> None:
    source = ToySource({"a": range(3), "b": range(3)})
    source.ended = {"a"}
    with ConnectorSource(source, splits("a", "b"), threads=False) as whole:
        for _ in range(8):
            whole.poll()
        assert whole.drained == {"a"}


def test_what_cannot_be_is_refused() -> None:
    source = ToySource({"a": []})
    with pytest.raises(InputError, match="given twice"):
        ConnectorSource(source, splits("a", "a"))
    import pyarrow as pa

    parser = MessageParser("bytes", pa.schema([("x", pa.binary())]))
    with pytest.raises(InputError, match="columns are given twice"):
        ConnectorSource(source, splits("a"), columns=["value"], parser=parser)
