"""How nodes and clients speak to each other: times, sizes, certificates, a token."""

from __future__ import annotations

from dataclasses import dataclass, field

from quiver.addresses import is_loopback
from quiver.disk import foreign_path, read_foreign
from quiver.errors import ConfigError

__all__ = ["Tls", "WireOptions", "check_listening", "read_tls"]

_PEM_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Certificates in PEM."""

    certificate: bytes = b""
    """With its chain. A node's has the node's name among its names."""
    key: bytes = field(default=b"", repr=False)
    ca: bytes = b""
    """Who has to have signed those of others; a node with it lets in nobody without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireOptions:
    """Seconds and bytes; the same on all nodes and clients."""

    heartbeat: float = 0.25
    silence: float = 1.0
    """After so long without a byte a stream is given up."""
    isolation: float = 2.0
    """So long a tail serves readers who wait though nobody speaks to it."""
    timeout: float = 5.0
    """Of a call that moves no data."""
    prompt: float = 1.0
    """Of one that a loader waits for: a fence, room for a block, a stream through all of its nodes.
    Whoever takes longer is done without."""
    copy_timeout: float = 600.0
    """Of a call that makes or copies a segment."""
    frame_bytes: int = 1 << 20
    """Entries are gathered up to this before they are sent."""
    window_bytes: int = 16 << 20
    """So much is under way without an ack."""
    tls: Tls | None = None
    token: str = field(default="", repr=False)


def read_tls(certificate: str = "", key: str = "", ca: str = "") -> Tls | None:
    """Read files in PEM; None if none is named. Raises ConfigError, MissingError."""
    if not (certificate or key or ca):
        return None
    if bool(certificate) != bool(key):
        raise ConfigError("a certificate needs its key, and a key its certificate")
    return Tls(certificate=_pem(certificate), key=_pem(key), ca=_pem(ca))


def check_listening(host: str, tls: Tls | None) -> None:
    """Raise ConfigError for an address that others reach without TLS."""
    if tls is not None and not tls.certificate:
        raise ConfigError("a node needs a certificate and a key, not only who signed others'")
    if tls is None and not is_loopback(host):
        raise ConfigError(
            f"{host or 'any address'} is reached by other machines, and there is no TLS",
            hint="give a certificate and a key, or listen on 127.0.0.1",
        )


def _pem(path: str) -> bytes:
    return read_foreign(foreign_path(path), bytes_max=_PEM_BYTES_MAX) if path else b""
