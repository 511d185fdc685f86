"""Options of nodes: what each takes, and a table of a file read strictly by that.

Options in sections are known by dotted names: ``arrow: {payload_compression: none}`` and
``arrow.payload_compression: none`` are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from quiver.config_keys import shown
from quiver.errors import ConfigError
from quiver.otel.headers import is_reserved
from quiver.otel.pipeline.findings import Findings, guess, line_of
from quiver.units import MILLISECOND, SECOND, parse_bytes, parse_duration

__all__ = [
    "Option",
    "Options",
    "address",
    "choice",
    "count",
    "duration",
    "endpoint",
    "flag",
    "folder",
    "headers",
    "host_and_port",
    "patience",
    "read_options",
    "secret",
    "size",
    "text",
    "token",
]

Read: TypeAlias = Callable[[Any, str], Any]
"""Makes a value of what a file has; ConfigError names the key."""

_PORT_MAX: Final = 65_535
_COUNT_MAX: Final = 1 << 31
_HEADERS_MAX: Final = 100
_SIZE_MAX: Final = (1 << 31) - 1
"""What gRPC can count."""
_PATIENCE_MAX: Final = 7 * 86_400 * SECOND
_TOKEN_MIN: Final = 16


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a kind of node."""

    read: Read
    default: Any = None
    is_required: bool = False


Options: TypeAlias = Mapping[str, Option]


def read_options(
    values: object, known: Options, *, key: str, line: int, found: Findings
) -> dict[str, Any]:
    """Read a table by the options that there are; gives all of them, and defaults for the rest."""
    reader = _Reader(known, key, found)
    reader.read(values, "", line)
    for name, option in known.items():
        if option.is_required and name not in reader.given:
            found.refuse(f"{key}: {name} is missing", line=line)
    return {name: reader.given.get(name, option.default) for name, option in known.items()}


class _Reader:
    def __init__(self, known: Options, key: str, found: Findings) -> None:
        self.given: dict[str, Any] = {}
        self._known, self._key, self._found = known, key, found
        parts = [name.split(".")[:-1] for name in known]
        self._sections = {".".join(p[: n + 1]) for p in parts for n in range(len(p))}

    def read(self, table: object, ahead: str, line: int) -> None:
        """Read one level, whose keys stand behind ``ahead``."""
        if table is None:
            return
        if not isinstance(table, Mapping):
            where = f"{self._key}.{ahead}".rstrip(".")
            text = f"{where}: {shown(table)} is not a section of keys and values"
            self._found.refuse(text, line=line)
            return
        for name, value in table.items():
            written, own = f"{ahead}{name}", line_of(table, name) or line
            if written in self._known:
                self._take(written, value, own)
            elif written in self._sections:
                self.read(value, f"{written}.", own)
            else:
                hint = guess(written, self._known)
                text = f"{self._key}.{written[:80]}: there is no such option"
                self._found.refuse(text, hint=hint, line=own)

    def _take(self, name: str, value: object, line: int) -> None:
        option, key = self._known[name], f"{self._key}.{name}"
        if name in self.given:
            self._found.refuse(f"{key}: given twice", line=line)
            return
        self.given[name] = option.default
        try:
            self.given[name] = option.read(value, key)
        except ConfigError as error:
            self._found.refuse(error.message, hint=error.hint, line=line)


# what an option takes ----------------------------------------------------------------------------


def text(value: Any, key: str) -> str:  # noqa: ANN401
    """Take a text that is not empty."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise ConfigError(f"{key}: {shown(value)} is no text")
    return value


def folder(value: Any, key: str) -> str:  # noqa: ANN401
    """Take the name of a folder or a file."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise ConfigError(f"{key}: {shown(value)} is no path")
    return value


def secret(value: Any, key: str) -> str:  # noqa: ANN401
    """Take a text that nobody is shown."""
    if not isinstance(value, str) or not value or any(char in value for char in "\0\r\n"):
        raise ConfigError(f"{key}: it is no text of one line", hint="its value is not shown")
    return value


def token(value: Any, key: str) -> str:  # noqa: ANN401
    """Take a secret that others have to bring: long enough not to be guessed."""
    found = secret(value, key).strip()
    if len(found) < _TOKEN_MIN or " " in found or not (found.isascii() and found.isprintable()):
        raise ConfigError(
            f"{key}: it cannot be used",
            hint=f"{_TOKEN_MIN} or more ASCII characters without spaces; its value is not shown",
        )
    return found


def flag(value: Any, key: str) -> bool:  # noqa: ANN401
    """Take ``true`` or ``false``."""
    if not isinstance(value, bool):
        raise ConfigError(f"{key}: {shown(value)} is neither true nor false")
    return value


def count(least: int = 1, most: int = _COUNT_MAX) -> Read:
    """Take a whole number."""

    def read(value: Any, key: str) -> int:  # noqa: ANN401
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigError(f"{key}: {shown(value)} is not a whole number")
        if not least <= value <= most:
            raise ConfigError(f"{key}: {shown(value)} is not between {least:,} and {most:,}")
        return value

    return read


def size(value: Any, key: str) -> int:  # noqa: ANN401
    """Take the size of a message with its unit, as bytes."""
    found = parse_bytes(value, key=key)
    if not 0 < found <= _SIZE_MAX:
        raise ConfigError(f"{key}: {shown(value)} is not above 0 and below 2GiB")
    return found


def duration(value: Any, key: str) -> int:  # noqa: ANN401
    """Take a duration with its unit, as nanoseconds."""
    found = parse_duration(value, key=key)
    if not 0 <= found <= 1 << 62:
        raise ConfigError(f"{key}: {shown(value)} is no duration that can be used")
    return found


def patience(value: Any, key: str) -> int:  # noqa: ANN401
    """Take a duration for which somebody is waited for, as nanoseconds."""
    found = duration(value, key)
    if not MILLISECOND <= found <= _PATIENCE_MAX:
        raise ConfigError(f"{key}: {shown(value)} is not between 1ms and 7d")
    return found


def choice(*words: str) -> Read:
    """Take one of some words."""

    def read(value: Any, key: str) -> str:  # noqa: ANN401
        if value not in words or not isinstance(value, str):
            text = f"{key}: {shown(value)} is none of {', '.join(words)}"
            raise ConfigError(text, hint=guess(value, words) if isinstance(value, str) else "")
        return value

    return read


def address(value: Any, key: str) -> str:  # noqa: ANN401
    """Take ``HOST:PORT`` to listen on; a port alone is one of this machine, 0 any that is free."""
    written = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(written, str):
        raise ConfigError(f"{key}: {shown(value)} is no address to listen on", hint=_ADDRESS)
    host, port = _parted(written, key)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_and_port(written: str) -> tuple[str, int]:
    """Part what ``address`` gave."""
    host, _, port = written.rpartition(":")
    return host.strip("[]"), int(port)


def endpoint(value: Any, key: str) -> str:  # noqa: ANN401
    """Take the URL of a server: http or https, a host, no user and no query."""
    if not isinstance(value, str):
        raise ConfigError(f"{key}: {shown(value)} is no URL", hint=_URL)
    scheme, _, rest = value.partition("://")
    place, _, _ = rest.partition("/")
    if "@" in place or ("@" in value and not place):
        raise ConfigError(
            f"{key}: a URL with a user in it", hint="put credentials into headers or bearer_token"
        )
    if scheme not in ("http", "https") or not place or any(char in value for char in "?# \t\r\n"):
        raise ConfigError(f"{key}: {shown(value)} is no URL of a server", hint=_URL)
    host, colon, port = place.rpartition(":")
    if place.startswith("[") != ("]" in place):
        raise ConfigError(f"{key}: {shown(value)} needs brackets around its host", hint=_URL)
    if colon and not place.endswith("]") and not (host and _is_port(port)):
        raise ConfigError(f"{key}: {shown(value)} has no port behind its colon", hint=_URL)
    return value


def headers(value: Any, key: str) -> tuple[tuple[str, str], ...]:  # noqa: ANN401
    """Take names with a text each; no text is ever shown."""
    if not isinstance(value, Mapping) or len(value) > _HEADERS_MAX:
        raise ConfigError(f"{key}: it is no section of names and texts")
    return tuple(
        (_header_name(name, key), _header_value(value[name], f"{key}.{name}")) for name in value
    )


def _header_value(value: object, key: str) -> str:
    found = secret(value, key)
    if not (found.isascii() and found.isprintable()):
        raise ConfigError(f"{key}: no header can hold it", hint="its value is not shown")
    return found


def _header_name(name: object, key: str) -> str:
    if not isinstance(name, str) or not name.isascii() or not name.replace("-", "").isidentifier():
        raise ConfigError(f"{key}: {shown(name)} is no name of a header")
    if is_reserved(name):
        hint = "it is written by the exporter, or by gRPC: leave it out"
        raise ConfigError(f"{key}: {shown(name)} is not for anybody to set", hint=hint)
    return name.lower()


def _parted(written: str, key: str) -> tuple[str, int]:
    host, _, port = written.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(f"{key}: {shown(written)} needs brackets around the host", hint=_ADDRESS)
    if not _is_port(port) or host != host.strip() or any(char in host for char in "/\\@\0"):
        raise ConfigError(f"{key}: {shown(written)} is no address to listen on", hint=_ADDRESS)
    return host or "127.0.0.1", int(port)


def _is_port(port: str) -> bool:
    return port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= _PORT_MAX  # noqa: PLR2004


_ADDRESS: Final = "HOST:PORT, as 127.0.0.1:4317, or a port alone"
_URL: Final = "as http://127.0.0.1:4317"
