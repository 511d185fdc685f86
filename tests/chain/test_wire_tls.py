"""The wire by TLS: who may speak, and to whom."""

from __future__ import annotations

import pytest
from chain_wire_kit import BLOCK, PATIENCE, ROUTE, Told, entries
from memory_peer import MemoryPeer
from tls_kit import Authority, openssl_missing

from quiver.chain.wire import RemotePeer, Server, Tls, WireOptions, read_tls
from quiver.errors import ConfigError, RemoteError, StorageError

pytestmark = pytest.mark.skipif(bool(openssl_missing()), reason=openssl_missing() or "-")


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


def options(tls: Tls | None, token: str = "") -> WireOptions:
    return WireOptions(silence=PATIENCE, tls=tls, token=token)


def tls_of(authority: Authority, name: str, *, mutual: bool = True) -> Tls:
    certificate, key = authority.signed(name)
    found = read_tls(str(certificate), str(key), str(authority.ca) if mutual else "")
    assert found is not None
    return found


def test_both_sides_show_a_certificate_and_streams_pass(authority):
    with Server(
        MemoryPeer("node-a"), "0.0.0.0:0", options=options(tls_of(authority, "node-a"))
    ) as s:
        place = f"127.0.0.1:{s.address.rpartition(':')[2]}"
        peer = RemotePeer("node-a", lambda: place, options=options(tls_of(authority, "client")))
        route = ROUTE._replace(chain=("node-a",))
        peer.prepare(route, "")
        told = Told()
        stream = told.open(peer, route)
        stream.send(entries(0))
        told.wait(lambda: told.acks)
        stream.close()
        assert b"".join(peer.read(BLOCK, 0)) == b"entry"


def test_who_has_no_certificate_or_one_of_nobody_we_know_is_not_let_in(authority, tmp_path):
    other = Authority(tmp_path / "other")
    mine = tls_of(authority, "node-a")
    with Server(MemoryPeer("node-a"), "127.0.0.1:0", options=options(mine)) as server:
        stranger = tls_of(other, "client", mutual=False)
        for tls in (
            None,
            Tls(ca=authority.ca.read_bytes()),
            Tls(certificate=stranger.certificate, key=stranger.key, ca=mine.ca),
        ):
            peer = RemotePeer("node-a", lambda: server.address, options=options(tls))
            with pytest.raises(RemoteError):
                peer.status()


def test_a_node_whose_certificate_has_another_name_is_not_spoken_to(authority):
    mine = tls_of(authority, "node-a")
    with Server(MemoryPeer("node-a"), "127.0.0.1:0", options=options(mine)) as server:
        for name, is_let in (("node-a", True), ("", True), ("node-b", False)):
            peer = RemotePeer(name, lambda: server.address, options=options(mine))
            if is_let:
                assert peer.status().name == "node-a"
                continue
            with pytest.raises(RemoteError):
                peer.status()


def test_certificates_that_are_half_there_are_refused(authority):
    certificate, key = map(str, authority.signed("node-a"))
    assert read_tls() is None
    with pytest.raises(ConfigError, match="key"):
        read_tls(certificate)
    with pytest.raises(StorageError):
        read_tls(certificate, key + "x")
    with pytest.raises(ConfigError, match="certificate"):
        Server(MemoryPeer("a"), "127.0.0.1:0", options=options(Tls(ca=b"x")))
    assert "PRIVATE" not in repr(read_tls(certificate, key))
