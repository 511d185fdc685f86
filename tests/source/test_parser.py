"""Messages as columns: each is a row, an error, or a dead letter, and no two become one."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver.errors import ConfigError, InputError, SourceError
from quiver.source import MessageParser

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string())])


def raw(*payloads: bytes) -> pa.RecordBatch:
    subjects = [str(n) for n in range(len(payloads))]
    columns = {"payload": pa.array(payloads, pa.binary()), "subject": pa.array(subjects)}
    return pa.RecordBatch.from_pydict(columns)


def parse(kind: str, *payloads: bytes, schema: pa.Schema = SCHEMA):
    return MessageParser(kind, schema, on_error="dead_letter").parse(raw(*payloads))


def places(parsed) -> list[int]:
    return [refused.place for refused in parsed.refused]


BAD_JSON = [
    b"",
    b" ",
    b"[]",
    b"null",
    b'{"a":1}{"a":2}',
    b'{"a":1}\n{"a":2}',
    b'{"a":"z"}',
    b'{"a":1.5}',
    b'{"a":NaN}',
    b'{"a":1,"a":2}',
    b'{"a":99999999999999999999}',
    b'{"b":"\xff"}',
    b'{"b":"\\ud800"}',
    b'{"b":3}',
    b"[" * 5000,
]


@pytest.mark.parametrize("bad", BAD_JSON, ids=range(len(BAD_JSON)))
def test_a_bad_json_message_is_set_aside_and_costs_no_other(bad: bytes) -> None:
    good = [b'{"a":%d,"b":"x","other":[1]}' % n for n in range(5)]
    parsed = parse("json", *good[:2], bad, *good[2:])
    assert places(parsed) == [2]
    assert parsed.refused[0].reason
    assert parsed.rows == [0, 1, 3, 4, 5]
    assert parsed.batch.schema == SCHEMA
    assert parsed.batch["a"].to_pylist() == [0, 1, 2, 3, 4]
    strict = MessageParser("json", SCHEMA)
    with pytest.raises(SourceError, match="message 3 of 6 cannot be taken") as caught:
        strict.parse(raw(*good[:2], bad, *good[2:]))
    assert not caught.value.retryable


def test_json_takes_line_breaks_missing_fields_and_times() -> None:
    schema = pa.schema([("a", pa.int64()), ("t", pa.timestamp("ms", "UTC"))])
    parsed = parse("json", b'{\r\n"a":\n1}', b'{"t":"2026-01-02T03:04:05Z"}', schema=schema)
    assert parsed.refused == []
    assert parsed.batch["a"].to_pylist() == [1, None]
    assert parsed.batch["t"].cast(pa.int64()).to_pylist() == [None, 1767323045000]
    strict = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    assert places(parse("json", b'{"a":1}', b"{}", b'{"a":2}', schema=strict)) == [1]


BAD_CSV = [b"", b"1", b"1,x,y", b'1,"x', b'x,"y', b"1,x\n2,y", b"1,x\r2,y", b"z,x", b"1,\xff"]


@pytest.mark.parametrize("bad", BAD_CSV, ids=range(len(BAD_CSV)))
def test_a_bad_csv_line_is_set_aside_and_costs_no_other(bad: bytes) -> None:
    parsed = parse("csv", b"7,x", bad, b'8,"a ""b"", c"\r\n', b"9,")
    assert places(parsed) == [1]
    assert parsed.rows == [0, 2, 3]
    assert parsed.batch.to_pylist() == [
        {"a": 7, "b": "x"},
        {"a": 8, "b": 'a "b", c'},
        {"a": 9, "b": None},
    ]


def test_a_byte_order_mark_is_part_of_a_message_wherever_it_stands_in_a_block() -> None:
    marked, schema = b"\xef\xbb\xbf1,a", pa.schema([("n", pa.string()), ("t", pa.string())])
    for before in ([], [b"2,b"]):
        parsed = parse("csv", *before, marked, schema=schema)
        assert parsed.batch.column(0).to_pylist()[-1] == "\ufeff1"


def test_bytes_are_one_column_as_they_are() -> None:
    schema = pa.schema([("text", pa.string())])
    parsed = parse("bytes", b"a", b"\xff", b"", schema=schema)
    assert parsed.batch["text"].to_pylist() == ["a", ""]
    assert places(parsed) == [1]
    whole = parse("bytes", b"\xff", schema=pa.schema([("raw", pa.binary())]))
    assert whole.batch["raw"].to_pylist() == [b"\xff"]


def test_columns_of_the_raw_batch_come_along() -> None:
    parser = MessageParser("json", SCHEMA, carry=["subject"], on_error="dead_letter")
    parsed = parser.parse(raw(b"{}", b"bad", b"{}"))
    assert parsed.batch["subject"].to_pylist() == ["0", "2"]
    with pytest.raises(InputError, match="no column 'time'"):
        MessageParser("json", SCHEMA, carry=["time"]).parse(raw(b"{}"))


@pytest.mark.parametrize("kind", ["json", "csv", "bytes"])
def test_no_messages_and_only_bad_ones_make_no_rows_of_the_same_schema(kind: str) -> None:
    schema = pa.schema([("a", pa.string())]) if kind == "bytes" else SCHEMA
    for payloads in ((), (b"\xff",), (b"\xff", b"\xff")):
        parsed = parse(kind, *payloads, schema=schema)
        assert parsed.batch.schema == schema
        assert parsed.batch.num_rows == 0
        assert len(parsed.refused) == len(payloads)


def test_a_wrong_description_is_refused() -> None:
    for wrong in (
        lambda: MessageParser("xml", SCHEMA),
        lambda: MessageParser("json", SCHEMA, on_error="ignore"),
        lambda: MessageParser("bytes", SCHEMA),
        lambda: MessageParser("json", SCHEMA, carry=["a"]),
    ):
        with pytest.raises(ConfigError):
            wrong()


FIELDS = st.text(st.sampled_from('ab",\n\r\\ '), max_size=5)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(FIELDS, st.none()), max_size=6), st.booleans())
def test_every_message_is_one_row_of_its_own_or_is_refused(texts, as_json) -> None:
    schema = pa.schema([("a", pa.string())])
    payloads = [
        json.dumps({"a": text}).encode() if as_json else (text or "").encode() for text in texts
    ]
    parsed = parse("json" if as_json else "csv", *payloads, schema=schema)
    assert sorted([*parsed.rows, *places(parsed)]) == list(range(len(payloads)))
    assert parsed.batch.num_rows == len(parsed.rows)
    if as_json:
        assert parsed.batch["a"].to_pylist() == texts
    for place, value in zip(parsed.rows, parsed.batch["a"].to_pylist(), strict=True):
        alone = parse("json" if as_json else "csv", payloads[place], schema=schema)
        assert alone.batch["a"].to_pylist() == [value]
