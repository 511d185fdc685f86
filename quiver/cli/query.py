"""One SQL statement over the slots of a store, by a DuckDB that sees nothing else.

The database is in memory. It may not read or write files, load extensions, look at variables of
this process, or change these settings again. Rows come from ``Scan.dataset()``: only the slots that
the statement names are opened, and of those only the columns that it uses are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from quiver.disk import LocalDisk
from quiver.errors import CapacityError, InputError, MissingError
from quiver.manifest import StoreManifest
from quiver.scan import scan

if TYPE_CHECKING:
    from quiver.scan.dataset import SlotDataset

__all__ = ["Answer", "ask"]

T = TypeVar("T")

_SETTINGS: Final = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
}
_LAST_SETTINGS: Final = (
    "SET enable_progress_bar = false",
    "SET TimeZone = 'UTC'",
    "SET lock_configuration = true",
)
_READING: Final = ("SELECT", "EXPLAIN")
_BATCH_ROWS: Final = 1 << 16
_PATIENCE_SECONDS: Final = 0.05
_INTEGERS: Final = ("HUGEINT", "UHUGEINT")
_PLAIN_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_UNKNOWN_TABLE: Final = re.compile("Catalog Error: Table with name (.+) does not exist!")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a statement gives: batches that are computed as they are asked for, once.

    ``whole`` are the numbers of columns of integers of 128 bits, which Arrow has as decimals;
    ``notes`` say what of the tables is not there. ``is_plan``: the second column is a drawing.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    whole: tuple[int, ...]
    notes: tuple[str, ...]
    is_plan: bool


@contextmanager
def ask(folder: str, text: str, *, include_open: bool = False) -> Iterator[Answer]:
    """Run one statement that reads, for the length of a block; ``include_open`` as in a scan.

    Raises InputError for what SQL cannot do, CapacityError if memory does not suffice, and what
    reading the store raises, also while the batches are taken.
    """
    asked = _Question(folder, include_open=include_open)
    try:
        yield asked.run(text)
    finally:
        asked.close()


class _Question:
    """A connection, the tables that it was given, and a thread in which it works.

    The thread is there so that this one hears an interrupt, and can pass it on, at once.
    """

    def __init__(self, folder: str, *, include_open: bool) -> None:
        self._folder = folder
        self._include_open = include_open
        self._slots = _slot_names(folder)
        self._connection = _connect()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="quiver-sql")
        self._datasets: list[SlotDataset] = []
        self._missing: dict[str, MissingError] = {}
        self._notes: list[str] = []
        self._reader: pa.RecordBatchReader | None = None

    def close(self) -> None:
        """Let everything go; nothing runs any more."""
        self._thread.shutdown()
        if self._reader is not None:
            self._reader.close()
        self._connection.close()

    def run(self, text: str) -> Answer:
        """Compile the statement and begin with it."""
        if "\0" in text:
            raise InputError(
                "the statement has a null character in it", hint="it must be text, as in a terminal"
            )
        is_plan = self._engine(lambda: self._kind(text)) == "EXPLAIN"
        for name in self._named(text):
            self._add(name)
        schema, whole = self._engine(lambda: self._begin(text))
        return Answer(schema, self._batches(), whole, tuple(self._notes), is_plan)

    def _kind(self, text: str) -> str:
        """Find the kind of the statement; raises InputError if there are more, or if it writes."""
        statements = self._connection.extract_statements(text)
        if len(statements) != 1:
            raise InputError(
                f"one statement is wanted, not {len(statements)}",
                hint="WITH name AS (SELECT ...) joins several steps to one statement",
            )
        kind: str = statements[0].type.name
        if kind not in _READING:
            raise InputError(
                f"{kind} is not for quiver sql: it only reads",
                hint="SELECT, FROM, WITH, VALUES, SHOW TABLES, DESCRIBE, SUMMARIZE, EXPLAIN",
            )
        return kind

    def _named(self, text: str) -> list[str]:
        """Find the slots that a statement may name: those whose names stand in it, or else all."""
        lowered = text.lower()
        return [name for name in self._slots if name.lower() in lowered] or self._slots

    def _add(self, name: str) -> None:
        """Make a slot a table; one that has no rows yet is only noted, for it has no schema."""
        twin = next((n for n in self._slots if n != name and n.lower() == name.lower()), None)
        if twin is not None:
            raise InputError(
                f"slots {name!r} and {twin!r} are one name in SQL, which knows no case",
                hint="quiver.scan(path, slot=...).to_duckdb(name=...) gives one another name",
            )
        rows = scan(self._folder, slot=name, include_open=self._include_open)
        try:
            schema = rows.schema
        except MissingError as error:
            self._missing[name.lower()] = error
            return
        foreign = [field for field in schema if not self._takes(field)]
        if foreign:
            kept = [field.name for field in schema if field not in foreign]
            rows = rows.select(columns=kept)
            kinds = ", ".join(f"{field.name!r} ({field.type})" for field in foreign)
            self._notes.append(f"slot {name!r} without what DuckDB has no type for: {kinds}")
        dataset = rows.dataset()
        self._datasets.append(dataset)
        self._engine(lambda: self._connection.register(name, dataset))

    def _takes(self, field: Any) -> bool:  # noqa: ANN401
        """Ask DuckDB whether it has a type for a column."""
        import duckdb

        try:
            nothing = pa.chunked_array([], field.type)
            self._connection.from_arrow(pa.table([nothing], schema=pa.schema([field])))
        except duckdb.Error:
            return False
        return True

    def _begin(self, text: str) -> tuple[pa.Schema, tuple[int, ...]]:
        relation = self._compile(text)
        types = [str(kind) for kind in relation.types]
        self._reader = relation.to_arrow_reader(_BATCH_ROWS)
        whole = tuple(index for index, kind in enumerate(types) if kind in _INTEGERS)
        return self._reader.schema, whole

    def _compile(self, text: str) -> Any:  # noqa: ANN401
        """Bind the statement; nothing runs yet."""
        import duckdb

        try:
            return self._connection.sql(text)
        except duckdb.Error:
            # To be refused once more: only this way does the message show the place.
            self._connection.execute(text)
            raise

    def _batches(self) -> Iterator[pa.RecordBatch]:
        reader = self._reader
        while reader is not None:
            batch = self._engine(lambda: next(reader, None))
            if batch is None:
                return
            if batch.num_rows:
                yield batch

    def _engine(self, act: Callable[[], T]) -> T:
        """Let DuckDB do something; its errors become ours."""
        import duckdb

        future = self._thread.submit(act)
        try:
            # The signal of an interrupt may come to another thread and wake nobody in this one.
            while not wait([future], timeout=_PATIENCE_SECONDS).done:
                pass
            return future.result()
        except KeyboardInterrupt:
            # An interrupt before the statement has begun is lost, so that it may take several.
            while not future.cancel() and not future.done():
                self._connection.interrupt()
                wait([future], timeout=_PATIENCE_SECONDS)
            raise
        except InputError:
            raise
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            message = str(error)
        # Outside of the block, where DuckDB's error and all that it holds are gone.
        for dataset in self._datasets:
            if dataset.failures:
                raise dataset.failures[0]
        raise self._translated(message)

    def _translated(self, message: str) -> Exception:
        unknown = _UNKNOWN_TABLE.match(message)
        if unknown and unknown[1].lower() in self._missing:
            return self._missing[unknown[1].lower()]
        text = message.expandtabs(4)
        if message.startswith("Out of Memory Error"):
            return CapacityError(
                text.splitlines()[0], hint="sort, join or group less at a time: nothing is spilled"
            )
        names = ", ".join(map(_quoted, self._slots))
        return InputError(text, hint=f"the tables are the slots: {names}")


def _connect() -> Any:  # noqa: ANN401
    try:
        import duckdb
    except ModuleNotFoundError as error:
        if error.name != "duckdb":
            raise
        raise InputError(
            "quiver sql needs the package 'duckdb'", hint="pip install 'quiver-store[sql]'"
        ) from error
    connection = duckdb.connect(":memory:", config=dict(_SETTINGS))
    for setting in _LAST_SETTINGS:
        connection.execute(setting)
    return connection


def _slot_names(folder: str) -> list[str]:
    disk = LocalDisk(folder)
    try:
        return [slot.name for slot in StoreManifest.read(disk).slots]
    finally:
        disk.close()


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else f'"{name}"'
