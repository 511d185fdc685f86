"""The columns that rows of all signals have: where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import pyarrow as pa

from quiver.otel.joined import values as v

__all__ = ["SHARED", "Table", "schema", "shared_columns", "struct"]

Table: TypeAlias = Mapping[str, pa.RecordBatch]


def schema(fields: Mapping[str, Any]) -> pa.Schema:
    """Make a schema of names and types."""
    return pa.schema(list(fields.items()))


def struct(fields: Mapping[str, Any]) -> pa.StructType:
    """Make a type of names and types."""
    return pa.struct(list(fields.items()))


SHARED: Final[dict[str, Any]] = {
    "resource": v.MAP,
    "resource_schema_url": pa.utf8(),
    "scope_name": pa.utf8(),
    "scope_version": pa.utf8(),
    "scope_attributes": v.MAP,
    "schema_url": pa.utf8(),
}


def shared_columns(table: Table, root: pa.RecordBatch) -> dict[str, Any]:
    """Give resource and scope of each row of a root payload."""
    resource = v.child(root, ("resource", "id"), pa.uint16())
    scope = v.child(root, ("scope", "id"), pa.uint16())
    return {
        "resource": v.maps(resource, table.get("resource_attrs")),
        "resource_schema_url": v.child(root, ("resource", "schema_url"), pa.utf8()),
        "scope_name": v.child(root, ("scope", "name"), pa.utf8()),
        "scope_version": v.child(root, ("scope", "version"), pa.utf8()),
        "scope_attributes": v.maps(scope, table.get("scope_attrs")),
        "schema_url": v.texts(root, "schema_url", root.num_rows),
    }
