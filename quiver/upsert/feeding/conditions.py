"""Which rows delete their key, said in a line of text, and asked of the rows.

::

    op = 'd'                           a column and a value: = != < <= > >=
    cancelled                          a column of booleans
    value is null, value is not null
    op in ('d', 'x')
    not (a = 1 or b = 2) and c >= 0.5  "and" binds closer than "or"

Names that are more than letters, digits and underscores stand in double quotes, texts in single
ones; a quote inside is doubled. Where a comparison meets a null the row deletes nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from quiver.errors import InputError

__all__ = ["Condition", "ask", "parse_condition"]

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")+")
      | (?P<number>[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![A-Za-z_0-9.]))
      | (?P<word>[^\W0-9]\w*)
      | (?P<sign><=|>=|!=|<>|==|[=<>(),])
    )""",
    re.VERBOSE,
)
_HINT: Final = "as in: op = 'd', or: cancelled, or: value is null and op in ('d', 'x')"
_LENGTH_MAX: Final = 10_000
_DEPTH_MAX: Final = 100
_WORDS: Final = ("and", "or", "not", "in", "is", "null", "true", "false")


@dataclass(frozen=True, slots=True)
class Condition:
    """What is asked of rows."""

    expression: pc.Expression
    column: str | None = None
    """The column that it is, if it is no more than that."""


def parse_condition(text: str) -> Condition:
    """Read a condition; raises InputError that says where it makes no sense."""
    reader = _Reader(text)
    found = reader.either()
    return Condition(found, reader.end())


def ask(rows: pa.Table, condition: pc.Expression) -> Any:  # noqa: ANN401
    """Give a boolean for each row, False where the condition is unknown.

    Raises InputError if it names a column that the rows lack, or compares what cannot be.
    """
    try:
        dataset: Any = pads.dataset(rows)
        found = dataset.to_table({"found": condition}, use_threads=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise InputError(
            f"delete_when: the condition cannot be asked of these rows: {first}",
            hint=f"columns: {', '.join(rows.schema.names)}",
        ) from error
    column = found.column(0)
    if not pa.types.is_boolean(column.type):
        raise InputError(
            f"delete_when: the condition gives {column.type} and not yes or no", hint=_HINT
        )
    return column.fill_null(False)


class _Reader:
    """Goes through the words of a condition, one after the other."""

    def __init__(self, text: str) -> None:
        if len(text) > _LENGTH_MAX:
            raise InputError(f"delete_when: a condition has {_LENGTH_MAX:,} characters at most")
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        self._next = 0
        self._depth = 0
        self._named: str | None = None
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None or found.lastgroup is None:
                raise self._refused(at)
            word = found[found.lastgroup]
            self._tokens.append((found.lastgroup, word, found.end() - len(word)))
            at = found.end()

    def either(self) -> pc.Expression:
        """Read conditions joined by ``or``."""
        found = self._both()
        while self._takes("or"):
            found |= self._both()
        return found

    def _both(self) -> pc.Expression:
        found = self._one()
        while self._takes("and"):
            found &= self._one()
        return found

    def _one(self) -> pc.Expression:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise InputError("delete_when: the condition is nested too deeply")
        try:
            if self._takes("not"):
                return ~self._one()
            if self._takes("("):
                found = self.either()
                self._need(")")
                return found
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> pc.Expression:
        column: Any = self._column()
        if self._takes("is"):
            negated = self._takes("not")
            self._need("null")
            return column.is_valid() if negated else column.is_null()
        if self._takes("in"):
            return column.isin(self._values())
        for sign in ("=", "==", "!=", "<>", "<=", ">=", "<", ">"):
            if self._takes(sign):
                return _compare(column, sign, pc.scalar(self._value()))
        return column

    def _column(self) -> pc.Expression:
        kind, word, at = self._peek()
        if kind == "quoted":
            name = word[1:-1].replace('""', '"')
        elif kind == "word" and word.lower() not in _WORDS:
            name = word
        else:
            raise self._refused(at)
        self._next += 1
        self._named = name
        return pc.field(name)

    def _values(self) -> Any:  # noqa: ANN401
        self._need("(")
        found = [self._value()]
        while self._takes(","):
            found.append(self._value())
        self._need(")")
        try:
            return pa.array(found)
        except pa.ArrowException as error:
            raise InputError(
                "delete_when: what follows 'in' is of several kinds", hint=_HINT
            ) from error

    def _value(self) -> str | int | float | bool:
        kind, word, at = self._peek()
        self._next += 1
        if kind == "text":
            return word[1:-1].replace("''", "'")
        if kind == "number":
            is_whole = word.lstrip("+-").isdecimal()
            if is_whole and -(1 << 63) <= int(word) < 1 << 63:
                return int(word)
            return float(word)
        if kind == "word" and word.lower() in ("true", "false"):
            return word.lower() == "true"
        self._next -= 1
        raise self._refused(at)

    def _takes(self, wanted: str) -> bool:
        kind, word, _ = self._peek()
        if kind in ("word", "sign") and word.lower() == wanted:
            self._next += 1
            return True
        return False

    def _need(self, wanted: str) -> None:
        if not self._takes(wanted):
            raise self._refused(self._peek()[2])

    def _peek(self) -> tuple[str, str, int]:
        if self._next < len(self._tokens):
            return self._tokens[self._next]
        return "end", "", len(self._text)

    def end(self) -> str | None:
        """Raise unless all was read; if it was a name and nothing else, give that."""
        if self._next < len(self._tokens):
            raise self._refused(self._peek()[2])
        return self._named if len(self._tokens) == 1 else None

    def _refused(self, at: int) -> InputError:
        rest = self._text[at:].strip()
        where = f"at {rest!r:.40}" if rest else "where it ends"
        return InputError(f"delete_when: {self._text!r:.200} makes no sense {where}", hint=_HINT)


def _compare(column: Any, sign: str, value: Any) -> pc.Expression:  # noqa: ANN401
    made: dict[str, Any] = {
        "=": column == value,
        "==": column == value,
        "!=": column != value,
        "<>": column != value,
        "<": column < value,
        "<=": column <= value,
        ">": column > value,
        ">=": column >= value,
    }
    found: pc.Expression = made[sign]
    return found
