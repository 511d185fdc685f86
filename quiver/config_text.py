"""The text of a config file: TOML, JSON or YAML, by the end of its name.

Each is held to the same: UTF-8, no key twice, no more bytes or levels than a config can need.
"""

from __future__ import annotations

import json
import tomllib
from typing import Any, Final

from quiver.config_keys import Table
from quiver.errors import ConfigError

__all__ = ["TEXT_BYTES_MAX", "parse_text"]

TEXT_BYTES_MAX: Final = 1 << 20
"""The largest config file that is read."""
_DOTS_MAX: Final = 200


def parse_text(data: bytes, place: str) -> object:
    """Read a config file; raises ConfigError that names it and, where it can, the line."""
    if len(data) > TEXT_BYTES_MAX:
        raise ConfigError(
            f"{place} is larger than {TEXT_BYTES_MAX:,} bytes", hint="it is no config file"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{place} is not UTF-8: byte {error.start:,}", hint="save it as UTF-8"
        ) from error
    name = place.lower()
    try:
        if name.endswith(".toml"):
            return _parse_toml(text, place)
        if name.endswith(".json"):
            return json.loads(text, object_pairs_hook=_table)
        return _parse_yaml(text, place)
    except ConfigError as error:
        if error.message.startswith(place):
            raise
        raise ConfigError(f"{place}: {error.message}", hint=error.hint) from error
    except ValueError as error:  # Also what is no TOML or JSON.
        kind = "TOML" if name.endswith(".toml") else "JSON"
        raise ConfigError(f"{place} is no {kind}: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{place}: nested too deeply", hint="it is no config file") from error


def _parse_toml(text: str, place: str) -> object:
    # By what ends a line in TOML: a key may have other ends of lines inside of quotes.
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > _DOTS_MAX:  # The time that a dotted key takes grows with its square.
            raise ConfigError(f"{place}:{number}: more than {_DOTS_MAX} dots in a line")
    return tomllib.loads(text)


def _table(pairs: list[tuple[str, Any]]) -> Table:
    table = Table()
    for key, value in pairs:
        if key in table:
            raise ConfigError(f"{key[:80]}: given twice")
        table[key] = value
    return table


def _parse_yaml(text: str, place: str) -> object:
    try:
        from quiver.config_yaml import parse_yaml
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise
        raise ConfigError(
            f"{place}: reading YAML needs the package 'pyyaml'",
            hint="pip install 'quiver-store[cli]', or write the same as TOML or JSON",
        ) from error
    return parse_yaml(text, place)
