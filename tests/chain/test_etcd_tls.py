"""etcd by TLS, with a certificate on both sides."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from etcd_kit import etcd_missing, running_etcd

from quiver.chain.metadata import open_metadata
from quiver.ship.objects import UnclearError

pytestmark = [
    pytest.mark.skipif(bool(etcd_missing()), reason=etcd_missing() or "-"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl"),
]


def test_both_sides_show_a_certificate(tmp_path):
    file, key = str(tmp_path / "both.pem"), str(tmp_path / "both.key")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=both", "-keyout", key, "-out", file),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    tls = ("--cert-file", file, "--key-file", key, "--trusted-ca-file", file, "--client-cert-auth")
    with running_etcd(tmp_path / "etcd", tls) as server:
        here = f"127.0.0.1:{server.port}/p"
        options = {"ca_file": file, "cert_file": file, "key_file": key}
        metadata = open_metadata(f"etcds://{here}", options=options)
        metadata.cas("x", None, b"1")
        assert metadata.get("x").data == b"1"
        for url, less in (
            (f"etcd://{here}", {}),
            (f"etcds://{here}", {}),  # Signed by nobody whom the system knows.
            (f"etcds://{here}", {"ca_file": file}),
        ):
            with pytest.raises(UnclearError):
                open_metadata(url, options=less).get("x")
