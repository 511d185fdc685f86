"""Which node an error is about: its name and its line, put in front of what went wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from quiver.errors import InputError, QuiverError, VersionError
from quiver.otel.pipeline.plan import Node, Plan

__all__ = ["blamed"]


@contextmanager
def blamed(plan: Plan, node: Node) -> Iterator[None]:
    """Name a node in errors of the block; a missing package becomes InputError."""
    where = f"{plan.file}:{node.line}: nodes.{node.name}"
    try:
        yield
    except ModuleNotFoundError as error:
        if "quiver-store[" not in str(error):  # Who found it missing knows which extra has it.
            raise
        raise InputError(f"{where}: {error}") from error
    except VersionError as error:
        if "asked for layout" in error.message and node.store is not None:
            raise VersionError(
                f"{where}: {node.store.path} is a store that was not made for telemetry",
                hint=f"give it a folder of its own; quiver info {node.store.path} says what it has",
            ) from error
        _name(error, where)
        raise
    except QuiverError as error:
        _name(error, where)
        raise


def _name(error: QuiverError, where: str) -> None:
    error.message = f"{where}: {error.message}"
    error.args = (error.message, *error.args[1:])
