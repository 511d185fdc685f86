"""What etcd's driver says when a real etcd dies, forgets, or its answers are lost or spoiled."""

from __future__ import annotations

import base64
import http.client
import itertools
import json
from contextlib import closing
from types import SimpleNamespace

import pytest
from etcd_kit import etcd_missing, running_etcd
from fault_proxy import Fault, FaultProxy

from quiver.chain.metadata import EtcdMetadata, EtcdOptions, swap
from quiver.chain.metadata.gateway import Gateway
from quiver.errors import ConfigError, InputError, MissingError, RemoteError
from quiver.ship.objects import Conflict, UnclearError
from quiver.testing.manual_clock import ManualClock

COUNT = itertools.count()
CLOCK = ManualClock()
PATIENT = EtcdOptions(timeout=20.0)

pytestmark = pytest.mark.skipif(bool(etcd_missing()), reason=etcd_missing() or "-")


@pytest.fixture
def proxy(etcd):
    with FaultProxy(etcd.port) as proxy:
        proxy.matches = lambda seen: seen.path.endswith("/txn")
        yield proxy


def through(proxy, *, dead=()):
    port = int(proxy.endpoint.rpartition(":")[2])
    endpoints = [*(("127.0.0.1", port) for port in dead), ("127.0.0.1", port)]
    return EtcdMetadata(endpoints, f"f{next(COUNT)}", options=PATIENT)


def txns(proxy):
    return sum(seen.path.endswith("/txn") for seen in proxy.seen)


@pytest.mark.parametrize("fault", [Fault(), Fault(status=503), Fault(cut=True)])
def test_a_cas_whose_answer_is_lost_is_unclear_and_sent_once(proxy, fault):
    metadata = through(proxy)
    proxy.script.append(fault)
    with pytest.raises(UnclearError) as lost:
        metadata.cas("x", None, b"1")
    assert lost.value.retryable
    assert txns(proxy) == 1
    assert metadata.get("x").data == b"1"


@pytest.mark.parametrize("fault", [Fault(), Fault(reaches=False), Fault(cut=True)])
def test_a_swap_knows_how_it_ended(proxy, fault):
    metadata = through(proxy)
    proxy.script.append(fault)
    assert swap(metadata, "x", None, data=b"1 me", clock=CLOCK)
    was = metadata.get("x")
    proxy.script.append(fault)
    assert swap(metadata, "x", was, data=b"2 me", clock=CLOCK)
    proxy.script.append(fault)
    assert not swap(metadata, "x", was, data=b"2 you", clock=CLOCK)
    assert metadata.get("x").data == b"2 me"


def test_a_swap_of_what_was_deleted_is_none_of_ours(proxy):
    metadata = through(proxy)
    metadata.cas("x", None, b"1")
    was = metadata.get("x")
    metadata.delete("x")
    assert not swap(metadata, "x", was, data=b"2", clock=CLOCK)


def test_a_swap_that_never_gets_an_answer_says_so(proxy):
    metadata = through(proxy)
    proxy.for_ever = Fault()
    with pytest.raises(UnclearError):
        swap(metadata, "x", None, data=b"1", clock=CLOCK)
    assert txns(proxy) == 5


def test_a_dead_endpoint_is_passed_over_and_the_next_one_is_asked_first_from_then_on(proxy):
    """R33, of metadata: the first address is dead, the second one alive."""
    with closing(http.client.HTTPConnection("127.0.0.1", 1)) as dead, pytest.raises(OSError):
        dead.connect()
    metadata = through(proxy, dead=[1, 1])
    metadata.cas("x", None, b"1")
    assert metadata.get("x").data == b"1"
    assert metadata.keys("") == ["x"]
    assert metadata._gateway._first == 2


def test_a_read_that_is_not_answered_goes_to_the_next_endpoint(etcd, proxy):
    port = int(proxy.endpoint.rpartition(":")[2])
    both = [("127.0.0.1", port), ("127.0.0.1", etcd.port)]
    metadata = EtcdMetadata(both, f"f{next(COUNT)}", options=PATIENT)
    proxy.matches = lambda _: True
    proxy.for_ever = Fault()
    with pytest.raises(UnclearError):
        metadata.cas("x", None, b"1")  # A write does not: it may have been done.
    metadata._gateway._first = 0
    assert metadata.get("x").data == b"1"
    assert metadata._gateway._first == 1


def test_what_was_acknowledged_outlives_a_kill_and_nobody_is_told_less(tmp_path):
    with running_etcd(tmp_path) as server:
        metadata = EtcdMetadata([("127.0.0.1", server.port)], "p", options=PATIENT)
        revision = metadata.cas("x", None, b"0")
        for number in range(1, 20):
            revision = metadata.cas("x", revision, b"%d" % number)
        server.kill()
        with pytest.raises(UnclearError, match="no answer of etcd"):
            metadata.get("x")
        with pytest.raises(UnclearError):
            metadata.cas("x", revision, b"20")
        server.start()
        assert metadata.get("x").data == b"19"
        assert metadata.get("x").revision == revision
        metadata.cas("x", revision, b"20")


def test_a_compaction_changes_nothing(etcd):
    metadata = EtcdMetadata([("127.0.0.1", etcd.port)], f"f{next(COUNT)}")
    other = metadata.cas("y", None, b"1")
    first = metadata.cas("x", None, b"1")
    last = first
    for number in range(5):
        last = metadata.cas("x", last, b"%d" % number)
    gateway = Gateway([("127.0.0.1", etcd.port)], PATIENT)
    gateway.write("kv/compaction", {"revision": last, "physical": True})
    assert metadata.get("y").revision == other
    assert metadata.keys("") == ["x", "y"]
    with pytest.raises(Conflict):
        metadata.cas("x", first, b"9")
    metadata.cas("x", last, b"9")
    metadata.cas("y", other, b"9")


def test_with_users_a_token_is_taken_kept_and_taken_anew(tmp_path):
    with running_etcd(tmp_path) as server:
        here = [("127.0.0.1", server.port)]
        admin = Gateway(here, PATIENT)
        admin.write("auth/user/add", {"name": "root", "password": "geheim-7"})
        admin.write("auth/role/add", {"name": "root"})
        admin.write("auth/user/grant", {"user": "root", "role": "root"})
        admin.write("auth/enable", {})
        with pytest.raises(RemoteError) as nobody:
            EtcdMetadata(here, options=PATIENT).cas("x", None, b"1")
        assert not nobody.value.retryable
        named = EtcdOptions("root", "geheim-7", timeout=20.0)
        assert "geheim" not in repr(named)
        metadata = EtcdMetadata(here, options=named)
        revision = metadata.cas("x", None, b"1")
        server.kill()  # Which forgets its tokens.
        server.start()
        metadata.cas("x", revision, b"2")
        assert metadata.get("x").data == b"2"
        wrong = EtcdMetadata(here, options=EtcdOptions("root", "geheim-8", timeout=20.0))
        with pytest.raises(RemoteError) as refused:
            wrong.get("x")
        assert "geheim" not in str(refused.value)


def answering(*answers):
    """Give metadata whose gateway answers so, one after the other."""
    metadata = EtcdMetadata([("127.0.0.1", 1)], "p")
    said = iter(answers)
    asked = lambda path, request: next(said)
    metadata._gateway = SimpleNamespace(read=asked, write=asked)
    return metadata


@pytest.mark.parametrize(
    "answer",
    [
        {"kvs": {}},
        {"kvs": [1]},
        {"kvs": [{"value": "AA=="}]},
        {"kvs": [{"value": "AA==", "mod_revision": 3}]},
        {"kvs": [{"value": "AA==", "mod_revision": "-3"}]},
        {"kvs": [{"value": "?", "mod_revision": "3"}]},
        {"kvs": [{"value": [], "mod_revision": "3"}]},
    ],
)
def test_nonsense_is_refused(answer):
    with pytest.raises(RemoteError, match=r"from etcd://127\.0\.0\.1:1/p"):
        answering(answer).get("x")


def test_an_empty_object_and_a_strange_success():
    assert answering({"kvs": [{"mod_revision": "3"}]}).get("x").data == b""
    with pytest.raises(MissingError):
        answering({}).get("x")
    for answer in ({}, {"succeeded": 1}, {"succeeded": False}):
        with pytest.raises(Conflict):
            answering(answer).cas("x", None, b"")
    for answer in ({"succeeded": True}, {"succeeded": True, "header": {"revision": None}}):
        with pytest.raises(RemoteError):
            answering(answer).cas("x", None, b"")


def test_a_listing_that_never_ends_is_refused():
    row = {"key": base64.b64encode(b"p/a").decode()}
    endless = ({"kvs": [row], "more": True} for _ in range(10))
    with pytest.raises(RemoteError, match="a listing goes back"):
        answering(*endless).keys("")


@pytest.mark.parametrize("body", [b"[1]", b"{", b"[" * 100_000, b'"x"', b"\xff"])
def test_an_answer_that_is_no_object_is_unclear(etcd, proxy, monkeypatch, body):
    metadata = through(proxy)
    monkeypatch.setattr(proxy, "forward", lambda seen, asked: (200, [], body))
    with pytest.raises(UnclearError, match="no JSON"):
        metadata.cas("x", None, b"1")


@pytest.mark.parametrize(
    ("status", "said", "kind", "retryable"),
    [
        (400, {"code": 3, "message": "etcdserver: request is too large"}, InputError, False),
        (429, {"code": 8, "message": "etcdserver: space exceeded"}, RemoteError, True),
        (403, {"code": 7, "message": "no\x1b[31m right"}, RemoteError, False),
        (500, {"code": 2, "message": 5}, UnclearError, True),
        (500, {"code": "14"}, UnclearError, True),
        (504, {"code": 4, "error": "timed out"}, UnclearError, True),
    ],
)
def test_what_etcd_refuses_is_one_of_our_errors(proxy, monkeypatch, status, said, kind, retryable):
    metadata = through(proxy)
    answer = status, [], json.dumps(said).encode()
    monkeypatch.setattr(proxy, "forward", lambda seen, asked: answer)
    with pytest.raises(kind) as refused:
        metadata.cas("x", None, b"1")
    assert type(refused.value) is kind
    assert refused.value.retryable == retryable
    assert "\x1b" not in str(refused.value)


def test_certificates_are_looked_at_when_it_is_opened(tmp_path):
    with pytest.raises(ConfigError, match="without TLS"):
        Gateway([("127.0.0.1", 1)], EtcdOptions(ca_file="x"))
    with pytest.raises(ConfigError, match="cannot be used"):
        Gateway([("127.0.0.1", 1)], EtcdOptions(is_secure=True, ca_file=str(tmp_path / "none")))
    with pytest.raises(ConfigError, match="no endpoint"):
        Gateway([], EtcdOptions())
