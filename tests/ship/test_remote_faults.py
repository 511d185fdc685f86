"""What a bucket says when a real server's answers are lost, late, spoiled or cut."""

from __future__ import annotations

import threading

import pytest
from fault_proxy import Fault, FaultProxy
from seaweed import options_for

from quiver.errors import MissingError, QuiverError, RemoteError
from quiver.ship.objects import Conflict, UnclearError, open_bucket, probe

FEW = {"max_retries": 2, "timeout": "20s"}


@pytest.fixture
def proxy(seaweed):
    with FaultProxy(seaweed.port) as proxy:
        yield proxy


@pytest.fixture
def bucket(proxy, queue_url):
    return open_bucket(queue_url, options={**options_for(proxy.endpoint), **FEW})


def test_the_proxy_changes_nothing_by_itself(bucket):
    probe(bucket)


LOST = {
    "dropped": Fault(),
    "500": Fault(status=500),
    "503": Fault(status=503),
}


@pytest.mark.parametrize("fault", LOST.values(), ids=LOST)
def test_a_conditional_put_whose_answer_is_lost_is_unclear_and_sent_once(bucket, proxy, fault):
    proxy.script.append(fault)
    with pytest.raises(UnclearError) as lost:
        bucket.put_if("x", b"1", None)
    assert lost.value.retryable
    assert proxy.count("PUT") == 1
    found = bucket.get("x")
    assert bytes(found.data) == b"1"  # It was done: whoever must know reads again.
    proxy.script.append(fault)
    with pytest.raises(UnclearError):
        bucket.put_if("x", b"2", found.tag)
    assert bytes(bucket.get("x").data) == b"2"
    assert proxy.count("PUT") == 2


@pytest.mark.parametrize("fault", [Fault(reaches=False), Fault(reaches=False, status=503)])
def test_a_conditional_put_that_never_arrived_is_unclear_too(bucket, proxy, fault):
    proxy.script.append(fault)
    with pytest.raises(UnclearError):
        bucket.put_if("x", b"1", None)
    with pytest.raises(MissingError):
        bucket.get("x")


def test_a_put_whose_answer_is_lost_is_sent_again(bucket, proxy):
    proxy.script.extend([Fault(), Fault(status=503)])
    tag = bucket.put("x", b"1")
    assert proxy.count("PUT") == 3
    assert bucket.get("x").tag == tag


@pytest.mark.parametrize("fault", [Fault(), Fault(status=500, reaches=False)])
def test_a_put_is_not_sent_for_ever(bucket, proxy, fault):
    proxy.for_ever = fault
    with pytest.raises(UnclearError):
        bucket.put("x", b"1")
    assert proxy.count("PUT") == 1 + FEW["max_retries"]


def test_an_answer_that_is_late_is_waited_for_and_then_unclear(proxy, queue_url):
    late = threading.Event()
    proxy.script.append(Fault(held=late))
    bucket = open_bucket(queue_url, options={**options_for(proxy.endpoint), "timeout": "250ms"})
    with pytest.raises(UnclearError, match="in time"):
        bucket.put_if("x", b"1", None)
    late.set()
    assert bytes(bucket.get("x").data) == b"1"


def test_an_answer_that_is_not_wanted_any_more_is_not_waited_for(proxy, queue_url):
    late = threading.Event()
    proxy.script.append(Fault(held=late))
    bucket = open_bucket(queue_url, options={**options_for(proxy.endpoint), "timeout": "100s"})
    with pytest.raises(UnclearError, match="in time") as found:
        bucket.put_if("x", b"1", None, within=0.4)
    assert found.value.retryable
    late.set()
    there = bucket.get("x")
    assert bytes(there.data) == b"1"
    assert bucket.put_if("x", b"2", there.tag, within=1e6) != there.tag
    assert proxy.count("PUT") == 2


def test_connections_with_less_patience_are_few_and_never_have_more(queue_url, seaweed):
    bucket = open_bucket(queue_url, options={**seaweed.options, "timeout": "3s"})
    found = {id(bucket._impatient(number / 1000)) for number in range(1, 2049, 7)}
    assert 2 < len(found) <= 12
    assert id(bucket._once) not in found
    assert bucket._impatient(2.1) is bucket._impatient(3600) is bucket._once


def test_412_for_ever_is_a_conflict_each_time_and_nothing_else(bucket, proxy):
    tag = bucket.put("x", b"1")
    proxy.for_ever = Fault(status=412, reaches=False)
    for number in range(1, 4):
        with pytest.raises(Conflict):
            bucket.put_if("x", b"2", tag)
        assert proxy.count("PUT") == 1 + number  # Nobody spins in here.
    with pytest.raises(RemoteError) as refused:
        probe(bucket)
    assert isinstance(refused.value, Conflict) or "refuses" in str(refused.value)


def test_409_says_look_again(bucket, proxy):
    proxy.script.append(Fault(status=409, reaches=False))
    with pytest.raises(Conflict):
        bucket.put_if("x", b"1", None)
    with pytest.raises(MissingError):
        bucket.get("x")
    proxy.script.append(Fault(status=409, reaches=False))
    with pytest.raises(RemoteError) as busy:
        bucket.put("x", b"1")
    assert busy.value.retryable
    assert not isinstance(busy.value, Conflict)


@pytest.mark.parametrize("fault", [Fault(cut=True), Fault(), Fault(status=503)])
def test_a_read_that_is_cut_is_read_again(bucket, proxy, fault):
    data = bytes(range(256)) * 10_000
    tag = bucket.put("x", data)
    proxy.matches = lambda seen: seen.method == "GET"
    proxy.script.append(fault)
    found = bucket.get("x")
    assert bytes(found.data) == data
    assert found.tag == tag
    proxy.for_ever = fault
    with pytest.raises(UnclearError):
        bucket.get("x")
    with pytest.raises(UnclearError):
        bucket.get_if_changed("x", "another")


def test_what_is_refused_for_good_is_not_retryable(bucket, proxy):
    bucket.put("x", b"1")
    proxy.matches = lambda seen: True
    for status in (400, 403, 307):
        proxy.for_ever = Fault(status=status, reaches=False)
        for act in (
            lambda: bucket.get("x"),
            lambda: bucket.put("x", b"2"),
            lambda: bucket.put_if("x", b"2", None),
            lambda: list(bucket.list("")),
        ):
            with pytest.raises(RemoteError) as refused:
                act()
            assert not refused.value.retryable, (status, refused.value)
            assert not isinstance(refused.value, UnclearError)


def test_a_read_that_asked_nothing_is_not_told_that_nothing_changed(bucket, proxy):
    bucket.put("x", b"1")
    proxy.matches = lambda seen: seen.method == "GET"
    proxy.for_ever = Fault(status=304)
    with pytest.raises(RemoteError):
        bucket.get("x")


def test_what_could_not_be_deleted_is_told(bucket, proxy):
    keys = [f"{number}" for number in range(5)]
    for key in keys:
        bucket.put(key, b"1")
    proxy.matches = lambda seen: seen.method in ("POST", "DELETE")
    proxy.for_ever = Fault(reaches=False)
    assert sorted(bucket.delete(keys)) == keys
    asked = len([seen for seen in proxy.seen if seen.method in ("POST", "DELETE")])
    assert asked == 2 * (1 + FEW["max_retries"])  # All together, then one: it gives no answer.
    proxy.for_ever = None
    proxy.script.extend([Fault(status=400, reaches=False)] * 2)
    assert len(bucket.delete(keys)) == 1
    assert len(list(bucket.list(""))) == 1
    assert bucket.delete(keys) == []


def test_a_bucket_that_is_not_there_is_no_empty_one(seaweed):
    bucket = open_bucket("s3://elsewhere/q", options=seaweed.options)
    with pytest.raises(RemoteError, match="no such bucket"):
        bucket.get("manifest")


SECRETS = {
    "secret_access_key": "v3ry-s3cret-key",
    "access_key_id": "AKIDSECRETID",
    "session_token": "t0ken-of-the-session",
}


def test_credentials_are_in_no_message_and_no_repr(proxy, queue_url):
    bucket = open_bucket(queue_url, options={**options_for(proxy.endpoint), **SECRETS, **FEW})
    told = [repr(bucket), bucket.place, repr(bucket._settings)]
    for fault in (None, Fault(), Fault(status=503), Fault(status=403, reaches=False)):
        proxy.for_ever = fault
        for act in (
            lambda: bucket.get("x"),
            lambda: bucket.put_if("x", b"", None),
            lambda: list(bucket.list("")),
        ):
            with pytest.raises(QuiverError) as refused:
                act()
            error = refused.value
            assert error.__cause__ is None
            assert error.__suppress_context__
            told += [str(error), repr(error), repr(vars(error))]
    assert len(told) == 3 + 4 * 3 * 3
    assert [text for text in told for secret in SECRETS.values() if secret in text] == []
