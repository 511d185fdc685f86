"""The ways to write a config down, brought to one: dotted keys, and what each was given.

==========================  ===================================================
a document that has         gives its options
==========================  ===================================================
our sections                as ``wal: {max_size: ...}`` or ``wal.max_size: ...``
``persistence``             below that, or below its ``config``
``nodes``                   below ``nodes: persistence: config``, and nowhere else
==========================  ===================================================

The last one is a whole pipeline of otap-dataflow: its other nodes are none of our business, nor is
what a node has beside its ``config``. ``path``, the folder of the store, stands beside sections.
Only keys that are known are looked into, so what a document nests without end costs nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple, cast

__all__ = ["PATH", "Fault", "Given", "Reading", "Table", "read_keys", "shown"]

PATH: Final = "path"
"""The one key that is in no section."""

_ROOT: Final = "persistence"
_ROOTS: Final = (f"{_ROOT}.config", _ROOT)
_NODE: Final = ("kind", "plugin_urn", "out_ports")
_PIPELINE: Final = f"nodes.{_ROOT}.config"
_SHOWN_MAX: Final = 80


class Table(dict[str, Any]):
    """A mapping out of a file, which knows the line of each key; 0 where that is unknown."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, int] = {}


class Given(NamedTuple):
    """What an option was given, and the key as it was written."""

    value: object
    key: str
    line: int = 0


class Fault(NamedTuple):
    """Something that is wrong with a document."""

    text: str
    hint: str = ""
    line: int = 0


class Reading(NamedTuple):
    """The options of a document by their dotted keys, and all that is wrong with the others."""

    given: dict[str, Given]
    faults: list[Fault]


def read_keys(document: object, known: Collection[str], *, from_file: bool = False) -> Reading:
    """Find the options in a document; ``known`` are those that there are, dotted.

    Values are given as they are. A file may have sections, or be, without anything in it.
    """
    reader = _Reader(known, none_is_empty=from_file)
    if isinstance(document, Mapping) and "nodes" in document:
        reader.read_pipeline(document)
    else:
        reader.read(document, "")
    return Reading(reader.given, reader.faults)


class _Reader:
    def __init__(self, known: Collection[str], *, none_is_empty: bool) -> None:
        self.given: dict[str, Given] = {}
        self.faults: list[Fault] = []
        self._known = dict.fromkeys((PATH, *known))
        self._sections = list(dict.fromkeys(key.split(".")[0] for key in known))
        self._none_is_empty = none_is_empty
        self._roots: dict[str, str] = {}

    def read_pipeline(self, document: Mapping[Any, Any]) -> None:
        """Take the config of the persistence node, and refuse options beside ``nodes``."""
        for key in document:
            if str(key).split(".")[0] in {PATH, _ROOT, *self._sections}:
                self._refuse(document, key, str(key), "stands beside nodes", _SPELLINGS)
        place, found = "", cast("Any", document)
        for step in _PIPELINE.split("."):
            if not isinstance(found, Mapping):
                self.faults.append(Fault(f"{place}: {shown(found)} is not a section", _SPELLINGS))
                return
            if step not in found:
                near = difflib.get_close_matches(step, [_short(str(key)) for key in found], n=1)
                hint = f"did you mean {step} by {near[0]}?" if near else _SPELLINGS
                self.faults.append(Fault(f"{place}: there is no {step} in it", hint))
                return
            place, found = f"{place}.{step}".lstrip("."), found[step]
        self.read(found, f"{_PIPELINE}.", within=f"{_PIPELINE}.")

    def read(self, values: object, prefix: str, *, within: str = "", line: int = 0) -> None:
        """Read one level; ``prefix`` is the key of it, and ``within`` what of that is no option."""
        if values is None and self._none_is_empty:
            return
        if not isinstance(values, Mapping):
            where = prefix.rstrip(".") or "config"
            text = f"{where}: {shown(values)} is not a section of keys and values"
            self.faults.append(Fault(text, line=line))
            return
        for key, value in values.items():
            written = f"{prefix}{key}"
            root, name = _split(written.removeprefix(within))
            line = _line(values, key)
            if name in self._known:
                self._take(name, Given(value, _short(written), line), root)
            elif name in self._sections or (not name and root):
                self.read(value, f"{written}.", within=within, line=line)
            elif root != _ROOT or name not in _NODE:
                self._refuse(values, key, written, "there is no such option", self._hint(name))

    def _take(self, name: str, given: Given, root: str) -> None:
        first = self.given.get(name)
        if first is not None:
            text = f"{given.key}: given twice, also as {first.key}"
            at = f" in line {first.line}" if first.line and first.line != given.line else ""
            self.faults.append(Fault(text + at, line=given.line))
            return
        self.given[name] = given
        self._roots.setdefault(root, given.key)
        if len(self._roots) > 1:
            other = next(key for known, key in self._roots.items() if known != root)
            text = f"{given.key}: options stand elsewhere, too: {other}"
            self.faults.append(Fault(text, _SPELLINGS, given.line))

    def _refuse(self, values: Mapping[Any, Any], key: object, written: str, *why: str) -> None:
        text, hint = why
        self.faults.append(Fault(f"{_short(written)}: {text}", hint, _line(values, key)))

    def _hint(self, name: str) -> str:
        """Say which key may have been meant."""
        section, _, option = _short(name).partition(".")
        if section in self._sections:
            ahead = f"{section}."
            names = [key.removeprefix(ahead) for key in self._known if key.startswith(ahead)]
            return _guess(option, {name: ahead + name for name in names}, names)
        first = [*self._sections, PATH]
        if option:
            return _guess(f"{section}.{option}", {key: key for key in self._known}, first)
        # A section, or an option whose section was left out.
        options = {key.rpartition(".")[2]: key for key in self._known}
        return _guess(section, {**options, **{key: key for key in (*first, _ROOT)}}, first)


def shown(value: object) -> str:
    """Write a value for a message; a long one is cut."""
    if (
        isinstance(value, int) and value.bit_length() > 2 * _SHOWN_MAX
    ):  # Python refuses the longest.
        return f"a number of {value.bit_length():,} bits"
    return _short(repr(value))


def _guess(name: str, candidates: Mapping[str, str], known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, candidates, n=1)
    return f"did you mean {candidates[near[0]]}?" if near else f"known: {', '.join(known)}"


def _split(written: str) -> tuple[str, str]:
    """Take off what stands around the sections; gives that, and what is left."""
    for root in _ROOTS:
        if written == root or written.startswith(f"{root}."):
            return root, written[len(root) + 1 :]
    return "", written


def _line(values: Mapping[Any, Any], key: object) -> int:
    return values.lines.get(str(key), 0) if isinstance(values, Table) else 0


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


_SPELLINGS: Final = (
    "options stand at the top, or below persistence, or below nodes: persistence: config"
)
