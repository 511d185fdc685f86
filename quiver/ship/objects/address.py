"""Which bucket a URL or a path names, and the bucket opened.

==========================================  ==================================================
``s3://BUCKET/PATH``, ``s3a://``            S3 and what speaks it; ``endpoint`` names the server
``az://CONTAINER/PATH``, ``azure://``       Azure; the account by ``account_name``
``abfss://CONTAINER@ACCOUNT.dfs.../PATH``   the same, with the account in it
``gs://BUCKET/PATH``, ``gcs://``            Google
``file:///PATH``, or a path                 a folder of this machine
``memory:PATH``                             memory of this process, empty each time
==========================================  ==================================================
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from quiver.errors import ConfigError
from quiver.ship.objects.bucket import Bucket
from quiver.ship.objects.folder import FolderBucket
from quiver.ship.objects.memory import MemoryBucket
from quiver.ship.objects.options import Options, RemoteSettings, read_options
from quiver.ship.objects.remote import RemoteBucket

__all__ = ["is_remote", "open_bucket"]

_REMOTE: Final = {
    "s3": "s3",
    "s3a": "s3",
    "az": "az",
    "azure": "az",
    "abfs": "az",
    "abfss": "az",
    "gs": "gs",
    "gcs": "gs",
}
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_CONTAINER: Final = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]{0,221}")
_ACCOUNT: Final = re.compile(r"[a-z0-9-]{1,63}(\.[A-Za-z0-9.-]+)?")


def is_remote(url: str) -> bool:
    """Whether a URL names a store that is not of this machine."""
    return _scheme(url) in _REMOTE


def open_bucket(
    url: str, *, options: Options | None = None, environ: Mapping[str, str] | None = None
) -> Bucket:
    """Open the bucket that ``url`` names; the store itself is not asked.

    Raises ConfigError for a URL or an option that has no meaning.
    """
    options = options or {}
    scheme = _scheme(url)
    if scheme in _REMOTE:
        return _remote(url, _REMOTE[scheme], options=options, environ=environ or {})
    if options:
        first = next(iter(options))
        raise ConfigError(
            f"{first!r:.60} has no meaning for {url!r:.200}", hint="it takes no options"
        )
    if scheme == "memory":
        return MemoryBucket(url.partition(":")[2])
    if scheme == "file":
        return FolderBucket(_local_path(url))
    if scheme:
        near = difflib.get_close_matches(scheme, [*_REMOTE, "file", "memory"], n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "known: s3, az, abfss, gs, file, memory"
        raise ConfigError(f"there are no stores of the kind {scheme}:", hint=hint)
    return FolderBucket(url)


def _scheme(url: str) -> str:
    """Give the scheme in small letters; "" for a path, also one of a folder with a colon in it."""
    found = _SCHEME.match(url)
    if found is None:
        return ""
    scheme = found[1].lower()
    known = scheme in _REMOTE or scheme in ("file", "memory")
    return scheme if known or url[found.end() :].startswith("//") else ""


def _remote(url: str, kind: str, *, options: Options, environ: Mapping[str, str]) -> RemoteBucket:
    parts = _split(url)
    values = read_options(kind, options, environ)
    container, at, account = parts.netloc.partition("@")
    if at and parts.scheme.lower() in ("abfs", "abfss") and _ACCOUNT.fullmatch(account):
        name = account.partition(".")[0]
        if read_options(kind, options, {}).get("account_name", name) != name:
            raise ConfigError(f"account_name: the address says {name}")
        values["account_name"] = name
    elif at:  # Not shown: it may be a key.
        raise ConfigError(
            f"an address of {kind} may have no user in it", hint="give credentials as options"
        )
    if not _CONTAINER.fullmatch(container):
        raise ConfigError(
            f"{container!r:.60} is no name of a bucket", hint=f"as {kind}://name/path"
        )
    return RemoteBucket(RemoteSettings(kind, container, unquote(parts.path), values))


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ConfigError("this is no URL", hint="as s3://bucket/path") from None
    if parts.query or parts.fragment:  # Not shown: there may be a signature in it.
        raise ConfigError("an address may have no query and no fragment", hint="give options")
    return parts


def _local_path(url: str) -> str:
    parts = _split(url)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise ConfigError(f"{url!r:.200} names no folder here", hint="as file:///folder")
    return unquote(parts.path)
