"""What all parts of the play have to know, and where its files are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import pyarrow as pa

from bench.kit import ROOT
from bench.play import Play
from quiver.chain.wire import WireOptions, read_tls

__all__ = ["LIFE", "PATIENCE", "Setup", "certificate", "etcd_kit", "row", "tcp_proxy", "value_of"]

PATIENCE: Final = 180.0
"""Seconds in which all that was taken back has to be well again."""
LIFE: Final = 10_000_000
"""The numbers of a loader's life begin at as many times this."""
_KIT: Final = str(ROOT / "tests" / "kit")

sys.path.insert(0, _KIT)
etcd_kit, tcp_proxy = import_module("etcd_kit"), import_module("tcp_proxy")
sys.path.remove(_KIT)


@dataclass(frozen=True)
class Setup(Play):
    """One play."""

    metadata: str
    rf: dict[str, int]
    """Of each partition."""
    certificate: str = ""
    """With its key beside it; empty: no TLS."""
    soft_bytes: int = 120_000
    every: float = 0.02
    """Seconds between two bundles."""

    @property
    def wire(self) -> WireOptions:
        """How nodes are spoken to."""
        pem = self.certificate
        return WireOptions(tls=read_tls(pem, f"{pem}.key", pem) if pem else None)

    @property
    def wire_words(self) -> list[str]:
        """The same for the command line."""
        pem = self.certificate
        return [*("--tls-cert", pem, "--tls-key", f"{pem}.key", "--tls-ca", pem)] if pem else []


def certificate(path: str, names: Sequence[str]) -> str:
    """Make one certificate for all of these, signed by itself; gives its path."""
    listed = ",".join(f"DNS:{name}" for name in names)
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=soak", "-addext", f"subjectAltName={listed}"),
            *("-keyout", f"{path}.key", "-out", path),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return path


def row(number: int, size: int = 200) -> dict[str, pa.RecordBatch]:
    """One bundle that can be told from all others."""
    return {"events": pa.record_batch({"n": [number], "text": ["x" * size]})}


def value_of(message: Any) -> int:
    """Give the number of a bundle."""
    return message.bundle["events"]["n"][0].as_py()
