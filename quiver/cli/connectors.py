"""Connectors by a word, as a command line has it: ``files:folder?pattern=*.csv&splits=2``.

::

    files:PATH?OPTION=VALUE&...         the options of FilesOptions
    nats://HOST:PORT?OPTION=VALUE&...   those of NatsOptions; several servers by commas
    quiver:PATH?slot=NAME&...           another store; subscriber=NAME, fail_on_data_loss=false

What stands behind ``?`` is written as in the query of a URL. An option of several values has them
with commas in between.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl

from quiver.disk import LocalDisk
from quiver.errors import ConfigError
from quiver.source.protocols import Connector

__all__ = ["CONNECTORS", "Make", "SourceWord", "connector_of", "parse_source"]

Make: TypeAlias = Callable[[str], Connector]
"""Makes a connector; told a folder of its own, for what has to outlive its states."""

_BOOLS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class SourceWord:
    """A source as somebody wrote it, taken apart."""

    scheme: str
    place: str
    options: Mapping[str, str]

    @property
    def name(self) -> str:
        """What its progress is kept under: without options, a folder by its whole path."""
        if self.scheme == "nats":
            return f"{self.scheme}:{self.place}"
        slot = f"?slot={self.options['slot']}" if "slot" in self.options else ""
        return f"{self.scheme}:{os.path.abspath(self.place)}{slot}"


def parse_source(text: str) -> SourceWord:
    """Take a word apart; ConfigError if nothing is known by its first part, or it names nothing."""
    scheme, colon, rest = text.partition(":")
    if not colon or scheme not in CONNECTORS:
        raise ConfigError(
            f"{text!r} is no source", hint=f"KIND:PLACE, where KIND is {' or '.join(CONNECTORS)}"
        )
    place, _, query = rest.partition("?")
    if not place.strip("/"):
        raise ConfigError(f"{text!r} does not say what to read", hint="files:folder")
    options: dict[str, str] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key in options:
            raise ConfigError(f"{text!r} gives {key} twice")
        options[key] = value
    if scheme == "quiver" and not options.get("slot"):
        raise ConfigError(f"{text!r} does not say which slot", hint=f"quiver:{place}?slot=NAME")
    return SourceWord(scheme, place, options)


def connector_of(word: SourceWord) -> Make:
    """Check a word, and give what makes its connector; nothing is made before that is called.

    Raises ConfigError for options that it does not have, MissingError for what is not there.
    """
    return CONNECTORS[word.scheme](word)


def _files(word: SourceWord) -> Make:
    from quiver.source.files import FilesConnector, FilesOptions

    options = FilesOptions(**_values(word, FilesOptions, but=("schema",)))
    folder = LocalDisk(word.place)
    return lambda keep: FilesConnector(folder, LocalDisk(keep, create=True), options=options)


def _nats(word: SourceWord) -> Make:
    from quiver.source.nats import NatsConnector, NatsOptions

    servers = tuple(f"nats://{one}" for one in word.place.removeprefix("//").split(","))
    given = _values(word, NatsOptions, but=("servers", "connect"))
    options = NatsOptions(servers=servers, **given)
    return lambda _: NatsConnector(options)


def _quiver(word: SourceWord) -> Make:
    from quiver.source.stores import StoreConnector

    given = _values(word, _StoreOptions, but=())
    LocalDisk(word.place).close()
    slot = given.pop("slot")
    return lambda _: StoreConnector(word.place, slot, **given)


@dataclass(frozen=True, slots=True)
class _StoreOptions:
    slot: str = ""
    subscriber: str | None = None
    fail_on_data_loss: bool = True


CONNECTORS: Final[Mapping[str, Callable[[SourceWord], Make]]] = {
    "files": _files,
    "nats": _nats,
    "quiver": _quiver,
}


def _values(word: SourceWord, kind: Any, *, but: tuple[str, ...]) -> dict[str, Any]:  # noqa: ANN401
    """Read the options of a word as the fields of a dataclass of options."""
    known = {field.name: str(field.type) for field in fields(kind) if field.name not in but}
    found = {}
    for key, value in word.options.items():
        if key not in known:
            near = get_close_matches(key, known, 1)
            hint = f"perhaps {near[0]}" if near else ", ".join(known)
            raise ConfigError(f"{word.scheme} has no option {key!r}", hint=hint)
        found[key] = _value(key, value, known[key])
    return found


def _value(key: str, text: str, kind: str) -> object:
    try:
        if kind == "int":
            return int(text)
        if kind == "bool":
            return _BOOLS[text.lower()]
    except (ValueError, KeyError) as error:
        raise ConfigError(f"{key}: {text!r} is no {kind}") from error
    return tuple(text.split(",")) if kind.startswith("tuple") else text
