"""States as text: canonical JSON, so that equal states are equal texts, made by one connector.

``{"at":{...},"connector":"nats","version":1}``: keys sorted, no blanks, ASCII. ``at`` is the
connector's own. Whoever compares states compares their texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, TypeAlias

from quiver.errors import InputError, VersionError

__all__ = ["StateFields", "canonical", "decode_state", "encode_state"]

StateFields: TypeAlias = Mapping[str, object]
"""What a connector keeps in a state: JSON values by name, integers and texts for the most part."""

_KEYS: Final = {"at", "connector", "version"}
_SHOWN: Final = 80


def canonical(value: object) -> str:
    """Write a JSON value in its one form."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


def encode_state(connector: str, version: int, at: StateFields) -> str:
    """Write a state."""
    return canonical({"at": at, "connector": connector, "version": version})


def decode_state(text: str, *, connector: str, version: int) -> dict[str, object]:
    """Read what ``encode_state`` wrote; gives ``at``, whose fields the connector checks itself.

    Raises InputError for a text that is no state or another connector's, VersionError for one of
    a newer version.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _no_state(text) from error
    if not isinstance(found, dict) or set(found) != _KEYS or not isinstance(found["at"], dict):
        raise _no_state(text)
    if found["connector"] != connector:
        raise InputError(
            f"a state of connector {found['connector']!r} is given to {connector!r}",
            hint="give each source the states that it made",
        )
    number = found["version"]
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise _no_state(text)
    if number > version:
        raise VersionError(
            f"a state of {connector} has version {number}, known is {version}",
            hint="it was made by a newer Quiver: use that",
        )
    return dict(found["at"])


def _no_state(text: str) -> InputError:
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    return InputError(
        f"this is no state of a split: {shown!r}",
        hint="pass a state as it was handed out, or None for the start",
    )
