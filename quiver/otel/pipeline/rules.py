"""What the two small processors are told to do: read out of a file, as values.

``attributes`` has a list of actions, done in turn; ``filter`` has rules for what goes (``drop``) or
for what stays (``keep``). A rule is met where all that it says is so; patterns are found anywhere
in a text unless ``^`` and ``$`` say otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from quiver.config_keys import shown
from quiver.errors import ConfigError
from quiver.otel.pipeline.findings import guess
from quiver.otel.signals import Signal

__all__ = ["Action", "Condition", "Rule", "Value", "read_actions", "read_rules"]

Value: TypeAlias = str | int | float | bool

_PLACES: Final = ("resource", "scope", "item")
_ACTIONS: Final = ("insert", "update", "upsert", "delete", "rename")
_ACTION: Final = ("action", "key", "value", "new_key", "apply_to", "signals")
_LIST_MAX: Final = 1000
_INT_MAX: Final = 1 << 63

SEVERITIES: Final[Mapping[str, int]] = {
    name + (str(step + 1) if step else ""): first + step
    for first, name in ((1, "TRACE"), (5, "DEBUG"), (9, "INFO"), (13, "WARN"), (17, "ERROR"))
    for step in range(4)
} | {"FATAL": 21, "FATAL2": 22, "FATAL3": 23, "FATAL4": 24}
"""The numbers of OTLP by their short names."""


@dataclass(frozen=True, slots=True)
class Action:
    """One change of the attributes of resources, scopes or items; of all signals, or of some."""

    action: str
    key: str
    value: Value = ""
    new_key: str = ""
    places: tuple[str, ...] = ("item",)
    signals: tuple[Signal, ...] = tuple(Signal)


@dataclass(frozen=True, slots=True)
class Condition:
    """What an attribute must be: equal to a value, or a text in which a pattern is found."""

    place: str
    key: str
    value: Value
    is_pattern: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """What is said of items; all of it must be so."""

    signals: tuple[Signal, ...] = tuple(Signal)
    name: str | None = None
    is_name_pattern: bool = False
    severity_from: int | None = None
    severity_below: int | None = None
    conditions: tuple[Condition, ...] = ()


def read_actions(value: Any, key: str) -> tuple[Action, ...]:  # noqa: ANN401
    """Read the actions of an ``attributes`` node."""
    return tuple(_action(one, name) for one, name in _tables(value, key))


def read_rules(value: Any, key: str) -> tuple[Rule, ...]:  # noqa: ANN401
    """Read the rules of a ``filter`` node."""
    return tuple(_rule(one, name) for one, name in _tables(value, key))


def _tables(value: Any, key: str) -> list[tuple[Mapping[str, Any], str]]:  # noqa: ANN401
    if not isinstance(value, list) or not value or len(value) > _LIST_MAX:
        raise ConfigError(f"{key}: {shown(value)} is no list of sections", hint=f"- key: {key}")
    for number, one in enumerate(value):
        if not isinstance(one, Mapping):
            raise ConfigError(f"{key}[{number}]: {shown(one)} is no section of keys and values")
    return [(one, f"{key}[{number}]") for number, one in enumerate(value)]


def _action(table: Mapping[str, Any], key: str) -> Action:
    _known(table, key, _ACTION)
    action = _word(table.get("action"), f"{key}.action", _ACTIONS)
    places = _words(table.get("apply_to", ["item"]), f"{key}.apply_to", _PLACES)
    value, new_key = table.get("value"), table.get("new_key")
    if (value is not None) != (action in ("insert", "update", "upsert")):
        raise ConfigError(f"{key}: {action} takes {'no' if value is not None else 'a'} value")
    if (new_key is not None) != (action == "rename"):
        raise ConfigError(f"{key}: {action} takes {'no' if new_key is not None else 'a'} new_key")
    return Action(
        action,
        _text(table.get("key"), f"{key}.key"),
        "" if value is None else _value(value, f"{key}.value"),
        "" if new_key is None else _text(new_key, f"{key}.new_key"),
        places,
        _signals(table, key),
    )


_MAPS: Final = {
    "attributes": ("item", False),
    "attribute_matches": ("item", True),
    "resource_attributes": ("resource", False),
    "resource_attribute_matches": ("resource", True),
    "scope_attributes": ("scope", False),
    "scope_attribute_matches": ("scope", True),
}
_RULE: Final = ("signals", "name", "name_matches", "severity_from", "severity_below", *_MAPS)


def _rule(table: Mapping[str, Any], key: str) -> Rule:
    _known(table, key, _RULE)
    signals = _signals(table, key)
    low, high = (_severity(table.get(n), f"{key}.{n}") for n in ("severity_from", "severity_below"))
    if low is not None or high is not None:
        if "signals" in table and Signal.LOGS not in signals:
            raise ConfigError(f"{key}: only logs have a severity")
        signals = (Signal.LOGS,)
    name, pattern = table.get("name"), table.get("name_matches")
    if name is not None and pattern is not None:
        raise ConfigError(f"{key}: name and name_matches", hint="give one of them")
    conditions = tuple(
        Condition(place, *one, is_pattern)
        for option, (place, is_pattern) in _MAPS.items()
        for one in _pairs(table.get(option), f"{key}.{option}", is_pattern=is_pattern)
    )
    if name is None and pattern is None and low is None and high is None and not conditions:
        raise ConfigError(f"{key}: it says nothing but signals", hint=f"known: {', '.join(_RULE)}")
    return Rule(
        signals,
        _text(name, f"{key}.name")
        if name is not None
        else _pattern(pattern, f"{key}.name_matches"),
        pattern is not None,
        low,
        high,
        conditions,
    )


def _pairs(value: Any, key: str, *, is_pattern: bool) -> list[tuple[str, Value]]:  # noqa: ANN401
    if value is None:
        return []
    if not isinstance(value, Mapping) or len(value) > _LIST_MAX:
        raise ConfigError(f"{key}: {shown(value)} is no section of keys and values")
    read = (lambda text, name: _pattern(text, name) or "") if is_pattern else _value
    return [(_text(name, key), read(inner, f"{key}.{name}")) for name, inner in value.items()]


def _known(table: Mapping[str, Any], key: str, known: tuple[str, ...]) -> None:
    for name in table:
        if name not in known:
            text = f"{key}.{str(name)[:80]}: there is no such option"
            raise ConfigError(text, hint=guess(str(name), known))


def _signals(table: Mapping[str, Any], key: str) -> tuple[Signal, ...]:
    words = tuple(str(signal) for signal in Signal)
    found = _words(table.get("signals", list(words)), f"{key}.signals", words)
    return tuple(Signal(word) for word in found)


def _word(value: object, key: str, words: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in words:
        hint = guess(value, words) if isinstance(value, str) else ""
        raise ConfigError(f"{key}: {shown(value)} is none of {', '.join(words)}", hint=hint)
    return value


def _words(value: object, key: str, words: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not value:
        raise ConfigError(f"{key}: {shown(value)} is no list of {', '.join(words)}")
    return tuple(dict.fromkeys(_word(each, key, words) for each in value))


def _text(value: object, key: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{key}: {shown(value)} is no text")
    return value


def _value(value: object, key: str) -> Value:
    if not isinstance(value, str | int | float | bool):
        raise ConfigError(f"{key}: {shown(value)} is no text, number, true or false")
    if isinstance(value, int) and not -_INT_MAX <= value < _INT_MAX:
        raise ConfigError(f"{key}: {shown(value)} needs more than 64 bits")
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{key}: {shown(value)} is no number that equals anything")
    return value


def _severity(value: object, key: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, str) and value.upper() in SEVERITIES:
        return SEVERITIES[value.upper()]
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and 1 <= value <= SEVERITIES["FATAL4"]
    ):
        return value
    raise ConfigError(f"{key}: {shown(value)} is no severity", hint="INFO, WARN2, or 1 to 24")


def _pattern(value: object, key: str) -> str | None:
    """Check a pattern with what will look for it."""
    if value is None:
        return None
    import pyarrow as pa
    import pyarrow.compute as pc

    pattern = _text(value, key)
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        raise ConfigError(f"{key}: {shown(pattern)} is no pattern: {error}") from error
    return pattern
