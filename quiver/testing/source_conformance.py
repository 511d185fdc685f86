"""What every connector has to keep, as tests: inherit them, and say how rows get into the source.

::

    class TestMine(SourceConformance):
        @pytest.fixture
        def rig(self, tmp_path):
            with MyRig(tmp_path) as rig:
                yield rig

The rig holds one connector and fills what it reads from. No test waits for a fixed time: readers
are asked again, with ``rig.patience`` seconds for each batch.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Protocol

from quiver.errors import ClosedError, InputError, QuiverError, VersionError
from quiver.source import Connector, ConnectorSource, Split, SplitBatch, SplitReader

__all__ = ["SourceConformance", "SourceRig"]

_BATCHES_MAX = 1000
_STATES_MAX = 12
_DEADLINE = 60.0


class SourceRig(Protocol):
    """A source that a test can fill."""

    connector: Connector
    columns: Sequence[str]
    """At least two columns that all rows have."""
    patience: float
    """Seconds within which a reader gives what is there."""

    def feed(self, rows: int) -> None:
        """Put that many rows more into the source, over all its splits; each differs."""
        ...

    def list_splits(self) -> Sequence[Split]:
        """List the splits, by an enumerator that stays the same."""
        ...

    def bad_states(self) -> Sequence[str]:
        """States in the connector's own form that it cannot go on from."""
        ...


def check(holds: object, what: str) -> None:
    """Fail a test, also where asserts are left out."""
    if not holds:
        raise AssertionError(what)


class SourceConformance:
    """Tests of one connector. The rig is a fixture of that name; each test gets one of its own."""

    def test_the_rows_of_all_splits_are_what_was_fed(self, rig: SourceRig) -> None:
        rig.feed(40)
        first = _all_rows(rig, 40)
        rig.feed(25)
        again = _all_rows(rig, 65)
        check(len(set(map(repr, again))) == len(again), "a row came twice")
        check(set(map(repr, first)) <= set(map(repr, again)), "rows are gone")

    def test_the_same_state_gives_the_same_rows(self, rig: SourceRig) -> None:
        rig.feed(40)
        for split, count in _counts(rig, 40).items():
            once = _read(rig, split, None, count)
            twice = _read(rig, split, None, count)
            _same(_rows(once), _rows(twice), "two readers from the start")

    def test_from_every_state_on_comes_exactly_the_rest(self, rig: SourceRig) -> None:
        rig.feed(60)
        seen = 0
        for split, count in _counts(rig, 60).items():
            batches = _read(rig, split, None, count)
            rows, done = _rows(batches), 0
            step = max(len(batches) // _STATES_MAX, 1)
            for number, batch in enumerate(batches):
                done += batch.batch.num_rows
                if number % step == 0 or number == len(batches) - 1:
                    rest = _read(rig, split, batch.state, count - done)
                    _same(_rows(rest), rows[done:], f"from {batch.state}")
                    seen += 1
        check(seen > 1, "there is one state alone: let the rig make smaller batches")

    def test_what_is_fed_later_follows_an_old_state(self, rig: SourceRig) -> None:
        rig.feed(30)
        counts = _counts(rig, 30)
        ends = {split: _read(rig, split, None, count)[-1:] for split, count in counts.items()}
        rig.feed(30)
        after = _counts(rig, 60)
        grown = 0
        for split, count in after.items():
            end = ends.get(split)
            state = end[0].state if end else None
            grown += len(_rows(_read(rig, split, state, count - counts.get(split, 0))))
        check(grown == 30, f"{grown} rows came behind the states, 30 were fed")  # noqa: PLR2004

    def test_every_row_has_an_offset_of_its_own(self, rig: SourceRig) -> None:
        rig.feed(40)
        kinds = set()
        for split, count in _counts(rig, 40).items():
            places: list[Any] = []
            for batch in _read(rig, split, None, count):
                check(len(batch.offsets) == batch.batch.num_rows, "not one offset a row")
                kinds.add(str(batch.offsets.type))
                places += batch.offsets.to_pylist()
            check(len(set(map(repr, places))) == len(places), "two rows have one offset")
        check(len(kinds) == 1, f"offsets are of {len(kinds)} types")

    def test_states_are_texts_that_move_with_the_rows(self, rig: SourceRig) -> None:
        rig.feed(40)
        for split, count in _counts(rig, 40).items():
            batches = _read(rig, split, None, count)
            for before, after in pairwise(batches):
                check(isinstance(after.state, str) and after.state.isascii(), "no text")
                moved = before.state != after.state
                check(moved or not after.batch.num_rows, "rows came and the state stayed")

    def test_only_the_columns_that_are_wanted_come_and_in_their_order(self, rig: SourceRig) -> None:
        rig.feed(20)
        wanted = [rig.columns[1], rig.columns[0]]
        for split, count in _counts(rig, 20).items():
            all_of_it = _read(rig, split, None, count)
            for columns in (wanted, wanted[:1], []):
                some = _read(rig, split, None, count, columns)
                for batch in some:
                    if batch.batch.num_rows:
                        _same(batch.batch.schema.names, columns, "the columns")
                cut = [{name: row[name] for name in columns} for row in _rows(all_of_it)]
                _same(_rows(some), cut, "the rows")

    def test_a_column_that_is_not_there_is_an_error(self, rig: SourceRig) -> None:
        rig.feed(20)
        for split, count in _counts(rig, 20).items():
            if count:
                _raises(QuiverError, lambda s=split: _read(rig, s, None, 1, ["no such column"]))

    def test_listing_again_only_adds(self, rig: SourceRig) -> None:
        seen: list[str] = []
        for _ in range(4):
            ids = [split.id for split in rig.list_splits()]
            _same(ids, sorted(set(ids)), "ids in order, each once")
            check(set(seen) <= set(ids), f"{set(seen) - set(ids)} is listed no more")
            seen = ids
            rig.feed(10)

    def test_an_empty_split_has_nothing_yet(self, rig: SourceRig) -> None:
        for split in rig.list_splits():
            reader = rig.connector.reader(split, None, None)
            try:
                check(reader.next(0) is None, "something came of nothing")
                check(not reader.is_drained(), "it ended before anything came")
            finally:
                reader.close()

    def test_nothing_and_not_yet_are_told_at_once(self, rig: SourceRig) -> None:
        rig.feed(20)
        for split, count in _counts(rig, 20).items():
            reader = rig.connector.reader(split, None, None)
            try:
                _take(rig, reader, count)
                check(reader.next(0) is None, "something came behind the end")
            finally:
                reader.close()

    def test_close_wakes_who_waits(self, rig: SourceRig) -> None:
        rig.feed(20)
        for split, count in _counts(rig, 20).items():
            reader = rig.connector.reader(split, None, None)
            _take(rig, reader, count)
            ended: list[object] = []
            began = threading.Event()

            def wait(reader: SplitReader = reader, began: Any = began, to: Any = ended) -> None:  # noqa: ANN401
                began.set()
                try:
                    to.append(reader.next(10 * _DEADLINE))
                except BaseException as error:  # noqa: BLE001 It is looked at below.
                    to.append(error)

            waiter = threading.Thread(target=wait, daemon=True)
            waiter.start()
            began.wait(_DEADLINE)
            reader.close()
            waiter.join(_DEADLINE)
            check(not waiter.is_alive(), "nobody woke it")
            check(ended[0] is None or isinstance(ended[0], ClosedError), f"it got {ended[0]!r}")
            reader.close()
            _raises(ClosedError, lambda r=reader: r.next(0))

    def test_what_is_no_state_is_refused(self, rig: SourceRig) -> None:
        rig.feed(20)
        generic = ["", "{}", "17", '{"at":{},"connector":"none such","version":1}']
        newer = f'{{"at":{{}},"connector":"{rig.connector.name}","version":99}}'
        empty = f'{{"at":{{}},"connector":"{rig.connector.name}","version":1}}'
        for split in rig.list_splits():
            for state in [*generic, empty, *rig.bad_states()]:
                error = _raises(InputError, lambda s=split, t=state: _refused(rig, s, t))
                check(error.hint, f"no hint of what to do about {state!r}")
            _raises(VersionError, lambda s=split: _refused(rig, s, newer))

    def test_all_splits_as_one_source(self, rig: SourceRig) -> None:
        rig.feed(50)
        with ConnectorSource(rig.connector, rig.list_splits()) as source:
            _drain(rig, source, 50)
            states = {name: state for name, state in source.states.items() if state is not None}
        rig.feed(10)
        with ConnectorSource(rig.connector, rig.list_splits(), states=states) as source:
            _drain(rig, source, 10)


def _drain(rig: SourceRig, source: ConnectorSource, count: int) -> None:
    """Take exactly ``count`` rows of all splits."""
    rows = 0
    for _ in range(_BATCHES_MAX):
        if rows >= count:
            break
        chunk = source.next(rig.patience) or source.next(rig.patience)
        check(chunk is not None, f"{rows} rows came, {count} are there")
        rows += chunk.batch.num_rows if chunk is not None else 0
    check(rows == count, f"{rows} rows came, {count} are there")


def _refused(rig: SourceRig, split: Split, state: str) -> None:
    reader = rig.connector.reader(split, state, None)
    try:
        reader.next(0)
    finally:
        reader.close()


def _take(rig: SourceRig, reader: SplitReader, count: int) -> list[SplitBatch]:
    """Read until ``count`` rows came; more than that fail."""
    found: list[SplitBatch] = []
    rows = 0
    for _ in range(_BATCHES_MAX):
        if rows >= count:
            break
        batch = reader.next(rig.patience)
        check(batch is not None, f"{rows} rows came, {count} are there")
        if batch is not None:
            found.append(batch)
            rows += batch.batch.num_rows
    check(rows == count, f"{rows} rows came, {count} are there")
    return found


def _read(
    rig: SourceRig,
    split: Split,
    state: str | None,
    *more: Any,  # noqa: ANN401 A number of rows, and columns.
) -> list[SplitBatch]:
    count, columns = more[0], more[1] if len(more) > 1 else None
    reader = rig.connector.reader(split, state, columns)
    try:
        return _take(rig, reader, count)
    finally:
        reader.close()


def _rows(batches: Sequence[SplitBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.batch.to_pylist()]


def _counts(rig: SourceRig, total: int) -> dict[Any, int]:
    """Read how many rows each split has: all of them together are ``total``."""
    readers = {split: rig.connector.reader(split, None, None) for split in rig.list_splits()}
    counts = dict.fromkeys(readers, 0)
    try:
        wait = 0.0
        for _ in range(_BATCHES_MAX):
            if sum(counts.values()) >= total:
                break
            before = sum(counts.values())
            for split, reader in readers.items():
                batch = reader.next(wait)
                counts[split] += batch.batch.num_rows if batch is not None else 0
            wait = 0.0 if sum(counts.values()) > before else rig.patience / 10
    finally:
        for reader in readers.values():
            reader.close()
    check(sum(counts.values()) == total, f"{counts} rows came, {total} were fed")
    return {split: count for split, count in counts.items() if count}


def _all_rows(rig: SourceRig, total: int) -> list[Any]:
    counts = _counts(rig, total)
    return [row for split, count in counts.items() for row in _rows(_read(rig, split, None, count))]


def _same(found: object, expected: object, what: str) -> None:
    check(found == expected, f"{what}: {found!r} is not {expected!r}")


def _raises(kind: type[QuiverError], act: Any) -> QuiverError:  # noqa: ANN401
    try:
        act()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} was raised")
