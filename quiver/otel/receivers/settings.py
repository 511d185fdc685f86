"""Where a receiver listens, who may send to it, and how much it takes at once."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from quiver.addresses import is_loopback, parse_address
from quiver.disk import foreign_path, read_foreign
from quiver.errors import ConfigError
from quiver.units import parse_bytes, parse_duration

__all__ = ["Limits", "Settings", "Tls", "Token"]

_TOKEN_BYTES_MIN: Final = 16
_TOKEN_BYTES_MAX: Final = 4096
_PEM_BYTES_MAX: Final = 1 << 20
_SCHEME: Final = b"bearer "


class Token:
    """A secret that each request has to bring; what it is stands in no message and no repr."""

    __slots__ = ("_secret", "path")

    def __init__(self, secret: str, *, path: str = "") -> None:
        """Keep it; raises ConfigError if it is too short to be one, or no header can hold it.

        ``path`` is the file that it is from: a receiver looks there for the next one.
        """
        text = secret.strip()
        is_plain = text.isascii() and text.isprintable() and " " not in text
        if not is_plain or not _TOKEN_BYTES_MIN <= len(text) <= _TOKEN_BYTES_MAX:
            raise ConfigError(
                "the bearer token cannot be used",
                hint=f"{_TOKEN_BYTES_MIN} or more ASCII characters in one line, without spaces",
            )
        self._secret = text.encode()
        self.path = path

    @classmethod
    def of_file(cls, path: str) -> Token:
        """Read it from a file; spaces and line ends around it do not count.

        A receiver asks for what the file has now, and not for what was read here.
        """
        content = read_foreign(foreign_path(path), bytes_max=_TOKEN_BYTES_MAX)
        return cls(content.decode("ascii", "replace"), path=path)

    @classmethod
    def of_environment(cls, environ: Mapping[str, str], name: str) -> Token:
        """Take it from a variable; raises ConfigError if there is none of that name."""
        if name not in environ:
            raise ConfigError(f"the bearer token is not there: no variable {name}")
        return cls(environ[name])

    def allows(self, authorization: bytes) -> bool:
        """Whether a header ``Authorization`` brings it, in a time that tells nothing of it."""
        is_bearer = authorization[: len(_SCHEME)].lower() == _SCHEME
        given = authorization[len(_SCHEME) :].strip(b" \t")
        return hmac.compare_digest(given, self._secret) and is_bearer

    def __repr__(self) -> str:
        return "Token(...)"

    def __reduce__(self) -> str:
        raise TypeError("a token is not written down")


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM: the certificate with its chain, its key, and who has to have signed clients.

    Connections that come later get what the files have then.
    """

    certificate: str
    key: str = field(repr=False)
    client_ca: str = ""

    @property
    def paths(self) -> tuple[str, str, str]:
        """All of them; the last may be none."""
        return self.certificate, self.key, self.client_ca

    def read(self) -> tuple[bytes, bytes, bytes | None]:
        """Read certificate, key, and the certificates of clients' signers if there are any."""
        certificate, key = (_pem(path) for path in (self.certificate, self.key))
        return certificate, key, _pem(self.client_ca) if self.client_ca else None


def _pem(path: str) -> bytes:
    return read_foreign(foreign_path(path), bytes_max=_PEM_BYTES_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much is taken at once, and how long anybody is waited for."""

    message_bytes: int | str = "4MiB"
    """The longest request, as it comes and after decompression."""
    requests: int = 32
    """Requests in work. More of them get the answer that they are to be sent again."""
    connections: int = 256
    """Connections, of which more are closed at once; the store needs descriptors, too."""
    head_bytes: int | str = "16KiB"
    """The longest head of a request: all of its headers."""
    head_seconds: float | str = "10s"
    """How long a TLS handshake or the head of a request may take."""
    body_seconds: float | str = "30s"
    """How long the body of a request may take."""
    idle_seconds: float | str = "120s"
    """After how long a connection is closed on which nothing is asked."""
    retry_seconds: int = 1
    """After how long a sender may try again for which there was no room."""

    @property
    def message_size(self) -> int:
        """The longest request in bytes."""
        return parse_bytes(self.message_bytes, key="message_bytes")

    @property
    def memory_bytes(self) -> int:
        """What requests may hold in memory altogether: each as it came, and decompressed."""
        return 2 * self.requests * self.message_size

    def seconds(self, name: str) -> float:
        """One of the times."""
        return parse_duration(getattr(self, name), key=name) / 1e9

    def check(self) -> None:
        """Raise ConfigError unless each of them is more than nothing."""
        counts = {name: getattr(self, name) for name in ("requests", "connections")}
        counts["retry_seconds"] = self.retry_seconds
        counts["message_bytes"] = self.message_size
        counts["head_bytes"] = parse_bytes(self.head_bytes, key="head_bytes")
        for name in ("head_seconds", "body_seconds", "idle_seconds"):
            counts[name] = self.seconds(name)
        for name, value in counts.items():
            if value <= 0:
                raise ConfigError(f"{name} = {value} must be more than 0")
        if self.message_size >= 1 << 31:
            raise ConfigError("message_bytes must be less than 2GiB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where to listen, and for whom."""

    address: str
    """``HOST:PORT``; port 0 is any that is free."""
    tls: Tls | None = None
    token: Token | None = None
    insecure: bool = False
    """To listen for other machines although anybody can send, or read along."""
    reuse_port: bool = False
    """To share the port with other processes, among which the system shares out connections."""
    limits: Limits = field(default_factory=Limits)

    @property
    def host(self) -> str:
        """The address without its port."""
        return parse_address(self.address)[0]

    @property
    def port(self) -> int:
        """The port as it was asked for."""
        return parse_address(self.address)[1]

    @property
    def is_open(self) -> bool:
        """Whether others may read along, or send without being known."""
        is_known = self.token is not None or (self.tls is not None and bool(self.tls.client_ca))
        return not is_loopback(self.host) and (self.tls is None or not is_known)

    def check(self) -> None:
        """Raise ConfigError if this is no place to listen on, or one that is open to anybody."""
        self.limits.check()
        if self.is_open and not self.insecure:
            lacking = "TLS" if self.tls is None else "a token"
            raise ConfigError(
                f"{self.address} is reached by other machines, and there is no {lacking}",
                hint="listen on 127.0.0.1, or give tls and a bearer token or a client_ca, "
                "or say insecure: true",
            )
