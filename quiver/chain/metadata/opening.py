"""Which metadata a URL names.

====================================  ========================================================
``etcd://HOST:PORT,HOST:PORT/PATH``   etcd; ``etcds://`` by TLS; user and password as options
anything else                         a bucket, as ``quiver.ship.objects`` has them
====================================  ========================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quiver.addresses import parse_address
from quiver.chain.metadata.buckets import BucketMetadata
from quiver.chain.metadata.etcd import EtcdMetadata
from quiver.chain.metadata.gateway import EtcdOptions
from quiver.chain.metadata.store import Metadata
from quiver.errors import ConfigError, InputError
from quiver.ship.objects import open_bucket

__all__ = ["open_metadata"]

_ETCD: Final = ("etcd", "etcds")
_NAMES: Final = ("user", "password", "ca_file", "cert_file", "key_file")


def open_metadata(
    url: str,
    *,
    options: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Metadata:
    """Open the place that ``url`` names; it is not asked yet. Raises ConfigError."""
    scheme, colon, rest = url.partition("://")
    if not colon or scheme.lower() not in _ETCD:
        return BucketMetadata(open_bucket(url, options=options, environ=environ))
    given = dict(options or {})
    if unknown := sorted(given.keys() - set(_NAMES)):
        raise ConfigError(
            f"{unknown[0]!r:.60} has no meaning for etcd", hint=f"known: {', '.join(_NAMES)}"
        )
    listed, _, path = rest.partition("/")
    if "@" in listed:  # Not shown: it may be a password.
        raise ConfigError("an address of etcd may have no user in it", hint="give it as an option")
    if "?" in path or "#" in path:
        raise ConfigError("an address may have no query and no fragment", hint="give options")
    try:
        endpoints = [parse_address(each) for each in listed.split(",")]
    except InputError as error:
        raise ConfigError(error.message, hint="as etcd://host:2379,host:2379/path") from None
    named = EtcdOptions(
        user=given.get("user", ""),
        password=given.get("password", ""),
        is_secure=scheme.lower() == "etcds",
        ca_file=given.get("ca_file", ""),
        cert_file=given.get("cert_file", ""),
        key_file=given.get("key_file", ""),
    )
    return EtcdMetadata(endpoints, path, options=named)
