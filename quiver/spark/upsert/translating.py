"""Spark's expressions as formulas: the few of which it is certain that they mean the same.

These are names of Spark's inside. All others, and whatever may fail for a row, is Spark's to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from quiver.spark.upsert.formulas import (
    KINDS,
    Among,
    Compared,
    Formula,
    IsNull,
    Joined,
    Named,
    Negated,
    Value,
    Wider,
)

__all__ = ["Find", "Untold", "each", "id_of", "translated"]

_ATTRIBUTE: Final = "AttributeReference"
_PACKAGE: Final = "org.apache.spark.sql.catalyst.expressions."
_COMPARED: Final = {
    "EqualTo": "equal",
    "LessThan": "less",
    "LessThanOrEqual": "less_equal",
    "GreaterThan": "greater",
    "GreaterThanOrEqual": "greater_equal",
}
_JOINED: Final = {"And": "and_kleene", "Or": "or_kleene"}
_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
_STEPS_MAX: Final = 400
"""A condition has no more parts: each costs questions to the JVM."""
_DEPTH_MAX: Final = 100


class Untold(Exception):
    """There is something that only Spark can do."""


class _Made(NamedTuple):
    formula: Formula
    kind: str
    """Spark's name of the type."""


Find: TypeAlias = Callable[[int], "tuple[Any, Find] | str"]
"""Says what a column is, by its id: an expression, and how to find those in it; or its name."""


def translated(number: int, find: Find) -> Formula:
    """Give what the column of an id is made of; raises Untold for what is not certain."""
    return _Translator().found(number, find, depth=0).formula


class _Translator:
    def __init__(self) -> None:
        self._left = _STEPS_MAX
        self._shared: dict[str, _Made] = {}
        """What an expression has once and names in several places, by Spark's id of it."""

    def found(self, number: int, find: Find, *, depth: int, kind: str = "") -> _Made:
        found = find(number)
        while not isinstance(found, str):
            expression, deeper = found
            if _inside(expression) == "Alias":
                expression = expression.child()
            if _inside(expression) != _ATTRIBUTE:
                return self._made(expression, deeper, depth + 1)
            found = deeper(id_of(expression))
        return _Made(Named(found), kind)

    def _made(self, expression: Any, find: Find, depth: int) -> _Made:  # noqa: ANN401
        self._left -= 1
        if self._left < 0 or depth > _DEPTH_MAX:
            raise Untold
        word = _inside(expression)
        if word == _ATTRIBUTE:
            number, kind = id_of(expression), _kind_of(expression)
            return self.found(number, find, depth=depth, kind=kind)
        if word in ("Literal", "Cast"):
            return self._cast(expression, find, depth)
        if word == "Between":
            return self._made(expression.replacement(), find, depth + 1)
        if word == "With":
            for one in each(expression.defs()):
                self._shared[str(one.id())] = self._made(one.child(), find, depth + 1)
            return self._made(expression.child(), find, depth + 1)
        if word == "CommonExpressionRef":
            return self._told(str(expression.id()))
        return _Made(self._condition(word, expression, find, depth=depth + 1), "boolean")

    def _told(self, shared: str) -> _Made:
        found = self._shared.get(shared)
        if found is None:
            raise Untold
        return found

    def _cast(self, expression: Any, find: Find, depth: int) -> _Made:  # noqa: ANN401
        """Have Spark make a value of a literal, whatever it is cast to; of columns few casts."""
        kind, inner = _kind_of(expression), expression
        while _inside(inner) == "Cast":
            inner = inner.child()
        if _inside(inner) == "Literal":
            return _Made(Value(_plain(expression.eval(None), kind), kind), kind)
        made = self._made(expression.child(), find, depth + 1)
        if made.kind == kind:
            return made
        if made.kind not in _WHOLE or kind not in _WHOLE[_WHOLE.index(made.kind) :]:
            raise Untold
        return _Made(Wider(made.formula, kind), kind)

    def _condition(self, word: str, expression: Any, find: Find, *, depth: int) -> Formula:  # noqa: ANN401
        if word in _COMPARED:
            left, right = (
                self._made(side, find, depth) for side in (expression.left(), expression.right())
            )
            _check_kind(left.kind, right.kind, sign=_COMPARED[word])
            if isinstance(left.formula, Value) and isinstance(right.formula, Value):
                raise Untold
            return Compared(_COMPARED[word], left.formula, right.formula)
        if word in _JOINED:
            sides = (expression.left(), expression.right())
            return Joined(_JOINED[word], tuple(self._truth(side, find, depth) for side in sides))
        if word == "Not":
            return Negated(self._truth(expression.child(), find, depth))
        if word in ("IsNull", "IsNotNull"):
            found = IsNull(self._made(expression.child(), find, depth).formula)
            return found if word == "IsNull" else Negated(found)
        if word == "In":
            return self._among(expression, find, depth)
        raise Untold

    def _truth(self, expression: Any, find: Find, depth: int) -> Formula:  # noqa: ANN401
        made = self._made(expression, find, depth)
        if made.kind != "boolean":
            raise Untold
        return made.formula

    def _among(self, expression: Any, find: Find, depth: int) -> Formula:  # noqa: ANN401
        made = self._made(expression.value(), find, depth)
        values = list[str | int | bool]()
        for one in each(expression.list()):
            other = self._made(one, find, depth)
            _check_kind(made.kind, other.kind)
            if not isinstance(other.formula, Value):
                raise Untold
            values.append(other.formula.value)
        return Among(made.formula, tuple(values), made.kind)


def _inside(node: Any) -> str:  # noqa: ANN401
    """Give the name of an expression, if it is one of Spark's own; else nothing."""
    name = str(node.getClass().getName())
    return name.removeprefix(_PACKAGE) if name.startswith(_PACKAGE) else ""


def id_of(column: Any) -> int:  # noqa: ANN401
    """Give the number of a column, which is its own in all of a plan."""
    return int(column.exprId().id())


def each(found: Any) -> Iterator[Any]:  # noqa: ANN401
    """Go through a sequence of Scala's."""
    return (found.apply(number) for number in range(found.size()))


def _kind_of(expression: Any) -> str:  # noqa: ANN401
    """Give Spark's name of a type; that of a text says how it is compared, unless by bytes."""
    return str(expression.dataType().simpleString())


def _check_kind(left: str, right: str, *, sign: str = "equal") -> None:
    if left != right or left not in KINDS or (left == "boolean" and sign != "equal"):
        raise Untold


def _plain(value: Any, kind: str) -> str | int | bool:  # noqa: ANN401
    """Give what Spark has for a literal; null is compared with nothing."""
    if value is None or kind not in KINDS:
        raise Untold
    if kind == "string":
        return bytes(value.getBytes()).decode()
    if kind == "boolean":
        return bool(value)
    return int(value)
