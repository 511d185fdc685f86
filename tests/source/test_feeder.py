"""A source into a store: splits that come, fail and end; a full store; what is told when."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import quiver
from quiver.cli.connectors import CONNECTORS, connector_of, parse_source
from quiver.errors import ConfigError, InputError, LockedError, SourceError
from quiver.source import Feeder, MessageParser, Parsed
from quiver.source.messages import Refused
from tests.kit.toy_source import ToySource, toy_state


@pytest.fixture
def store(tmp_path: Path) -> Iterator[quiver.Store]:
    with quiver.open(tmp_path / "store", slots=["s"]) as opened:
        yield opened


def fed(store: quiver.Store, source: ToySource, **options):
    feeder = Feeder(store, source, source="toy", slot="s", every=0)
    try:
        return feeder.run(once=True, idle=0, **options)
    finally:
        feeder.close()


def values(store: quiver.Store) -> list[int]:
    return sorted(quiver.scan(store.path, slot="s").to_table()["value"].to_pylist())


def test_all_that_there_is_comes_once_over_many_runs(store) -> None:
    source = ToySource({"a": range(5), "b": range(100, 103)})
    source.ended = {"a", "b", "c"}
    found = fed(store, source)
    assert (found.bundle_count, found.row_count) == (5, 8)
    assert (found.wal_seq_first, found.wal_seq_last) == (0, 4)
    assert found.states == {"a": toy_state(5), "b": toy_state(3)} == store.progress("toy")
    assert fed(store, source).row_count == 0
    source.feed("a", [5])
    source.feed("c", [200])
    again = fed(store, source)
    assert (again.row_count, again.states["c"]) == (2, toy_state(1))
    assert values(store) == [*range(6), 100, 101, 102, 200]


def test_what_the_last_look_found_is_read(store) -> None:
    """A file that has just become whole is found by a look behind which nobody waited any more."""

    class Late(ToySource):
        looks = 0

        def splits(self):
            self.looks += 1
            if self.looks > 1 and not self.rows["a"]:
                self.rows["a"].extend(range(3))  # Nobody is woken.
            return super().splits()

    source = Late({"a": []})
    assert fed(store, source).row_count == 3
    assert values(store) == [0, 1, 2]


def test_a_source_that_fails_at_the_last_question_has_had_its_time(store) -> None:
    class Failing(ToySource):
        def reader(self, split, state, columns):
            if self.readers:
                self.failing["a"] = SourceError("away", retryable=True)
            return super().reader(split, state, columns)

    source = Failing({"a": range(2)})
    assert fed(store, source).row_count == 2


def test_a_source_is_told_of_durable_rows_alone(store) -> None:
    source = ToySource({"a": range(9)})
    source.ended = {"a"}
    feeder = Feeder(store, source, source="toy", slot="s")
    durable: list[str] = []
    acknowledge = source.acknowledge

    def check(states) -> None:
        durable.append(store.progress("toy")["a"])
        assert durable[-1] >= states["a"]
        acknowledge(states)

    source.acknowledge = check
    feeder.run(once=True, idle=0)
    while feeder._acker.pending:
        feeder._acker.tell()
    feeder.close()
    assert source.acked[-1] == {"a": toy_state(9)}
    assert durable


def test_what_may_get_well_is_tried_again_and_nothing_comes_twice(store) -> None:
    source = ToySource({"a": range(6)})
    source.ended = {"a"}
    source.failing = {"a": SourceError("away for a moment", split="a", retryable=True)}
    assert fed(store, source).row_count == 6
    assert values(store) == list(range(6))


def test_what_does_not_is_raised_and_what_was_read_stays(store) -> None:
    source = ToySource({"a": range(2)})
    source.failing = {"a": SourceError("it is gone", split="a")}
    with pytest.raises(SourceError, match="gone"):
        fed(store, source)
    source.ended = {"a"}
    assert fed(store, source).row_count == 2


@pytest.mark.parametrize("error", [InputError("not such rows"), KeyboardInterrupt()])
@pytest.mark.parametrize("is_in", [False, True], ids=["before", "behind"])
def test_what_was_not_appended_as_a_run_failed_is_not_passed_over(
    store, monkeypatch, error, is_in
) -> None:
    append, calls = store.append, []

    def failing(*values, **named):
        calls.append(values)
        if len(calls) != 2:
            return append(*values, **named)
        if is_in:
            append(*values, **named)
        raise error

    monkeypatch.setattr(store, "append", failing)
    source = ToySource({"a": range(8)})
    source.ended = {"a"}
    feeder = Feeder(store, source, source="toy", slot="s", every=0)
    with pytest.raises(type(error)):
        feeder.run(once=True, idle=0)
    assert feeder.run(once=True, idle=0).states == {"a": toy_state(8)}
    feeder.close()
    assert values(store) == list(range(8))


def test_a_chunk_that_cannot_be_taken_ends_each_run_at_the_same_place(store, monkeypatch) -> None:
    def refusing(bundle, **named):
        if 2 in bundle["s"]["value"].to_pylist():
            raise InputError("not such rows")
        return append(bundle, **named)

    append = store.append
    monkeypatch.setattr(store, "append", refusing)
    feeder = Feeder(store, ToySource({"a": range(8)}), source="toy", slot="s")
    for _ in range(3):
        with pytest.raises(InputError, match="not such rows"):
            feeder.run(once=True, idle=0)
    feeder.close()
    store.finalize()
    assert (values(store), store.progress("toy")) == ([0, 1], {"a": toy_state(2)})


def test_two_do_not_follow_one_source(store) -> None:
    source = ToySource({"a": []})
    feeder = Feeder(store, source, source="toy", slot="s")
    with pytest.raises(LockedError):
        Feeder(store, source, source="toy", slot="s")
    feeder.close()
    Feeder(store, source, source="toy", slot="s").close()


def test_a_source_that_cannot_be_listed_is_followed_by_nobody(store) -> None:
    source = ToySource({"a": []})
    source.listing = SourceError("no such place")
    with pytest.raises(SourceError):
        Feeder(store, source, source="toy", slot="s")
    source.listing = None
    Feeder(store, source, source="toy", slot="s").close()


def test_dead_letters_without_a_slot_are_an_error_and_nothing_is_passed(store) -> None:
    class Refusing:
        def parse(self, raw):
            refused = [Refused(0, "it is odd")]
            return Parsed(raw.slice(1), list(range(1, raw.num_rows)), refused)

    source = ToySource({"a": range(4)})
    read = source.reader

    def with_payload(split, state, columns):
        reader = read(split, state, columns)
        give = reader.next

        def messages(timeout):
            found = give(timeout)
            if found is None:
                return None
            column = pa.array([b"x"] * found.batch.num_rows)
            batch = pa.RecordBatch.from_arrays([column], names=["payload"])
            return type(found)(batch, found.offsets, found.state)

        reader.next = messages
        return reader

    source.reader = with_payload
    feeder = Feeder(store, source, source="toy", slot="s", parser=Refusing())
    with pytest.raises(SourceError, match="it is odd") as caught:
        feeder.run(once=True, idle=0)
    assert "dead_letters= names a slot" in caught.value.hint
    feeder.close()
    assert store.progress("toy") == {}


def test_who_is_refused_keeps_nobody_from_the_source(store) -> None:
    source = ToySource({"a": range(4)})
    parser = MessageParser("json", pa.schema([("n", pa.int64())]))
    with pytest.raises(InputError, match="columns are given twice"):
        Feeder(store, source, source="toy", slot="s", parser=parser, columns=["value"])
    with pytest.raises(InputError, match="cannot both go to slot 's'"):
        Feeder(store, source, source="toy", slot="s", parser=parser, dead_letters="s")
    store.follow("toy").close()


def test_it_ends_when_it_is_told_to(store) -> None:
    source = ToySource({"a": range(100)})
    feeder = Feeder(store, source, source="toy", slot="s")
    seen: list[int] = []

    def watch(rows: int) -> None:
        seen.append(rows)
        if len(seen) == 3:
            feeder.stop()

    found = feeder.run(watch=watch)
    feeder.close()
    assert (found.row_count, store.progress("toy")) == (6, {"a": toy_state(6)})
    source.ended = {"a"}
    assert fed(store, source).row_count == 94
    assert values(store) == list(range(100))


def test_a_full_store_is_waited_for(tmp_path) -> None:
    config = {"wal": {"max_size": 4000}, "limits": {"entry_bytes": 3000}}
    with quiver.open(tmp_path / "store", slots=["s"], config=config) as store:
        source = ToySource({"a": range(40)})
        source.ended = {"a"}
        assert fed(store, source).row_count == 40
        assert values(store) == list(range(40))


def test_words_for_sources(tmp_path) -> None:
    word = parse_source(f"files:{tmp_path}?pattern=*.csv&splits=2&nulls=NA,-")
    assert (word.scheme, word.options["splits"]) == ("files", "2")
    assert word.name == f"files:{tmp_path}" == parse_source(f"files:{tmp_path}/").name
    connector = connector_of(word)(str(tmp_path / "keep"))
    assert connector._options.nulls == ("NA", "-")
    assert parse_source("nats://a:1,b:2?gap=tell").name == "nats://a:1,b:2"
    assert set(CONNECTORS) == {"files", "nats", "quiver"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("inbox", "is no source"),
        ("kafka:topic", "is no source"),
        ("files:", "what to read"),
        ("files:x?splits=2&splits=3", "twice"),
        ("files:.?split=2", "no option 'split'"),
        ("files:.?splits=two", "'two' is no int"),
        ("files:.?schema=x", "no option 'schema'"),
    ],
)
def test_words_that_name_no_source(text: str, words: str, tmp_path) -> None:
    with pytest.raises(ConfigError, match=words):
        connector_of(parse_source(text))
