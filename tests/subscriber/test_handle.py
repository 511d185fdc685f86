"""What a consumer can do with a bundle in its hands."""

import warnings

import pytest

from quiver.errors import ConfigError, PoisonedError, SubscriberError
from quiver.subscriber import BundleHandle, Claim

CLAIM = Claim(1, 42, 7, 3)


class Recorder:
    """A delivery that writes down what it was asked, and refuses what it is told to."""

    def __init__(self):
        self.calls = []
        self.refused = None

    def _note(self, *call):
        if self.refused is not None:
            raise self.refused
        self.calls.append(call)

    def read(self, claim, slot):
        self._note("read", slot)
        return f"batch of {slot}"

    def ack(self, claim):
        self._note("ack", claim)

    def nack(self, claim, *, retry_after_ns, reason):
        self._note("nack", retry_after_ns, reason)

    def defer(self, claim):
        self._note("defer", claim)

    def defer_later(self, claim):
        self._note("defer_later", claim)


@pytest.fixture
def delivery():
    return Recorder()


@pytest.fixture
def handle(delivery):
    handle = BundleHandle(
        CLAIM, delivery, subscriber="spark", slots=["logs", "attrs"], wal_seq=99, ingestion_ns=5
    )
    yield handle
    if not handle.resolved:
        delivery.refused = None
        handle.defer()


def test_a_handle_knows_which_bundle_it_is(handle):
    assert (handle.segment_seq, handle.bundle_index, handle.attempt) == (42, 7, 3)
    assert (handle.subscriber, handle.wal_seq, handle.ingestion_ns) == ("spark", 99, 5)
    assert repr(handle) == "<bundle 7 of segment 42 for 'spark', attempt 3, open>"


def test_only_what_is_asked_for_is_read_and_only_once(handle, delivery):
    assert (list(handle), len(handle), "logs" in handle, "x" in handle) == (
        ["logs", "attrs"],
        2,
        True,
        False,
    )
    assert delivery.calls == []
    assert handle["attrs"] == handle["attrs"] == "batch of attrs"
    assert delivery.calls == [("read", "attrs")]
    with pytest.raises(KeyError):
        handle["x"]
    assert handle.get("x") is None


def test_what_was_read_stays_readable_after_the_outcome_and_the_rest_does_not(handle):
    handle["logs"]
    handle.ack()
    assert handle["logs"] == "batch of logs"
    assert list(handle) == ["logs", "attrs"]
    with pytest.raises(SubscriberError, match="not read"):
        handle["attrs"]


def test_a_clean_block_acks(handle, delivery):
    with handle as same:
        assert same is handle
    assert delivery.calls == [("ack", CLAIM)]


def test_a_block_that_raises_nacks_with_the_name_of_the_error_and_lets_it_through(handle, delivery):
    with pytest.raises(ZeroDivisionError), handle:
        raise ZeroDivisionError
    assert delivery.calls == [("nack", None, "ZeroDivisionError")]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_block_left_by_an_interrupt_defers(handle, delivery, interrupt):
    with pytest.raises(interrupt), handle:
        raise interrupt
    assert delivery.calls == [("defer", CLAIM)]


@pytest.mark.parametrize("outcome", ["ack", "nack", "defer"])
@pytest.mark.parametrize("raises", [False, True])
def test_an_explicit_outcome_wins_over_the_end_of_the_block(handle, delivery, outcome, raises):
    def work():
        with handle:
            getattr(handle, outcome)()
            if raises:
                raise ValueError("mine")

    if raises:
        with pytest.raises(ValueError, match="mine"):
            work()
    else:
        work()
    assert [call[0] for call in delivery.calls] == [outcome]


@pytest.mark.parametrize("second", ["ack", "nack", "defer"])
@pytest.mark.parametrize("first", ["ack", "nack", "defer"])
def test_a_second_outcome_is_an_error(handle, delivery, first, second):
    getattr(handle, first)()
    with pytest.raises(SubscriberError, match="has its outcome already"):
        getattr(handle, second)()
    assert len(delivery.calls) == 1


@pytest.mark.parametrize(
    "retry_after, wait_ns",
    [(None, None), (2, 2_000_000_000), (0.5, 500_000_000), ("5s", 5_000_000_000), (0, 0)],
)
def test_a_nack_may_say_when_to_come_again(handle, delivery, retry_after, wait_ns):
    handle.nack(retry_after, reason="busy")
    assert delivery.calls == [("nack", wait_ns, "busy")]


@pytest.mark.parametrize("retry_after", ["soon", -1, float("nan"), True])
def test_a_nack_with_a_bad_time_is_no_outcome(handle, delivery, retry_after):
    with pytest.raises(ConfigError, match="retry_after"):
        handle.nack(retry_after)
    assert not handle.resolved
    assert delivery.calls == []


def test_an_outcome_that_could_not_be_written_was_not_given(handle, delivery):
    delivery.refused = PoisonedError("no sync")
    with pytest.raises(PoisonedError), handle:
        pass
    assert not handle.resolved
    delivery.refused = None
    handle.ack()
    assert delivery.calls == [("ack", CLAIM)]


def test_a_read_that_fails_may_be_tried_again(handle, delivery):
    delivery.refused = PoisonedError("no map")
    with pytest.raises(PoisonedError):
        handle["logs"]
    delivery.refused = None
    assert handle["logs"] == "batch of logs"


def test_a_handle_lost_without_an_outcome_is_given_back_with_a_warning(delivery):
    handle = BundleHandle(CLAIM, delivery, subscriber="spark", slots=["logs"])
    with pytest.warns(ResourceWarning, match="bundle 7 of segment 42"):
        del handle  # Its last reference, so it goes here.
    assert delivery.calls == [("defer_later", CLAIM)]


def test_a_resolved_handle_goes_quietly(delivery):
    handle = BundleHandle(CLAIM, delivery, subscriber="spark", slots=["logs"])
    handle.ack()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del handle
    assert delivery.calls == [("ack", CLAIM)]


def test_two_handles_are_equal_only_if_they_are_the_same(handle, delivery):
    other = BundleHandle(CLAIM, delivery, subscriber="spark", slots=["logs", "attrs"])
    assert handle != other
    assert len({handle, other}) == 2
    other.defer()
