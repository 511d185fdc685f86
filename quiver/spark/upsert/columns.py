"""Which columns of a DataFrame say what, and the one that has these and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from quiver.errors import ConfigError, InputError
from quiver.spark.schema import arrow_schema
from quiver.spark.tasks import METADATA
from quiver.spark.upsert.places import ORDER, PLACE, QUIVER
from quiver.spark.upsert.preparing import Reading
from quiver.spark.upsert.relation import LEAF, leaves_of
from quiver.spark.upsert.splits import SplitPlan
from quiver.upsert.rows import Definition, Plan, plain_schema

__all__ = ["Asked", "Chosen", "choose", "names_of", "source_of"]

_DELETE: Final = ":delete"
_SOURCE: Final = "spark"
_NO_ORDER: Final = (
    'name a column that grows, order_by="updated_at", or the offsets of the source, '
    'offsets=["partition", "offset"]; of a Quiver source say .option("includeMetadata", "true")'
)


@dataclass(frozen=True)
class Asked:
    """What the caller said of columns."""

    key: Sequence[str]
    value: Sequence[str] | None = None
    order_by: Sequence[str | Column] | None = None
    delete_when: str | Column | None = None
    offsets: Sequence[str] | None = None


@dataclass(frozen=True)
class Chosen:
    """The columns that are needed of a DataFrame, and how a task reads them."""

    frame: DataFrame
    reading: Reading
    definition: Definition


def source_of(frame: DataFrame) -> str:
    """Name the source of a stream after its slot, as ``quiver upsert`` does, if it is of one.

    For places in a store say nothing of the slot: what is in of one slot must not pass for another.
    """
    slots = set[str | None]()
    for leaf in leaves_of(frame):
        is_ours = leaf.getClass().getSimpleName() == LEAF and leaf.sourceName() == "quiver"
        slots.add(leaf.extraOptions().get("slot") if is_ours else None)
    if None in slots or len(slots) != 1:
        return _SOURCE
    return f"quiver:{slots.pop()}"


def names_of(name: str, given: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Read names of columns: one, or several; raises ConfigError."""
    if given is None:
        return None
    names = (given,) if isinstance(given, str) else tuple(given)
    for each in names:
        if not isinstance(each, str):
            raise ConfigError(f"{name}: {each!r:.60} is no name of a column")
    return names


def choose(frame: DataFrame, asked: Asked, *, buckets: int) -> Chosen:
    """Choose columns; raises ConfigError or InputError that names what is wrong."""
    has_place = _has_place(frame)
    splits = _splits(asked, has_place=has_place)
    order, ordering = _ordering(frame, asked, splits)
    value = asked.value
    if value is None:
        named = {*asked.key, *order, *(splits.columns if splits else ())}
        named |= set(METADATA.names) if has_place else set()
        named |= {asked.delete_when} if isinstance(asked.delete_when, str) else set()
        value = [name for name in frame.columns if name not in named]
    place = PLACE if order == ORDER else ()
    wanted: dict[str, Column] = {}
    for name in (*asked.key, *value, *(splits.columns if splits else ()), *place):
        wanted[name] = _column(frame, name)
    wanted |= ordering
    if asked.delete_when is not None:
        wanted[_DELETE] = _condition(frame, asked.delete_when)
    chosen, types = _select(frame, wanted)
    delete = _DELETE if asked.delete_when is not None else None
    plan = Plan(tuple(asked.key), tuple(value), order, delete)
    fields = {column.name: column for column in types}
    key, values = ([fields[name] for name in names] for names in (plan.key, value))
    return Chosen(
        chosen,
        Reading(types, plan, splits, has_place=bool(place)),
        Definition(plain_schema(pa.schema(key)), plain_schema(pa.schema(values)), buckets),
    )


def _splits(asked: Asked, *, has_place: bool) -> SplitPlan | None:
    if asked.offsets is None:
        return QUIVER if has_place else None
    if not asked.offsets:
        return None
    *split, offset = asked.offsets
    return SplitPlan(tuple(split), (offset,), form="" if split else "rows")


def _ordering(
    frame: DataFrame, asked: Asked, splits: SplitPlan | None
) -> tuple[tuple[str, ...], dict[str, Column]]:
    """Give the names of what orders commands, and what of it has to be selected."""
    if asked.order_by is not None:
        if not asked.order_by:
            raise ConfigError("order_by: it names no column", hint=_NO_ORDER)
        found: dict[str, Column] = {}
        for number, given in enumerate(asked.order_by):
            if isinstance(given, str):
                found[given] = _column(frame, given)
            else:
                found[f":order{number}"] = given
        return tuple(found), found
    if _has_place(frame):
        return ORDER, {}
    if splits is None:
        raise ConfigError(
            "order_by: nothing says which of two commands is the later one", hint=_NO_ORDER
        )
    return splits.offset, {}


def _has_place(frame: DataFrame) -> bool:
    return set(PLACE) <= set(frame.columns)


def _column(frame: DataFrame, name: str) -> Column:
    known = frame.columns
    if known.count(name) != 1:
        what = "is there more than once" if name in known else "is not there"
        raise InputError(f"column {name!r} {what}", hint=f"there are {', '.join(known)}")
    return f.col("`" + name.replace("`", "``") + "`")


def _condition(frame: DataFrame, given: str | Column) -> Column:
    if not isinstance(given, str):
        return given
    return _column(frame, given) if given in frame.columns else f.expr(given)


def _select(frame: DataFrame, wanted: Mapping[str, Column]) -> tuple[DataFrame, pa.Schema]:
    """Select columns under plain names, for Spark takes none with a dot; and say what they are."""
    try:
        chosen = frame.select([column.alias(f"c{at}") for at, column in enumerate(wanted.values())])
        kinds = arrow_schema(chosen.schema)
    except PySparkException as error:
        first = str(error).strip().partition("\n")[0]
        raise ConfigError(f"Spark does not take these columns: {first:.300}") from error
    if _DELETE in wanted and not pa.types.is_boolean(kinds.field(list(wanted).index(_DELETE)).type):
        raise ConfigError(
            "delete_when: it gives no yes or no", hint="as in delete_when=\"op = 'd'\""
        )
    types = [pa.field(name, column.type) for name, column in zip(wanted, kinds, strict=True)]
    return chosen, pa.schema(types)
