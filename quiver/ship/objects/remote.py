"""A bucket in a remote store, by way of obstore: S3 and what speaks it, Azure, Google."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from quiver.disk import Bytes, process_id
from quiver.errors import ClosedError, ConfigError, QuiverError, RemoteError
from quiver.ship.objects.bucket import Conflict, Found, Listed, Tag, UnclearError
from quiver.ship.objects.keys import check_base, full_key, parts_of
from quiver.ship.objects.options import RemoteSettings
from quiver.ship.objects.refusals import Act, as_ours, is_missing, is_unmodified
from quiver.units import MILLISECOND, parse_duration

__all__ = ["RemoteBucket"]

_PIECE: Final = 16 << 20
"""Bytes of an object beyond which it goes up in pieces of that size, each a request."""

_AT_ONCE: Final = 4
_LISTED_AT_ONCE: Final = 1000
_DELETED_AT_ONCE: Final = 1000
_MS: Final = 1000

_Store: TypeAlias = Any
_Said: TypeAlias = Any
"""Obstore has no types for those who do not have it."""

_first_user: list[int] = []
"""The process that first used obstore: its threads are not there in one that is forked off."""


class RemoteBucket:
    """One path in one remote store. Can be pickled, credentials included; shows none of them.

    What may be done twice is tried again, as ``max_retries`` says. A conditional put goes out once:
    tried again it would meet itself, and call that a conflict.
    """

    def __init__(self, settings: RemoteSettings) -> None:
        """Take the settings; the store is not asked. Raises ConfigError without the extra."""
        self._settings = settings
        self._base = check_base(settings.path)
        _check_process(is_use=False)
        self._patient = _open(settings, settings.retry)
        self._once = _open(settings, {**settings.retry, "max_retries": 0})
        self._hasty: dict[int, _Store] = {}
        self._faults = _faults()

    @property
    def place(self) -> str:
        """Its address as messages show it, without credentials."""
        settings = self._settings
        return f"{settings.kind}://{settings.container}/{self._base}".rstrip("/")

    @property
    def base(self) -> str:
        """Where its keys begin below the root of the store."""
        return self._base

    def get(self, key: str) -> Found:
        """Read an object whole."""
        return self._get(key, {})

    def get_if_changed(self, key: str, tag: Tag) -> Found | None:
        """Read an object unless it still is the one that ``tag`` names: then None."""
        try:
            found = self._get(key, {"if_none_match": _split(tag)["e_tag"]})
        except _UnmodifiedError:
            return None
        return None if found.tag == tag else found  # Some stores do not know the condition.

    def read(self, key: str) -> Bytes:
        """Read an object whole, without a tag."""
        return self._get(key, {}).data

    def put(self, key: str, data: Bytes | Sequence[Bytes]) -> Tag:
        """Put an object, whatever was there; parts are joined on their way."""
        full = self._full(key)
        parts = parts_of(data)
        in_pieces = sum(part.nbytes for part in parts) > _PIECE
        try:
            put = self._patient.put(
                full,
                parts[0] if len(parts) == 1 else parts or b"",
                use_multipart=in_pieces,
                chunk_size=_PIECE,
                max_concurrency=_AT_ONCE,
            )
        except self._faults as error:
            raise self._refused(error, "put", full) from None
        return self._tag(put, full)

    def write(self, key: str, data: Bytes | Sequence[Bytes] | Iterator[Bytes]) -> None:
        """Put an object whose tag nobody wants."""
        self.put(key, parts_of(data))

    def put_if(self, key: str, data: Bytes, tag: Tag | None, *, within: float | None = None) -> Tag:
        """Put an object if ``tag`` names what is there; None: only if nothing is. Or Conflict.

        A server that has no answer within about so many seconds is not waited for: UnclearError.
        """
        full = self._full(key)
        (whole,) = parts_of(data)
        mode: Any = "create" if tag is None else _split(tag)
        once = self._once if within is None else self._impatient(within)
        try:
            put = once.put(full, whole, mode=mode, use_multipart=False)
        except self._faults as error:
            if tag is not None and is_missing(error):  # What S3 says then; others call it changed.
                raise Conflict(f"{full} in {self.place} is gone", path=full) from None
            raise self._refused(error, "put", full, conditional=True) from None
        return self._tag(put, full)

    def list(self, prefix: str) -> Iterator[Listed]:
        """Go through objects whose keys begin with ``prefix``, in no promised order."""
        begin = self._base + prefix
        folder = begin.rpartition("/")[0]
        _check_process()
        try:
            for some in self._patient.list(folder or None, chunk_size=_LISTED_AT_ONCE):
                for one in some:
                    if one["path"].startswith(begin):
                        key = one["path"][len(self._base) :]
                        changed = round(one["last_modified"].timestamp() * _MS)
                        yield Listed(key, one["size"], changed)
        except self._faults as error:
            raise self._refused(error, "list", begin) from None

    def delete(self, keys: Sequence[str]) -> Sequence[str]:
        """Delete objects and return the keys that could not be."""
        full = {key: self._full(key) for key in keys}
        names = list(full)
        left: list[str] = []
        for start in range(0, len(names), _DELETED_AT_ONCE):
            some = names[start : start + _DELETED_AT_ONCE]
            try:
                self._patient.delete([full[key] for key in some])
            except self._faults:  # It does not say which: ask for each.
                left += self._delete_each({key: full[key] for key in some})
        return left

    def _delete_each(self, full: dict[str, str]) -> Sequence[str]:
        """Delete one by one what could not be together, until the store gives no answer."""
        left = []
        answers = True
        for key, path in full.items():
            try:
                if answers:
                    self._patient.delete(path)
                    continue
            except self._faults as error:
                if is_missing(error):
                    continue
                answers = not isinstance(self._refused(error, "delete", path), UnclearError)
            left.append(key)
        return left

    def _get(self, key: str, options: dict[str, str]) -> Found:
        full = self._full(key)
        try:
            got = self._patient.get(full, options=options)
            meta = got.meta
            data = memoryview(got.bytes())
        except self._faults as error:
            if options and is_unmodified(error):
                raise _UnmodifiedError from None
            raise self._refused(error, "read", full) from None
        if data.nbytes != meta["size"]:
            raise UnclearError(
                f"{full} in {self.place} came with {data.nbytes:,} bytes of {meta['size']:,}",
                path=full,
                retryable=True,
            )
        return Found(data, self._tag(meta, full))

    def _impatient(self, seconds: float) -> _Store:
        """Give what waits for an answer for about so long: up to twice, and no longer than ever.

        Each has connections of its own, so there is one for each doubling of a millisecond.
        """
        settings = self._settings
        patience = 1 << max(int(seconds * _MS) - 1, 0).bit_length()
        if patience * MILLISECOND >= parse_duration(settings.client["timeout"]):
            return self._once
        store = self._hasty.get(patience)
        if store is None:
            hasty = replace(settings, values={**settings.values, "timeout": f"{patience}ms"})
            store = self._hasty.setdefault(
                patience, _open(hasty, {**settings.retry, "max_retries": 0})
            )
        return store

    def _full(self, key: str) -> str:
        _check_process()
        return full_key(self._base, key)

    def _tag(self, said: _Said, full: str) -> Tag:
        e_tag, version = said["e_tag"], said["version"]
        if not e_tag:
            raise RemoteError(
                f"{self.place} gives no e_tag for {full}",
                path=full,
                hint="without one nothing can be replaced safely; use another store",
            )
        return f"{e_tag}\n{version}" if version else e_tag

    def _refused(
        self, error: BaseException, verb: str, full: str, *, conditional: bool = False
    ) -> QuiverError:
        return as_ours(error, Act(verb, full, self.place, conditional))

    def __reduce__(self) -> tuple[object, ...]:
        """Travel with what opens it again."""
        return RemoteBucket, (self._settings,)

    def __repr__(self) -> str:
        """Say where it is."""
        return f"RemoteBucket({self.place!r})"


class _UnmodifiedError(Exception):
    """An object still is what it was."""


def _split(tag: Tag) -> dict[str, str]:
    """Give what a tag was made of; a version that is not there is left out."""
    e_tag, separator, version = tag.partition("\n")
    return {"e_tag": e_tag, "version": version} if separator else {"e_tag": e_tag}


def _check_process(*, is_use: bool = True) -> None:
    """Refuse to use obstore in a forked child of a process that used it: it would wait for ever."""
    if is_use and not _first_user:
        _first_user.append(process_id())
    if _first_user and _first_user[0] != process_id():
        raise ClosedError(
            "remote stores cannot be used in a process forked from one that has used them",
            hint="start processes by spawn, or fork before the first one is used",
        )


def _faults() -> tuple[type[Exception], ...]:
    """Give what obstore raises: two families that have no parent in common."""
    from obstore.exceptions import BaseError

    return (BaseError, OSError, NotImplementedError)


def _open(settings: RemoteSettings, retry: dict[str, Any]) -> _Store:
    try:
        from obstore.store import AzureStore, GCSStore, S3Store
    except ImportError as error:
        raise ConfigError(
            f"{settings.kind}:// needs the package obstore",
            hint="pip install 'quiver-store[ship]'",
        ) from error
    store = settings.store
    named: dict[str, Any] = {"client_options": settings.client, "retry_config": retry}
    if settings.kind == "s3" and "access_key_id" in store:
        # Else obstore adds a session token from the environment, be it that of another key.
        named["credential_provider"] = _Fixed(store)
    kinds: dict[str, Any] = {"s3": S3Store, "az": AzureStore, "gs": GCSStore}
    faults: tuple[type[Exception], ...] = (*_faults(), ValueError, TypeError)
    try:
        return kinds[settings.kind](settings.container, **store, **named)
    except faults as error:
        reason = str(error).partition("\n")[0]
        for secret in settings.secrets:
            reason = reason.replace(secret, "...")
        place = f"{settings.kind}://{settings.container}"
        raise ConfigError(f"{place} cannot be opened: {reason:.200}") from None


class _Fixed:
    """Credentials of S3 as they were given, taken out of the options."""

    def __init__(self, store: dict[str, str]) -> None:
        self._given = {
            "access_key_id": store.pop("access_key_id"),
            "secret_access_key": store.pop("secret_access_key"),
            "token": store.pop("session_token", None),
            "expires_at": None,
        }

    def __call__(self) -> dict[str, str | None]:
        """Give them."""
        return dict(self._given)
