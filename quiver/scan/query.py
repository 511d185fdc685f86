"""What is asked of a slot: which columns and rows, from where, and how much of it is checked."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import pyarrow.compute as pc

from quiver.errors import InputError
from quiver.scan.expressions import text_of
from quiver.scan.times import TimeRange, event_range, ingestion_range

__all__ = ["Query", "Verify", "checked_path"]

Verify: TypeAlias = Literal["lazy", "full", "off"]

_EVERYTHING: Any = pc.scalar(True)
_NUMBERED = re.compile(r"\bFieldPath\([0-9]")


@dataclass(frozen=True, slots=True)
class Query:
    """The options of a scan, checked; times are nanoseconds since 1970, ranges half-open."""

    slot: str | int
    columns: tuple[str, ...] | None = None
    where: Any = None
    event_time: tuple[int | None, int | None] = (None, None)
    ingestion_time: tuple[int | None, int | None] = (None, None)
    include_open: bool = False
    verify: Verify = "lazy"

    @classmethod
    def of(
        cls,
        *,
        slot: Any,  # noqa: ANN401
        columns: object = None,
        where: object = None,
        event_time: TimeRange = (None, None),
        ingestion_time: TimeRange = (None, None),
        include_open: bool = False,
        verify: Verify = "lazy",
    ) -> Query:
        """Check the options of a scan as they were given; raises InputError that names one."""
        if verify not in get_args(Verify):
            raise InputError(f"verify: {verify!r} is none of {', '.join(get_args(Verify))}")
        if not isinstance(include_open, bool):
            raise InputError(f"include_open: {include_open!r} is neither True nor False")
        return cls(
            slot,
            None if columns is None else _checked_columns(columns),
            _checked_where(where),
            event_range(event_time),
            ingestion_range(ingestion_time),
            include_open,
            verify,
        )

    def narrowed(self, columns: object, where: object) -> Query:
        """Ask for fewer columns and rows; None leaves either as it is."""
        found = self
        if columns is not None:
            found = replace(found, columns=_checked_columns(columns))
        if _checked_where(where) is not None:
            joined = where if self.where is None else self.where & where
            found = replace(found, where=joined)
        return found


def checked_path(path: object) -> str:
    """Take what names a folder; everything else would come back as an error of Python's own."""
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str) or not text:
        raise InputError(f"path: {path!r} names no folder", hint="a str or a pathlib.Path")
    if "\0" in text:
        raise InputError(f"path: {path!r} has a null character in it")
    return text


def _checked_where(where: object) -> Any:  # noqa: ANN401
    if where is not None and not isinstance(where, pc.Expression):
        raise InputError(
            f"where: {where!r} is no expression",
            hint='say where=pyarrow.compute.field("column") > 5',
        )
    if where is None or _EVERYTHING.equals(where):
        return None  # All rows pass it, with or without columns.
    if _NUMBERED.search(text_of(where) or ""):
        raise InputError(
            f"where: {where} has a column by its number",
            hint="name it: which number it has depends on the columns that are read",
        )
    return where


def _checked_columns(columns: object) -> tuple[str, ...]:
    if isinstance(columns, str):
        raise InputError(f"columns: {columns!r} is one string", hint=f'say columns=["{columns}"]')
    names = tuple(columns) if isinstance(columns, Iterable) else (columns,)
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"columns: {name!r} is no name", hint='say columns=["name", ...]')
    if len(set(names)) < len(names):
        raise InputError(f"columns: one is named twice in {', '.join(names)}")
    return names
