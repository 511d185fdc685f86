"""Messages laid out alike are read by a guess, and what the guess does not fit is read as ever."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from otlp_strategies import few, requests
from wire_kit import Every, as_protobuf_reads, as_wire_reads

from quiver.errors import InputError
from quiver.otel import Signal
from quiver.otel.otlp import attributes, decode
from quiver.otel.wire import Ranges, Source, frame, take_apart
from quiver.otel.wire.alike import walk
from quiver.otel.wire.reader import FEW


def laid_out(rnd: random.Random, layout: int) -> Any:
    message = Every(number=rnd.randrange(300), word=rnd.getrandbits(64), half=rnd.getrandbits(32))
    message.octets = bytes(rnd.randrange([10, 200, 20_000][layout % 3]))
    if layout & 1:
        message.far = rnd.getrandbits(rnd.randrange(1, 64))
    for _ in range(layout):
        message.inner.add(number=rnd.randrange(1 << 20))
    return message


@pytest.mark.parametrize("layouts", [1, 2, 5], ids=lambda count: f"{count} layouts")
@pytest.mark.parametrize("seed", range(4))
def test_messages_of_few_layouts_are_read_as_protobuf_reads_them(layouts: int, seed: int) -> None:
    rnd = random.Random(seed)
    whole = Every()
    whole.inner.extend(laid_out(rnd, rnd.randrange(layouts)) for _ in range(3 * FEW))
    assert as_wire_reads(whole.SerializeToString()) == as_protobuf_reads(whole)


@pytest.mark.parametrize("seed", range(20))
def test_mutants_of_messages_laid_out_alike_are_refused_as_protobuf_refuses_them(seed: int) -> None:
    rnd = random.Random(seed)
    whole = Every()
    whole.inner.extend(laid_out(rnd, 1) for _ in range(3 * FEW))
    octets = bytearray(whole.SerializeToString())
    for _ in range(30):
        mutant = bytearray(octets)
        mutant[rnd.randrange(len(mutant))] = rnd.choice([0, 1, 0x0A, 0x7F, 0x80, 0xFF])
        try:
            theirs = as_protobuf_reads(Every.FromString(bytes(mutant)))
        except Exception:  # noqa: BLE001 - whatever the library says
            theirs = None
        try:
            ours = as_wire_reads(bytes(mutant))
        except InputError:
            ours = None
        assert ours == theirs


def of(messages: list[bytes]) -> tuple[Source, Ranges]:
    source = Source(b"".join(frame(1, each) for each in messages))
    start, end, _ = take_apart(source, 0, source.size, tag=0x0A)
    table = pa.table({"s": list(start), "e": list(end)})
    starts, ends = (table[name].cast(pa.int64()).to_numpy() for name in ("s", "e"))
    return source, Ranges(starts, starts, ends)


@pytest.mark.parametrize(
    ("other", "is_fine"),
    [
        (b"\x08\x02\x12\x01x", True),
        (b"\x08\x02\x12\x81\x00x", True),  # A length may be longer than it has to be.
        (b"\x08\x82\x01\x12\x00", True),
        (b"\x08\x82\x81\x01\x12\x00", False),
        (b"\x10\x02\x12\x01x", False),  # Another tag in each place,
        (b"\x08\x02\x1a\x01x", False),
        (b"\x08\x02\x12\x02x", False),  # a field that ends too late,
        (b"\x08\x02\x12\x01xy", False),  # or too early,
        (b"\x08\x02", False),  # fewer of them, and more.
        (b"\x08\x02\x12\x01x\x18\x01", False),
        # What a varint of three bytes ends with looks like the next tag, and all else fits.
        (b"\x08\x82\x92\x12" + b"\x12\x11" + b"x" * 17, False),
        (b"\x08\x82\x92\x12" + b"\x92\x01\x90\x01" + b"x" * 144, False),
    ],
)
def test_nothing_is_believed_that_was_not_seen(other: bytes, *, is_fine: bool) -> None:
    source, found = of([other] * 2 + [b"\x08\x01\x12\x03abc"] * 5 + [other])
    alike = walk(source, found.start, found.end)
    assert alike is not None
    assert alike.fine.tolist() == [is_fine] * 2 + [True] * 5 + [is_fine]
    assert alike.fields(0x12)[2].size == 5 + 3 * is_fine


@pytest.mark.parametrize("size", [1, 100, 130, 16_500], ids=lambda size: f"{size} bytes")
@pytest.mark.parametrize("decoys", [0, 3, 40])
def test_ranges_in_a_row_are_found_whatever_lies_in_them(size: int, decoys: int) -> None:
    """Decoys look as a range begins, and end in, or behind, the one that they are in."""
    ranges = [b"\x09" + b"x" * (size - 1 + number % 3) for number in range(60)]
    for number in range(decoys):
        ranges[number + 9] = b"\x09" + frame(2, b"\x09" + b"y" * (number % 50)) + b"\x12\x7f\x09"
    ranges[55] = b""
    data = b"".join(frame(2, each) for each in ranges)
    whole = frame(1, b"before") + data + frame(3, b"behind") + frame(2, b"last")
    start, end, others = take_apart(source := Source(whole), 0, len(whole), tag=0x12)
    found = [source.data[low:high] for low, high in zip(start, end, strict=True)]
    assert found == [*ranges, b"last"]
    assert others == frame(1, b"before") + frame(3, b"behind")
    begin, cut = int(end[57]), int(start[58])
    with pytest.raises(InputError, match=rf"at byte {begin}, a field ends behind"):
        take_apart(Source(whole[:cut]), 0, cut, tag=0x12)


@few
@given(st.sampled_from(Signal).flatmap(requests))
def test_few_attributes_are_read_as_many_are(request: Any) -> None:
    data = request.SerializeToString()
    for signal in Signal:
        try:
            expected = decode(signal, data)
        except InputError:
            continue
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(attributes, "read_few", lambda *_, **__: None)
            long = decode(signal, data)
        for one, other in zip(expected, long, strict=True):
            assert set(one.bundle) == set(other.bundle)
            for slot, batch in one.bundle.items():
                assert batch.schema == other.bundle[slot].schema
                assert repr(batch.to_pylist()) == repr(other.bundle[slot].to_pylist())
