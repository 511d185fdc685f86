"""A config out of a file, the environment and the caller's words, and where each option is from.

Later ones override earlier ones, option by option:

=============  ====================================================================
``default``    what ``quiver/config.py`` says
``file``       a YAML, TOML or JSON file; ``mapping`` in its stead
``environ``    ``QUIVER_WAL__MAX_SIZE=1GB`` is ``wal.max_size: 1GB``; only if it is
               handed in: the library never looks at the environment by itself
``override``   a mapping, ``--set`` of the command line
=============  ====================================================================

``path`` is taken relative to the folder of the file that says it, otherwise to the working
directory. Nothing in it is expanded, neither ``~`` nor ``$HOME``.
"""

from __future__ import annotations

import difflib
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from quiver.config import OPTIONS, Config, conflicts, read_option, sections_of
from quiver.config_keys import PATH, Given, read_keys
from quiver.config_text import TEXT_BYTES_MAX, parse_text
from quiver.disk import foreign_path, read_foreign
from quiver.errors import ConfigError, QuiverError
from quiver.units import exact_bytes, exact_duration

if TYPE_CHECKING:
    import os

__all__ = [
    "ConfigLike",
    "LoadedConfig",
    "Origin",
    "Text",
    "beside",
    "config_of",
    "examine",
    "examine_table",
    "load_config",
    "option_text",
    "option_unit",
    "unless_wrong",
]

_AHEAD: Final = "QUIVER_"
_VARIABLES: Final = {_AHEAD + key.upper().replace(".", "__"): key for key in OPTIONS}
_DIGITS_MAX: Final = 30
_WIDTH: Final = 36


class Text(str):
    """A value that could not be anything but text where it comes from: read as its option is."""

    __slots__ = ()


class Origin(NamedTuple):
    """Where the value of an option is from: ``kind`` is one of those above."""

    kind: str
    place: str = ""
    """The file, with the line if it is known; the variable; what the caller called it."""

    def __str__(self) -> str:
        """Say it in a word or two."""
        return self.place or self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedConfig:
    """What ``load_config`` found; ``quiver.open(loaded.path, config=loaded)`` uses all of it."""

    config: Config
    path: str | None
    """The folder of the store; None if nobody said."""
    origins: Mapping[str, Origin]
    """Of each option, by its dotted key, and of ``path``."""

    def items(self) -> Iterator[tuple[str, object, Origin]]:
        """Go through the options in flow order: key, value, where it is from."""
        for key in OPTIONS:
            section, _, option = key.partition(".")
            yield key, getattr(getattr(self.config, section), option), self.origins[key]

    def dump(self) -> str:
        """Write it as YAML that loads as the same, each option with where it is from."""
        lines = []
        if self.path is not None:
            lines.append(f"{PATH}: {_quoted(self.path)}  # {_plain(str(self.origins[PATH]))}")
        before = ""
        for key, value, origin in self.items():
            section, _, option = key.partition(".")
            if section != before:
                lines.append(f"{section}:")
                before = section
            text = f"{option}: {option_text(key, value)}"
            lines.append(f"  {text:{_WIDTH}}  # {_note(key, value, origin)}")
        return "".join(f"{line}\n" for line in lines)


ConfigLike: TypeAlias = "Config | LoadedConfig | Mapping[str, Any] | str | os.PathLike[str] | None"
"""All that ``quiver.open`` takes as a config; a text is the path of a file."""


def config_of(value: ConfigLike) -> Config:
    """Make a config of anything that may be one; ConfigError says what is wrong with it."""
    if isinstance(value, LoadedConfig):
        return value.config
    if isinstance(value, str) or hasattr(value, "__fspath__"):
        return load_config(value).config
    return Config.of(value)


def load_config(
    source: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    override: Mapping[str, Any] | None = None,
) -> LoadedConfig:
    """Read a config from a file or a mapping; ``environ`` and then ``override`` go above it.

    A file is YAML (``pip install 'quiver-store[cli]'``), TOML if its name ends in ``.toml``, JSON
    in ``.json``. Its options stand at the top, below ``persistence``, or in the persistence node
    of a pipeline. ``environ`` is for ``os.environ``: nothing is read from there unless it is given.

    Raises ConfigError that says all that is wrong, with the file, the line and the key.
    """
    return unless_wrong(*examine(source, environ=environ, override=override))


def unless_wrong(loaded: LoadedConfig | None, errors: list[ConfigError]) -> LoadedConfig:
    """Give what was loaded, or raise all that is wrong as one ConfigError."""
    if len(errors) == 1:
        raise errors[0]
    if loaded is None or errors:
        text = "".join(f"\n  {error}" for error in errors)
        raise ConfigError(f"{len(errors)} faults in the config:{text}")
    return loaded


def examine(
    source: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    override: Mapping[str, Any] | None = None,
    override_name: str = "override",
) -> tuple[LoadedConfig | None, list[ConfigError]]:
    """Do the same, and give what is wrong instead of raising it; None if anything is."""
    layers = _Layers()
    try:
        if source is None or isinstance(source, Mapping):
            layers.add("mapping", "", source or {})
        else:
            place = foreign_path(source)
            document = parse_text(read_foreign(place, bytes_max=TEXT_BYTES_MAX), place)
            layers.add("file", place, document)
    except ConfigError as error:
        layers.errors.append(error)
    except QuiverError as error:
        layers.errors.append(ConfigError(error.message, hint=error.hint))
    layers.add_environ(environ or {})
    layers.add("override", override_name, override or {})
    return layers.resolve(), layers.errors


def examine_table(
    table: Mapping[str, Any], place: str, *, environ: Mapping[str, str] | None = None
) -> tuple[LoadedConfig | None, list[ConfigError]]:
    """Do the same for a section of a file that was read already; ``place`` is the file."""
    layers = _Layers()
    layers.add("file", place, table)
    layers.add_environ(environ or {})
    return layers.resolve(), layers.errors


class _Layers:
    """Options from several places, the last one of each, and all that is wrong with any."""

    def __init__(self) -> None:
        self.errors: list[ConfigError] = []
        self._values: dict[str, object] = {}
        self._origins = {key: Origin("default") for key in (PATH, *OPTIONS)}
        self._file = ""

    def add(self, kind: str, place: str, document: object) -> None:
        """Put the options of a document above those that are there."""
        is_file = kind == "file"
        self._file = place if is_file else self._file
        given, faults = read_keys(document, OPTIONS, from_file=is_file)
        for fault in faults:
            where = _where(place, fault.line)
            self._fail(f"{where}: {fault.text}" if where else fault.text, fault.hint)
        for key, one in given.items():
            where = _where(place, one.line)
            self._take(key, one, origin=Origin(kind, where))

    def add_environ(self, environ: Mapping[str, str]) -> None:
        """Put what variables say above; ConfigError for those that look like ours and are not."""
        for name in sorted(environ):
            if name in _VARIABLES:
                given = Given(Text(environ[name]), "")
                self._take(_VARIABLES[name], given, origin=Origin("environ", name))
            elif _looks_like_ours(name):
                known = {variable.removeprefix(_AHEAD): variable for variable in _VARIABLES}
                said = name.upper().removeprefix(_AHEAD)[:80]
                near = difflib.get_close_matches(said, known, n=1)
                form = "QUIVER_, the section, two underscores, the option, all in capitals"
                hint = f"did you mean {known[near[0]]}?" if near else form
                self._fail(f"{name[:80]}: there is no such option", hint)

    def _take(self, key: str, given: Given, *, origin: Origin) -> None:
        name = f"{origin.place}: {given.key}".removesuffix(": ").removeprefix(": ")
        try:
            value = read_option(key, _untext(key, given.value), name=name)
        except ConfigError as error:
            self.errors.append(error)
            return
        if key == PATH and origin.kind == "file":
            value = beside(self._file, str(value))
        self._values[key], self._origins[key] = value, origin

    def _fail(self, text: str, hint: str) -> None:
        self.errors.append(ConfigError(text, hint=hint))

    def resolve(self) -> LoadedConfig | None:
        """Make the config, unless anything is wrong."""
        if self.errors:
            return None
        sections = sections_of(self._values)
        ahead = f"{self._file}: " if self._file else ""
        for error in conflicts(sections):
            self._fail(f"{ahead}{error.message}", error.hint)
        if self.errors:
            return None
        path = self._values.get(PATH)
        return LoadedConfig(
            config=Config(**sections),
            path=None if path is None else str(path),
            origins=self._origins,
        )


def _where(place: str, line: int) -> str:
    return f"{place}:{line}" if line else place


def _looks_like_ours(name: str) -> bool:
    """Whether a variable names a section of ours, or has the form; case and count of _ apart."""
    upper = name.upper()
    if not upper.startswith(_AHEAD):
        return False
    alike = {known.replace("__", "_") for known in _VARIABLES}
    return "__" in upper or upper.replace("__", "_") in alike


def beside(file: str, path: str) -> str:
    """Give a path, that a file says, as it is from the working directory."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(file), path))


def _untext(key: str, value: object) -> object:
    """Read a number that can only be text where it is from."""
    if not isinstance(value, Text):
        return value
    text, kind = str(value), "" if key == PATH else OPTIONS[key].metadata.get("kind", "")
    if kind in ("count", "hours") and text.isascii() and len(text) <= _DIGITS_MAX:
        if text.isdecimal():
            return int(text)
        whole, _, fraction = text.partition(".")
        if kind == "hours" and whole.isdecimal() and fraction.isdecimal():
            return float(text)
    return text


def option_text(key: str, value: object) -> str:
    """Write a value so that it can be read again, with its unit if it may have one."""
    kind = OPTIONS[key].metadata.get("kind", "")
    if isinstance(value, int) and kind == "bytes":
        return exact_bytes(value)
    if isinstance(value, int) and kind == "duration":
        return exact_duration(value)
    return str(value)


def option_unit(key: str) -> str:
    """Give the unit in which the value of an option is counted; "" if it is a word."""
    metadata = OPTIONS[key].metadata
    return str(metadata.get("unit") or _UNITS.get(metadata.get("kind", ""), ""))


_UNITS: Final = {"bytes": "bytes", "duration": "nanoseconds", "hours": "hours"}


def _note(key: str, value: object, origin: Origin) -> str:
    """Say what a value is in its plainest unit, and where it is from."""
    unit = option_unit(key)
    return f"{value:,} {unit}; {_plain(str(origin))}" if unit else _plain(str(origin))


def _quoted(text: str) -> str:
    """Write a text as YAML and JSON have it, between quotes."""
    return f'"{_plain(text, also=_TAKEN)}"'


def _plain(text: str, *, also: str = "") -> str:
    """Write what is not printable as YAML writes it, so that a line stays one."""
    return "".join(
        char if char.isprintable() and char not in also else _escape(char) for char in text
    )


def _escape(char: str) -> str:
    if char in _TAKEN:
        return f"\\{char}"
    return f"\\u{ord(char):04x}" if ord(char) <= _FOUR_DIGITS else f"\\U{ord(char):08x}"


_TAKEN: Final = '"\\'
_FOUR_DIGITS: Final = 0xFFFF
