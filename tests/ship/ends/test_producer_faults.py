"""A store that fails while a producer sends: whoever waits learns the truth."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from ends_kit import WAIT, Rig

from quiver.errors import CapacityError, RemoteError
from quiver.ship.objects import Conflict, UnclearError
from quiver.ship.queue import QueueOptions


@pytest.fixture
def rig():
    rig = Rig()
    yield rig
    rig.close()


def failing(act: str, ending: str, error: Exception):
    """Make a hook that fails each act of a kind on keys that end so."""

    def hook(name: str, key: str) -> None:
        if name == act and key.endswith(ending):
            raise error

    return hook


def nothing(act: str, key: str) -> None:
    pass


def test_68_all_of_a_failed_flush_are_told_and_later_ones_work(rig) -> None:
    producer = rig.producer(flush_interval="1h")
    rig.bucket.before = failing("put", ".batch", RemoteError("refused"))
    handles = [producer.produce([b"a"]), producer.produce([b"b"])]
    with pytest.raises(RemoteError):
        producer.flush(WAIT)
    for handle in handles:
        assert handle.done
        assert handle.durable is None
        with pytest.raises(RemoteError) as told:
            handle.wait_durable(0)
        assert not isinstance(told.value, UnclearError)
    rig.bucket.before = nothing
    again = producer.produce([b"a"])
    producer.flush(WAIT)
    assert again.sequence == 0
    assert rig.sequences() == [0]
    counted = producer.metrics.read()
    assert counted["quiver.ship.flush_failures", ""] == 1
    assert counted["quiver.ship.flushed_batches", ""] == 1


def test_68_an_upload_without_an_answer_is_not_in_the_queue(rig) -> None:
    producer = rig.producer(flush_interval="1h")
    rig.bucket.after = failing("put", ".batch", UnclearError("no answer"))
    handle = producer.produce([b"a"])
    with pytest.raises(RemoteError) as told:
        producer.flush(WAIT)
    assert not isinstance(told.value, UnclearError)
    assert isinstance(handle.error, RemoteError)
    assert rig.sequences() == []


def test_68_an_append_without_an_answer_is_unclear_and_may_be_in(rig) -> None:
    producer = rig.producer(flush_interval="1h")
    rig.bucket.after = failing("put_if", "manifest", UnclearError("no answer"))
    rig.bucket.before = lambda act, key: _read_fails(rig, act)
    handle = producer.produce([b"a"])
    with pytest.raises(UnclearError):
        producer.flush(WAIT)
    assert isinstance(handle.error, UnclearError)
    rig.bucket.before = rig.bucket.after = nothing
    assert rig.sequences() == [0]


def _read_fails(rig: Rig, act: str) -> None:
    if act == "get" and rig.bucket.count("put_if"):
        raise UnclearError("no answer")


def test_59_an_append_whose_answer_is_lost_is_in_once(rig) -> None:
    """The answer alone is lost: what is read afterwards tells."""
    producer = rig.producer(flush_interval="1h")
    rig.bucket.after = failing("put_if", "manifest", UnclearError("no answer"))
    handle = producer.produce([b"a"])
    lost = rig.bucket.after

    def once(act: str, key: str) -> None:
        if act == "put_if":
            rig.bucket.after = nothing
        lost(act, key)

    rig.bucket.after = once
    producer.flush(WAIT)
    assert handle.sequence == 0
    assert rig.sequences() == [0]


def test_60_a_store_that_refuses_for_ever_is_given_up(rig) -> None:
    producer = rig.producer(flush_interval="1h")
    rig.bucket.before = failing("put_if", "manifest", Conflict("412", retryable=True))
    handle = producer.produce([b"a"])
    with pytest.raises(RemoteError):
        producer.flush(WAIT)
    assert handle.error is not None
    assert rig.bucket.count("put_if") < 100
    assert producer.conflict_rate == 100.0


def test_64_a_late_upload_goes_up_again_under_a_new_name(rig) -> None:
    producer = rig.producer(flush_interval="1h", late_after="5m")

    def slow_once(act: str, key: str) -> None:
        if act == "put" and rig.bucket.count("put", ".batch") == 1:
            rig.clock.step("6m")

    rig.bucket.after = slow_once
    handle = producer.produce([b"a"])
    producer.flush(WAIT)
    first, second = rig.batches()
    assert handle.durable.location == f"ingest/{second}"
    assert rig.sequences() == [0]
    assert producer.metrics.read()["quiver.ship.late_uploads", ""] == 1
    assert first != second


def test_64_a_machine_that_slept_notices_that_it_is_late(rig) -> None:
    """Its monotonic clock may have stood still meanwhile."""
    producer = rig.producer(flush_interval="1h")

    def sleep(act: str, key: str) -> None:
        if act == "put" and rig.bucket.count("put", ".batch") == 1:
            rig.clock.jump_to(rig.clock.wall_ns() + 3600 * 10**9)

    rig.bucket.after = sleep
    handle = producer.produce([b"a"])
    producer.flush(WAIT)
    assert handle.durable.location == f"ingest/{rig.batches()[1]}"


def test_64_an_upload_that_is_always_late_fails_and_is_not_in_the_queue(rig) -> None:
    producer = rig.producer(flush_interval="1h", late_after="5m")
    rig.bucket.after = lambda act, key: rig.clock.step("6m") if act == "put" else None
    handle = producer.produce([b"a"])
    with pytest.raises(RemoteError):
        producer.flush(WAIT)
    assert handle.error.retryable
    assert len(rig.batches()) == 3
    assert rig.sequences() == []


def test_64_an_append_that_came_after_its_batch_was_swept_puts_it_back(rig) -> None:
    producer = rig.producer(flush_interval="1h", late_after="5m")

    def swept_meanwhile(act: str, key: str) -> None:
        if act == "put_if" and key == "manifest":
            rig.clock.step("11m")
            rig.bucket.inner.delete(rig.batches())

    rig.bucket.before = swept_meanwhile
    handle = producer.produce([b"a"])
    producer.flush(WAIT)
    rig.bucket.before = nothing
    assert handle.sequence == 0
    assert [bytes(record) for record in rig.consumer().next_batch().records] == [b"a"]


@pytest.mark.parametrize("is_reachable", [True, False])
def test_64_a_late_append_without_an_answer_leaves_no_entry_that_blocks(rig, is_reachable) -> None:
    """The batch was swept, and the entry is in though nobody says so."""
    producer = rig.producer(flush_interval="1h", late_after="5m")

    def swept_meanwhile(act: str, key: str) -> None:
        if act == "put_if" and key == "manifest":
            rig.clock.step("11m")
            rig.bucket.inner.delete(rig.batches())
            rig.bucket.before = silent

    def silent(act: str, key: str) -> None:
        if act == "get" or (act == "list" and not is_reachable):
            raise UnclearError("no answer", path=key, retryable=True)

    rig.bucket.before = swept_meanwhile
    rig.bucket.after = failing("put_if", "manifest", UnclearError("no answer", retryable=True))
    handle = producer.produce([b"a"])
    with pytest.raises(UnclearError):
        producer.flush(WAIT)
    assert isinstance(handle.error, UnclearError)
    rig.bucket.before = rig.bucket.after = nothing
    assert rig.sequences() == [0]
    assert (len(rig.batches()) == 1) == is_reachable


def test_64_when_nobody_can_look_for_a_late_batch_that_is_said(rig) -> None:
    producer = rig.producer(flush_interval="1h", late_after="5m")

    def slow(act: str, key: str) -> None:
        if act == "put_if":
            rig.clock.step("6m")
        elif act == "list":
            raise RemoteError("no answer")

    rig.bucket.before = slow
    handle = producer.produce([b"a"])
    with pytest.raises(UnclearError):
        producer.flush(WAIT)
    assert isinstance(handle.error, UnclearError)


def test_a_full_queue_is_told_as_what_it_is(rig) -> None:
    from quiver.ship.producer import Producer

    queue = rig.queue(options=QueueOptions(entries_max=1))
    producer = Producer(queue, clock=rig.clock, flush_interval="1h")
    rig.users.append(producer)
    producer.produce([b"a"])
    producer.flush(WAIT)
    handle = producer.produce([b"b"])
    with pytest.raises(CapacityError):
        producer.flush(WAIT)
    assert isinstance(handle.error, CapacityError)


def test_a_flush_does_not_answer_for_a_batch_that_failed_before_it(rig) -> None:
    """Also if the thread that sent it is not back yet."""
    producer = rig.producer(flush_interval="1h")
    rig.bucket.before = failing("put", ".batch", RemoteError("refused"))
    handle = producer.produce([b"a"])
    told, go_on = threading.Event(), threading.Event()

    def linger() -> None:
        told.set()
        assert go_on.wait(WAIT)

    handle._outcome._listeners.append(linger)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(producer.flush, WAIT)
        assert told.wait(WAIT)
        with pytest.raises(RemoteError):
            first.result(WAIT)
        producer.flush(0)
        go_on.set()
    assert handle.error is not None


class Weak(bytearray):
    """Bytes that can be watched."""


def test_a_handle_keeps_no_records(rig) -> None:
    """Neither of a batch that is sent, nor of one that failed, whose error has a traceback."""
    producer = rig.producer(flush_interval="1h")
    handles, watched = [], []
    for hook in (nothing, failing("put", ".batch", RemoteError("refused"))):
        rig.bucket.before = hook
        record = Weak(b"x" * 1000)
        watched.append(weakref.ref(record))
        handles.append(producer.produce([record]))
        del record
        with contextlib.suppress(RemoteError):
            producer.flush(WAIT)
    gc.collect()
    assert [ref() for ref in watched] == [None, None]
    assert handles[0].sequence == 0
    assert handles[1].error is not None


def test_a_fault_of_ours_reaches_who_waits_and_the_thread_goes_on(rig) -> None:
    producer = rig.producer(flush_interval="1h")
    rig.bucket.before = failing("put", ".batch", ZeroDivisionError())
    handle = producer.produce([b"a"])
    with pytest.raises(ZeroDivisionError):
        producer.flush(WAIT)
    assert isinstance(handle.error, ZeroDivisionError)
    rig.bucket.before = nothing
    producer.produce([b"a"])
    producer.flush(WAIT)
    assert rig.sequences() == [0]


def test_67_a_producer_does_not_begin_a_queue_anew_that_it_knew(rig) -> None:
    producer = rig.producer(flush_interval="1h")
    producer.produce([b"a"])
    producer.flush(WAIT)
    rig.bucket.delete(["manifest"])
    handle = producer.produce([b"b"])
    with pytest.raises(Exception, match="gone"):
        producer.flush(WAIT)
    assert handle.error is not None
    assert rig.bucket.count("put_if", "manifest") == 2  # The second one met nothing.
