"""Errors as they go between nodes: a code that stays, and what the class has beside its message.

The text stands at the start of what Flight says of an error, which adds words of its own behind
it; so it says how long it is. It is ASCII, and short enough for a header of gRPC. Pure.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from quiver.chain.peers import SilentError
from quiver.errors import (
    CapacityError,
    ClosedError,
    ConfigError,
    DamagedEntry,
    DamageError,
    FencedError,
    InputError,
    LockedError,
    MissingError,
    OutOfSequenceError,
    PoisonedError,
    QuiverError,
    RemoteError,
    SourceError,
    StorageError,
    SubscriberError,
    TornEntry,
    VersionError,
    WaitTimeoutError,
)
from quiver.ship.objects import Conflict, UnclearError

__all__ = ["TEXT_BYTES_MAX", "from_text", "to_text"]

TEXT_BYTES_MAX: Final = 2000

_DAMAGE: Final = ("path", "offset", "expected", "found")
_REMOTE: Final = ("path", "retryable")
_CODES: Final[dict[str, tuple[type[QuiverError], tuple[str, ...]]]] = {
    "CAPACITY": (CapacityError, ()),
    "CLOSED": (ClosedError, ()),
    "CONFIG": (ConfigError, ()),
    "CONFLICT": (Conflict, _REMOTE),
    "DAMAGE": (DamageError, _DAMAGE),
    "DAMAGED": (DamagedEntry, _DAMAGE),
    "FENCED": (FencedError, ("epoch", "current")),
    "INPUT": (InputError, ()),
    "LOCKED": (LockedError, ("pid",)),
    "MISSING": (MissingError, ("path", "errno")),
    "POISONED": (PoisonedError, ()),
    "QUIVER": (QuiverError, ()),
    "REMOTE": (RemoteError, _REMOTE),
    "SILENT": (SilentError, _REMOTE),
    "SEQUENCE": (OutOfSequenceError, ("partition", "last", "given")),
    "SOURCE": (SourceError, ("split", "retryable")),
    "STORAGE": (StorageError, ("path", "errno")),
    "SUBSCRIBER": (SubscriberError, ()),
    "TIMEOUT": (WaitTimeoutError, ()),
    "TORN": (TornEntry, _DAMAGE),
    "UNCLEAR": (UnclearError, _REMOTE),
    "VERSION": (VersionError, ()),
}
_CODE_OF: Final = {kind: code for code, (kind, _) in _CODES.items()}
_HEAD: Final = re.compile(r"quiver/1 ([A-Z]{1,20}) ([0-9]{1,4}) ")
_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "message": (str,),
    "hint": (str,),
    "path": (str,),
    "split": (str,),
    "retryable": (bool,),
    "epoch": (int,),
    "current": (int,),
    "partition": (int, str),
    "last": (int,),
    "given": (int,),
    "pid": (int,),
    "errno": (int,),
    "offset": (int,),
    "expected": (str, int),
    "found": (str, int),
}
_CUT: Final = (("message", 500), ("hint", 200), ("path", 200), ("expected", 60), ("found", 60))


def to_text(error: QuiverError) -> str:
    """Write an error; one of a class that is not known goes as the nearest that is."""
    kind = next(each for each in type(error).__mro__ if each in _CODE_OF)
    code = _CODE_OF[kind]
    given: dict[str, Any] = {"message": error.message, "hint": error.hint}
    given |= {name: getattr(error, name) for name in _CODES[code][1]}
    values = {name: _plain(value) for name, value in given.items() if value not in (None, "")}
    if len(_body(values)) > TEXT_BYTES_MAX:
        for name, most in _CUT:
            if isinstance(value := values.get(name), str):
                values[name] = value.encode("ascii", "replace").decode()[:most]
    body = _body(values)
    return f"quiver/1 {code} {len(body)} {body}"


def from_text(text: str) -> QuiverError | None:
    """Read an error, whatever stands behind it; None if it is none of ours."""
    head = _HEAD.search(text)
    if head is None or head[1] not in _CODES:
        return None
    kind, names = _CODES[head[1]]
    body = text[head.end() : head.end() + int(head[2])]
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or values.keys() - {"message", "hint", *names}:
        return None
    if any(type(value) not in _KINDS[name] for name, value in values.items()):
        return None
    message = values.pop("message", "")
    return kind(message, **values)


def _body(values: dict[str, Any]) -> str:
    return json.dumps(values, separators=(",", ":"), sort_keys=True)


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | bool) else str(value)
