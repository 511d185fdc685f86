"""What a query's columns are in the collection: the same, wider, or nothing that fits."""

from __future__ import annotations

from typing import Any, Final, cast

import pyarrow as pa

from quiver.errors import ConfigError, InputError
from quiver.promote import common_type
from quiver.schemas import same_type
from quiver.upsert.persist import widen
from quiver.upsert.rows import Definition, Misfit

__all__ = ["MISFITS", "fit"]

MISFITS: Final[tuple[Misfit, ...]] = ("fail", "error")


def fit(known: Definition, wanted: Definition, *, misfit: Misfit = "fail") -> Definition:
    """Give the definition that holds what is there and what is to come.

    Raises ConfigError for another key, InputError for a column of the value that does not fit; with
    ``misfit`` "error" such a column stays as it is, and rows that it does not hold will be errors.
    """
    _check_key(known.key, wanted.key)
    definition = known
    for column in wanted.value:
        try:
            definition = widen(definition, pa.schema([column]))
        except InputError as error:
            if misfit == "fail":
                raise _refused(error, column.name) from error
    return definition


def _check_key(known: pa.Schema, wanted: pa.Schema) -> None:
    """See that keys can be told apart as ever: nothing of them may become wider."""
    if sorted(known.names) != sorted(wanted.names):
        raise ConfigError(
            f"key: the collection has {', '.join(known.names)}, not {', '.join(wanted.names)}",
            hint="a key is chosen once, when a collection is created",
        )
    for column in wanted:
        there = cast("Any", known).field(column.name).type
        joined = common_type(there, column.type)
        if joined is None or not same_type(joined, there):
            raise ConfigError(
                f"key: column {column.name!r} is {there} in the collection and comes as "
                f"{column.type}",
                hint="cast it in the DataFrame",
            )


def _refused(error: InputError, name: str) -> InputError:
    return InputError(
        f"column {name!r} does not fit into the collection: {error.message}",
        hint="cast it in the DataFrame, leave it out with value=[...], or have such rows become "
        'errors with misfit="error"',
    )
