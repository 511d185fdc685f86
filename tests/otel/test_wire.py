"""The wire reads what protobuf reads, writes what protobuf writes, and refuses what it refuses."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_kit import Every, as_protobuf_reads, as_wire_reads, as_wire_writes

from quiver.errors import InputError
from quiver.otel import wire
from quiver.otel.wire import Messages, Source, as_text, read, span, varint, whole
from quiver.otel.wire.reader import FEW

U64 = st.one_of(st.integers(0, 300), st.sampled_from([2**7, 2**14, 2**35, 2**63, 2**64 - 1]))


def shallow(inner: st.SearchStrategy[Any] | None) -> st.SearchStrategy[Any]:
    fields: dict[str, st.SearchStrategy[Any]] = {
        "number": U64,
        "word": U64,
        "half": st.integers(0, 2**32 - 1),
        "octets": st.binary(max_size=20) | st.binary(min_size=120, max_size=300),
        "far": U64,
        "words": st.lists(U64, max_size=4),
        "numbers": st.lists(U64, max_size=4),
    }
    if inner is not None:
        fields |= {"inner": st.lists(inner, max_size=4), "one": inner}
    return st.fixed_dictionaries({}, optional=fields).map(lambda values: Every(**values))


MESSAGES = shallow(shallow(shallow(None)))


@given(MESSAGES)
def test_reads_what_protobuf_wrote(message: Any) -> None:
    assert as_wire_reads(message.SerializeToString()) == as_protobuf_reads(message)


@given(MESSAGES)
def test_protobuf_reads_what_it_writes(message: Any) -> None:
    written = as_wire_writes([as_protobuf_reads(message)]).to_bytes()
    assert written == message.SerializeToString(deterministic=True)


@pytest.mark.parametrize("count", [1, FEW, FEW + 1, 300])
def test_many_messages_of_many_shapes_at_once(count: int) -> None:
    rnd = random.Random(count)
    whole_ = Every()
    for n in range(count):
        inner = whole_.inner.add(number=rnd.choice([n, 0, 1 << rnd.randrange(64)]))
        inner.octets = bytes(rnd.randrange(200)) if n % 3 else b""
        inner.words.extend(range(n % 5))
        inner.numbers.extend(rnd.getrandbits(rnd.randrange(1, 64)) for _ in range(n % 4))
        if n % 7 == 0:
            inner.far = n
    data = whole_.SerializeToString()
    assert as_wire_reads(data) == as_protobuf_reads(whole_)
    assert as_wire_writes([as_protobuf_reads(whole_)]).to_bytes() == data


def verdicts(data: bytes) -> tuple[Any, Any]:
    """Give what each of both read, None where it refused."""
    try:
        theirs = as_protobuf_reads(Every.FromString(data))
    except DecodeError:
        theirs = None
    try:
        ours = as_wire_reads(data)
    except InputError:
        ours = None
    return ours, theirs


PIECES = [b"\x08", b"\x0a", b"\x22", b"\x2a", b"\x2b", b"\x2c", b"\x3a", b"\x80", b"\xff", b"\x00"]
PIECES += [b"\x42\x02\x08\x05", b"\x2a\x00", b"\x30", b"\x31" + bytes(8), b"\xff" * 9 + b"\x01"]
PIECES += [b"\x07", b"\x06", b"\x0c", b"\xc0\x0c\x05", b"\x8a\x00\x01a", b"\xff" * 9 + b"\x02"]
PIECES += [
    b"\x08" + b"\x80" * 9 + b"\x00",
    b"\xf8\xff\xff\xff\x0f\x01",
    b"\xf8\xff\xff\xff\x1f\x01",
]
PIECES += [b"\x22\x81\x80\x80\x80\x00a", b"\x22\x81\x80\x80\x80\x80\x00a"]  # 5 and 6 bytes
PIECES += [b"\x88\x80\x80\x80\x00\x05", b"\x88\x80\x80\x80\x80\x00\x05"]
PIECES += [b"\x08" + b"\xff" * 9 + octet for octet in (b"\x01", b"\x02", b"\x7f", b"\x80")]
PIECES += [b"\x3a\x0a" + b"\xff" * 9 + octet for octet in (b"\x01", b"\x02", b"\x7f", b"\x80")]
PIECES += [b"\x3a\x0b" + b"\xff" * 10 + b"\x01", b"\x08" + b"\xff" * 10 + b"\x01"]
PIECES += [b"\x22\xff\xff\xff\xff\x07", b"\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"]


@pytest.mark.parametrize("data", PIECES)
def test_agrees_with_protobuf_about_what_is_odd(data: bytes) -> None:
    ours, theirs = verdicts(data)
    assert ours == theirs


@settings(max_examples=400)
@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=12).map(b"".join))
def test_agrees_with_protobuf_about_any_bytes(data: bytes) -> None:
    ours, theirs = verdicts(data)
    assert ours == theirs


@settings(max_examples=300)
@given(MESSAGES, st.data())
def test_agrees_with_protobuf_about_mutants(message: Any, data: st.DataObject) -> None:
    octets = bytearray(message.SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(octets)))
        piece = data.draw(st.sampled_from(PIECES) | st.binary(max_size=2))
        octets[at : at + data.draw(st.integers(0, 3))] = piece
    ours, theirs = verdicts(bytes(octets))
    assert ours == theirs


@pytest.mark.parametrize(
    "bad", [*PIECES, b"\x2a\x05\x08\x01", b"\x32\x07" + bytes(7), b"\x3a\x01\x80"]
)
def test_one_of_many_siblings_is_odd(bad: bytes) -> None:
    """In the vectors' way of reading: enough messages that are right around one that may not be."""
    good = [Every(number=n, octets=b"x").SerializeToString() for n in range(2 * FEW)]
    for inner in (bad, good[0] + bad, bad + good[0]):
        rows = [*good[:FEW], inner, *good[FEW:]]
        data = b"".join(b"\x2a" + bytes([len(row)]) + row for row in rows)
        ours, theirs = verdicts(data)
        assert ours == theirs


def test_parts_of_one_message_are_one() -> None:
    """A field that is one message, and comes twice, is both together."""
    parts = Every(number=5, words=[1], octets=b"first"), Every(word=6, words=[2], octets=b"then")
    data = b"".join(b"\x42" + bytes([len(p)]) + p for p in (e.SerializeToString() for e in parts))
    many = b"".join(b"\x2a" + bytes([len(data)]) + data for _ in range(2 * FEW))
    for bytes_ in (data, many):
        ours, theirs = verdicts(bytes_)
        assert ours == theirs
        assert ours is not None


@pytest.mark.parametrize("count", [1, 2 * FEW])
def test_an_error_names_the_byte(count: int) -> None:
    rows = b"\x2a\x02\x08\x01" * count
    with pytest.raises(InputError, match=f"at byte {len(rows)}, "):
        as_wire_reads(rows + b"\x2a\x02\x08")
    with pytest.raises(InputError, match=f"at byte {len(rows) + 2}, "):
        as_wire_reads(rows + b"\x2a\x02\x09\x01")


def test_a_text_that_is_not_utf8_is_refused() -> None:
    data = b"\x22\x03ab\xff"
    source = Source(data)
    start, end = read(source, whole(source), [span(4)], count=1).last_range(4)
    with pytest.raises(InputError, match="at byte 4, a text is not UTF-8"):
        as_text(wire.binaries(source, start, end), start)


def steps(monkeypatch: pytest.MonkeyPatch, data: bytes) -> tuple[int, int]:
    """Count the steps of the vectors, and what was read one by one, on the level below."""
    counts = [0, 0]
    step, lone = wire.reader._step, wire.reader.read_alone

    def counting(*args: Any) -> Any:
        counts[0] += 1
        return step(*args)

    def counting_lone(*args: Any) -> int:
        count = lone(*args)
        counts[1] += count
        return count

    monkeypatch.setattr(wire.reader, "_step", counting)
    monkeypatch.setattr(wire.reader, "read_alone", counting_lone)
    source = Source(data)
    outer = read(source, whole(source), [span(5)], count=1).ranges(5)
    counts[:] = [0, 0]
    read(source, outer.each_its_own(), [varint(1)], count=outer.size)
    return counts[0], counts[1]


def framed(rows: list[bytes]) -> bytes:
    out = Messages(1)
    inner = Messages(len(rows))
    inner.raw(pa.array(rows, pa.binary()))
    out.children(5, inner, np.array([len(rows)]))
    return out.to_bytes()


def test_a_message_of_many_fields_is_not_stepped_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are paid for by at least as many messages each; the rest is read one by one."""
    long = b"\x08\x01" * 20_000
    vectors, alone = steps(monkeypatch, framed([long, *[b"\x08\x01"] * 5_000]))
    assert vectors == 1
    assert alone == 19_999


def test_fields_that_grow_scarce_cost_no_more_steps_than_they_pay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [b"\x08\x01" * n for n in range(400)]
    vectors, alone = steps(monkeypatch, framed(rows))
    fields = sum(range(400))
    assert vectors <= fields // FEW
    assert alone <= FEW * 400


def test_many_different_fields_are_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody pays for the numbers of fields that nobody asked for."""
    rows = [bytes([0x80 | (n & 15) << 3, 1 + n // 16, 1]) for n in range(1_000)]
    assert steps(monkeypatch, framed(rows)) == (1, 0)


def test_groups_may_lie_only_so_deep() -> None:
    deep = wire.DEPTH_MAX
    assert as_wire_reads(b"\x4b" * deep + b"\x4c" * deep)["number"] == 0
    with pytest.raises(InputError, match="deeper"):
        as_wire_reads(b"\x4b" * (deep + 1) + b"\x4c" * (deep + 1))
