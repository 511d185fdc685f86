"""Which metadata a URL names."""

from __future__ import annotations

import pytest

from quiver.chain.metadata import BucketMetadata, EtcdMetadata, open_metadata
from quiver.errors import ConfigError


def test_etcd_by_its_endpoints():
    named = {"user": "u", "password": "geheim"}
    metadata = open_metadata("etcds://a:1,[::1]:2/p/q", options=named)
    assert isinstance(metadata, EtcdMetadata)
    assert metadata.place == "etcd://a:1,::1:2/p/q"
    assert "geheim" not in repr(metadata)
    assert open_metadata("ETCDS://a:1").place == "etcd://a:1/"


@pytest.mark.parametrize("named", [{"user": "u"}, {"password": "geheim"}], ids=["user", "password"])
def test_a_password_leaves_this_machine_by_tls_alone(named):
    assert open_metadata("etcd://127.0.0.1:1,[::1]:2/p", options=named)
    assert open_metadata("etcds://a:1", options=named)
    with pytest.raises(ConfigError, match="etcds://") as refused:
        open_metadata("etcd://127.0.0.1:1,etcd.example:2/p", options=named)
    assert "geheim" not in str(refused.value)


def test_anything_else_is_a_bucket(tmp_path):
    for url in (str(tmp_path), f"file://{tmp_path}", "memory:x"):
        assert isinstance(open_metadata(url), BucketMetadata)


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("etcd://", {}),
        ("etcd://a:1,", {}),
        ("etcd://a:x", {}),
        ("etcd://u:geheim@a:1", {}),
        ("etcd://a:1/p?password=geheim", {}),
        ("etcd://a:1/p", {"pasword": "geheim"}),
        ("etcd://a:1/p", {"ca_file": "x"}),
        ("zk://a:1", {}),
    ],
)
def test_what_has_no_meaning_is_refused_and_not_shown(url, options):
    with pytest.raises(ConfigError) as refused:
        open_metadata(url, options=options)
    assert "geheim" not in str(refused.value)
