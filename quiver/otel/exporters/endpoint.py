"""Where telemetry goes: an address, what is shown there, and how a secret is kept out of texts."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

from quiver.disk import read_foreign
from quiver.errors import ConfigError
from quiver.otel.headers import is_reserved
from quiver.units import SECOND

__all__ = ["Compression", "Endpoint", "OtlpOptions", "Tls"]

Compression = Literal["none", "gzip"]

_SCHEMES: Final = {"http": False, "grpc": False, "https": True, "grpcs": True}
_NAME: Final = re.compile(r"[0-9A-Za-z!#$%&'*+.^_`|~-]{1,128}", re.ASCII)
_SHORT: Final = 4
"""A value of fewer characters is no secret, and would be found in any text."""
_PEM_MAX: Final = 1 << 20
_TOKEN_MAX: Final = 16 << 10


@dataclass(frozen=True, slots=True)
class Tls:
    """Files, in PEM, by which the other side proves who it is, and we.

    Without a ``ca_file`` the system's authorities are asked.
    """

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""

    def __post_init__(self) -> None:
        """Refuse half of a pair."""
        if bool(self.cert_file) != bool(self.key_file):
            raise ConfigError("tls: cert_file and key_file come together")

    def read(self, name: str) -> bytes | None:
        """Read one of the files; None if there is none. Raises StorageError, ConfigError."""
        path: str = getattr(self, name)
        if not path:
            return None
        data = read_foreign(path, bytes_max=_PEM_MAX)
        if len(data) > _PEM_MAX or b"-----BEGIN " not in data:
            raise ConfigError(f"tls.{name}: {path} holds nothing in PEM")
        return data


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address; ``shown`` is what a message may say of it."""

    host: str
    port: int
    path: str
    is_secure: bool
    userinfo: str = field(default="", repr=False)

    @classmethod
    def parse(cls, text: str, *, port: int, key: str = "endpoint") -> Endpoint:
        """Read ``http://host:4317``, ``https://...`` or ``host:port``; raises ConfigError."""
        shown = text.rpartition("@")[2]
        if "://" not in text:
            text = f"http://{text}"
        try:
            parts = urlsplit(text)
            number = parts.port
        except ValueError as error:
            raise ConfigError(f"{key}: {shown!r} is not the address of a server") from error
        if parts.scheme not in _SCHEMES or not parts.hostname or number == 0:
            raise ConfigError(
                f"{key}: {shown!r} is not the address of a server",
                hint="http://host:port or https://host:port",
            )
        if parts.query or parts.fragment or not text.isprintable() or " " in text:
            raise ConfigError(f"{key}: {shown!r} has more than an address and a path")
        return cls(
            parts.hostname,
            number or port,
            parts.path.rstrip("/"),
            _SCHEMES[parts.scheme],
            unquote(parts.netloc.rpartition("@")[0]),
        )

    @property
    def authority(self) -> str:
        """The host and the port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """The address without anything secret."""
        return f"{'https' if self.is_secure else 'http'}://{self.authority}{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpOptions:
    """How requests of OTLP are sent. ``in_flight``: so many are on their way at once.

    ``timeout`` is that of one request, answer included, in nanoseconds. ``token_file`` has a bearer
    token and is read for each call, since tokens are renewed.
    """

    endpoint: Endpoint
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    token_file: str = ""
    compression: Compression = "none"
    timeout: int = 15 * SECOND
    tls: Tls = field(default_factory=Tls)
    in_flight: int = 8
    answer_bytes: int = 4 << 20

    def __post_init__(self) -> None:
        """Refuse what could not be sent."""
        for name, value in self.headers.items():
            if is_reserved(name):
                raise ConfigError(f"headers: {name!r} is not for anybody to set")
            if not _NAME.fullmatch(name) or not value.isprintable() or not value.isascii():
                raise ConfigError(f"headers: {name!r} cannot be sent with its value")
        _ = self.all_headers  # A file that is not there is told now.
        if self.in_flight < 1 or self.timeout < 1 or self.answer_bytes < 1:
            raise ConfigError("in_flight, timeout and answer_bytes are above 0")
        if self.compression not in ("none", "gzip"):
            raise ConfigError(f"compression: {self.compression!r}", hint="none or gzip")

    @property
    def all_headers(self) -> Mapping[str, str]:
        """What goes with each request; who stands in the address is told as HTTP has it.

        Raises StorageError, or ConfigError, if the file of the token cannot be read.
        """
        headers = {name.lower(): value for name, value in self.headers.items()}
        if self.token_file:
            data = read_foreign(self.token_file, bytes_max=_TOKEN_MAX)
            token = data.decode("ascii", "replace").strip()
            if not token.isprintable() or not token or len(data) > _TOKEN_MAX:
                raise ConfigError(f"{self.token_file} holds no token")
            headers["authorization"] = f"Bearer {token}"
        if self.endpoint.userinfo and "authorization" not in headers:
            login = base64.b64encode(self.endpoint.userinfo.encode()).decode()
            headers["authorization"] = f"Basic {login}"
        return headers

    def clean(self, text: str, headers: Mapping[str, str] | None = None) -> str:
        """Take out of a text what must not be told, should the other side repeat it.

        ``headers`` are those that went with the request; without them those of now.
        """
        secrets = {self.endpoint.userinfo, *self.endpoint.userinfo.split(":")}
        for value in (self.all_headers if headers is None else headers).values():
            secrets |= {value, *value.split()}
        for secret in sorted(secrets, key=len, reverse=True):
            if len(secret) >= _SHORT:
                text = text.replace(secret, "***")
        return text
