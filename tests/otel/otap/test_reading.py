"""What a stream may bring, and what it is refused for."""

import io

import pyarrow as pa
import pytest
from otap_kit import drawn_batch, told

from quiver.errors import CapacityError, InputError
from quiver.otel import Signal
from quiver.otel.otap.format import ArrowPayload, BatchRecords
from quiver.otel.otap.reading import BrokenStreamError, StreamLimits, StreamReader
from quiver.otel.otap.writing import StreamWriter

LOGS, LOG_ATTRS, SPANS, MULTIVARIATE = 30, 31, 40, 25


def pieces(*batches: pa.RecordBatch, compression: str | None = None) -> list[bytes]:
    """The messages of one Arrow stream, cut behind each batch; the last is its end."""
    sink, found, place = io.BytesIO(), [], 0
    options = pa.ipc.IpcWriteOptions(compression=compression, emit_dictionary_deltas=True)
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
            found.append(sink.getvalue()[place:])
            place = len(sink.getvalue())
    return [*found, sink.getvalue()[place:]]


def records(*payloads: tuple[int, str, bytes]) -> BatchRecords:
    return BatchRecords(1, tuple(ArrowPayload(name, kind, data) for kind, name, data in payloads))


def logs(words: list[str], keys: list[int], index: pa.DataType | None = None) -> pa.RecordBatch:
    severity = pa.DictionaryArray.from_arrays(pa.array(keys, index or pa.uint8()), pa.array(words))
    return pa.record_batch({"severity_text": severity})


def severities(reader: StreamReader, name: str, data: bytes) -> list[str]:
    batch = reader.read(records((LOGS, name, data)))
    return batch.bundle["logs"]["severity_text"].to_pylist()


def test_dictionaries_live_as_long_as_their_stream_grow_and_are_replaced() -> None:
    first, grown, replaced, _ = pieces(
        logs(["a"], [0]), logs(["a", "b"], [1, 0]), logs(["c"], [0]), compression="zstd"
    )
    reader = StreamReader(Signal.LOGS)
    assert severities(reader, "x", first) == ["a"]
    assert len(grown) < len(first)  # It brings what is new, and no schema.
    assert severities(reader, "x", grown) == ["b", "a"]
    assert severities(reader, "x", replaced) == ["c"]


def test_another_schema_is_another_stream_and_one_before_may_come_back_either_way() -> None:
    wide = [f"w{index}" for index in range(300)]
    narrow = pieces(logs(["a", "b"], [0, 1]), logs(["a", "b"], [1]))
    wider = pieces(logs(wide, [299], pa.uint16()))
    reader = StreamReader(Signal.LOGS)
    assert severities(reader, "u8", narrow[0]) == ["a", "b"]
    assert severities(reader, "u16", wider[0]) == ["w299"]
    assert severities(reader, "u8", narrow[1]) == ["b"]  # Goes on where it was.
    assert severities(reader, "u8", narrow[0]) == ["a", "b"]  # Begins again, with its schema.


def test_an_end_of_stream_behind_the_batch_is_no_fault() -> None:
    first, second, end = pieces(logs(["a"], [0]), logs(["a"], [0, 0]))
    assert end
    assert severities(StreamReader(Signal.LOGS), "x", first + end) == ["a"]
    reader = StreamReader(Signal.LOGS)
    severities(reader, "x", first)
    assert severities(reader, "x", second + end) == ["a", "a"]


def test_schemas_beyond_the_limit_are_forgotten_the_oldest_first() -> None:
    reader = StreamReader(Signal.LOGS, StreamLimits(schemas=2))
    first, second, _ = pieces(logs(["a"], [0]), logs(["a"], [0]))
    for name in ("x", "y", "z"):
        severities(reader, name, first)
    assert severities(reader, "y", second) == ["a"]
    with pytest.raises(BrokenStreamError, match="not open"):
        severities(reader, "x", second)


def attributes(**more: pa.Array) -> pa.RecordBatch:
    key, kind = pa.array(["k"]), pa.array([1], pa.uint8())
    return pa.record_batch(
        {"parent_id": pa.array([0], pa.uint16()), "key": key, "type": kind} | more
    )


GOOD, MORE, END = pieces(logs(["a"], [0]), logs(["a"], [0]))
ATTRIBUTES = pieces(attributes())[0]
WRONG = pieces(pa.record_batch({"id": pa.array([1])}))[0]


@pytest.mark.parametrize(
    ("payloads", "why"),
    [
        ([(LOG_ATTRS, "a", ATTRIBUTES)], "no payload logs"),
        ([(LOGS, "x", GOOD), (SPANS, "s", GOOD)], "payload of the type 40"),
        ([(LOGS, "x", GOOD), (99, "s", GOOD)], "payload of the type 99"),
        ([(LOGS, "x", GOOD), (LOGS, "y", GOOD)], "two payloads logs"),
        ([(LOGS, "y", WRONG)], "logs.id has the type int64"),
        ([], "no payload logs"),
    ],
)
def test_a_batch_may_be_refused_and_the_next_goes_on(payloads, why: str) -> None:
    reader = StreamReader(Signal.LOGS)
    assert severities(reader, "x", GOOD) == ["a"]
    with pytest.raises(InputError, match=why) as caught:
        reader.read(records(*payloads))
    assert not isinstance(caught.value, BrokenStreamError)
    assert severities(reader, "x", MORE) == ["a"]


def test_what_the_protocol_names_and_does_not_describe_is_refused() -> None:
    with pytest.raises(InputError, match="payload of the type 25"):
        StreamReader(Signal.METRICS).read(records((MULTIVARIATE, "x", WRONG)))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (MORE, "not open"),
        (b"", "Arrow messages: none"),
        (END, "Arrow messages: none"),
        (GOOD[:-9], "cannot be read"),
        (GOOD + MORE, "Arrow messages: schema, dictionary, record batch, record batch"),
        (GOOD + GOOD, "Arrow messages"),
        (b"\xff" * 64, "cannot be read"),
        (b"\x00" * 8 + GOOD, "Arrow messages: none"),
    ],
)
def test_arrow_that_cannot_be_read_ends_the_stream(data: bytes, why: str) -> None:
    with pytest.raises(BrokenStreamError, match=why):
        severities(StreamReader(Signal.LOGS), "x", data)


def test_what_is_larger_than_allowed_is_refused() -> None:
    limits = StreamLimits(decoded_bytes=1 << 16, dictionary_bytes=1 << 12, rows=100, columns=4)
    bomb = pa.record_batch({"severity_text": pa.array(["x" * (1 << 20)])})
    packed = pieces(bomb, compression="zstd")[0]
    assert len(packed) < 1 << 12
    for data, why in (
        (packed, "decodes to more than the limit"),
        (pieces(logs(["x" * (1 << 12)], [0]))[0], "dictionaries of an Arrow stream are larger"),
        (pieces(logs(["x"], [0] * 101))[0], "number of rows"),
        (pieces(pa.record_batch({"of_tomorrow": pa.nulls(1 << 30)}))[0], "number of rows"),
        (pieces(attributes(a=pa.nulls(1), b=pa.nulls(1)))[0], "more than 4 columns"),
    ):
        with pytest.raises(BrokenStreamError, match=why):
            StreamReader(Signal.LOGS, limits).read(records((LOGS, "x", data)))


def test_a_dictionary_that_grows_without_end_ends_the_stream() -> None:
    reader = StreamReader(Signal.LOGS, StreamLimits(dictionary_bytes=1 << 12))
    words = [f"{index:0100}" for index in range(200)]
    grown = pieces(*(logs(words[:count], [count - 1]) for count in range(1, 200)))
    read = 0
    with pytest.raises(BrokenStreamError, match="dictionaries"):
        for data in grown[:-1]:
            severities(reader, "x", data)
            read += 1
    assert 30 < read < 40


def test_no_memory_is_said_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise pa.ArrowMemoryError

    monkeypatch.setattr("quiver.otel.otap.reading.check_batch", fail)
    with pytest.raises(CapacityError, match="memory"):
        severities(StreamReader(Signal.LOGS), "x", GOOD)


def test_a_writer_begins_again_where_words_no_longer_fit_their_keys() -> None:
    reader, writer = StreamReader(Signal.LOGS), StreamWriter(Signal.LOGS)
    sizes = []
    for start in range(0, 600, 100):
        words = [f"word {start + index}" for index in range(100)]
        batch = drawn_batch(Signal.LOGS, 1)
        rows = logs(words, list(range(100)))
        sent = writer.write(type(batch)(Signal.LOGS, {"logs": rows}))
        sizes.append(len(sent.payloads[0].record))
        read = reader.read(sent)
        assert told(read) == told(type(batch)(Signal.LOGS, {"logs": rows}))
        assert len(read.bundle["logs"]["severity_text"].dictionary) <= 256
    assert {each.schema_id for each in sent.payloads} == {sent.payloads[0].schema_id}
