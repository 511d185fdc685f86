"""YAML as a config needs it: PyYAML's parser, and few of the things that YAML can say.

Plain words are read by the rules of YAML 1.2: ``no`` and ``010`` are text, ``12:30`` is no number.
Refused are aliases, by which few bytes become many, and tags, by which text becomes objects; so is
a key that is given twice, where PyYAML would take the last. Each key knows its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

import yaml
from yaml.composer import Composer
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from quiver.config_keys import Table
from quiver.errors import ConfigError

__all__ = ["parse_yaml"]

_DEPTH_MAX: Final = 64
_NODES_MAX: Final = 20_000
"""More than any config or pipeline has."""
_TAG: Final = "tag:yaml.org,2002:"
_DIGITS: Final = r"[0-9]*\.[0-9]+|[0-9]+\.|[0-9]+(?=[eE])"
_PLAIN: Final = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9]{0,29})", list("-+0123456789")),
    (
        "float",
        rf"[-+]?(?:(?:{_DIGITS})(?:[eE][-+]?[0-9]+)?|(?i:\.inf))|(?i:\.nan)",
        list("-+.0123456789"),
    ),
)
"""What plain words are, and what each begins with; anything else is text."""


def parse_yaml(text: str, place: str) -> object:
    """Read one document; ConfigError names ``place`` and the line of what is wrong."""
    loader = None
    try:
        loader = _Loader(text, place)
        node = loader.get_single_node()
        return None if node is None else loader.value_of(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        _refuse(place, error.problem or str(error), 0 if mark is None else mark.line + 1)
    except yaml.reader.ReaderError as error:
        _refuse(place, f"a character that YAML does not allow: {error.reason}", 0)
    finally:
        if loader is not None:
            loader.dispose()  # It holds itself in a circle.


def _refuse(place: str, problem: str, line: int) -> NoReturn:
    where = f"{place}:{line}" if line else place
    raise ConfigError(
        f"{where}: {problem}", hint="files are YAML unless they end in .toml or .json"
    )


class _Loader(Reader, Scanner, Parser, Composer, BaseResolver):
    """As PyYAML puts its own together, without the part that makes objects."""

    def __init__(self, text: str, place: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)
        self._place = place
        self._depth = 0
        self._count = 0

    def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401
        """Take the next node, unless it is one of those that are refused."""
        event = self.peek_event()
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            _refuse(self._place, f"*{event.anchor}: aliases are not taken, write it out", line)
        if event.tag is not None:
            _refuse(self._place, f"{event.tag[:80]}: tags are not taken", line)
        if self._depth == _DEPTH_MAX:
            _refuse(self._place, f"nested deeper than {_DEPTH_MAX} levels", line)
        self._count += 1
        if self._count > _NODES_MAX:
            _refuse(self._place, f"more than {_NODES_MAX:,} keys and values", line)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def value_of(self, node: yaml.Node) -> object:
        """Make the value that a node is."""
        if isinstance(node, yaml.MappingNode):
            return self._table_of(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.value_of(each) for each in node.value]
        return _MAKERS.get(node.tag.removeprefix(_TAG), str)(node.value)

    def _table_of(self, node: yaml.MappingNode) -> Table:
        table = Table()
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                text = "a key that is no text; names in braces, '{{name}}', need quotes"
                _refuse(self._place, text, line)
            name = key.value
            if name in table:
                first = table.lines[name]
                _refuse(self._place, f"{name[:80]}: given twice, first in line {first}", line)
            table[name] = self.value_of(value)
            table.lines[name] = line
        return table


_MAKERS: Final[dict[str, Callable[[str], object]]] = {
    "null": lambda _: None,
    "bool": lambda text: text.lower() == "true",
    "int": int,
    "float": lambda text: float(text.lower().replace(".inf", "inf").replace(".nan", "nan")),
}

for _name, _pattern, _first in _PLAIN:
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(f"(?:{_pattern})$"), _first)
