"""Names in double braces in the values of a pipeline file, and what stands for them.

``http://{{backend_hostname}}:1235`` takes ``backend_hostname`` from ``--set``, or else from the
variable of the environment that is called just so. Keys are never looked into, and what is put in
is text: it cannot become a key, a list or another name in braces.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, Final

from quiver.config_keys import Table
from quiver.otel.pipeline.findings import Findings, line_of

__all__ = ["fill_in"]

_BRACES: Final = re.compile(r"\{\{\s*(.{0,200}?)\s*\}\}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,100}")


def fill_in(
    document: object, variables: Mapping[str, str], *, environ: Mapping[str, str], found: Findings
) -> Any:  # noqa: ANN401
    """Give the document with all names filled in; those without a value are told to ``found``."""
    filler = _Filler(variables, environ, found)
    filled = filler.fill(document, line=0)
    for name in variables:
        if name not in filler.used:
            near = difflib.get_close_matches(name, filler.asked, n=1)
            hint = f"did you mean {near[0]}?" if near else _hint(name)
            found.refuse(f"--set {name}: no value of the file has {{{{{name}}}}}", hint=hint)
    return filled


def _hint(name: str) -> str:
    if "." in name:
        variable = f"QUIVER_{name.upper().replace('.', '__')}"
        return f"options of a store stand in its node, or are in the environment: {variable}"
    return "names stand as {{name}} in values"


class _Filler:
    def __init__(
        self, variables: Mapping[str, str], environ: Mapping[str, str], found: Findings
    ) -> None:
        self._variables, self._environ, self._found = variables, environ, found
        self.used: set[str] = set()
        self.asked: set[str] = set()

    def fill(self, value: object, *, line: int) -> object:
        """Fill in one value and all that is in it; the reader of the file bounds how deep."""
        if isinstance(value, Mapping):
            filled = Table()
            for key, inner in value.items():
                own = line_of(value, key)
                filled[key] = self.fill(inner, line=own or line)
                filled.lines[str(key)] = own
            return filled
        if isinstance(value, list):
            return [self.fill(each, line=line) for each in value]
        if isinstance(value, str) and "{{" in value:
            return _BRACES.sub(lambda match: self._value_of(match, line), value)
        return value

    def _value_of(self, match: re.Match[str], line: int) -> str:
        name = match[1]
        self.asked.add(name)
        if not _NAME.fullmatch(name):
            self._found.refuse(
                f"{match[0]}: what stands in braces is no name",
                hint="letters, digits, dot, dash and underscore",
                line=line,
            )
            return ""
        for values in (self._variables, self._environ):
            if name in values:
                self.used.add(name)
                return values[name]
        self._found.refuse(
            f"{match[0]} has no value",
            hint=f"--set {name}=VALUE, or a variable {name} in the environment",
            line=line,
        )
        return f"{name}.invalid"  # So that what is around it can be looked at all the same.
