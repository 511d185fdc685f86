"""The bytes between nodes: heads of frames, requests, answers, errors."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver import errors
from quiver.chain.peers import BlockName, Damaged, Finished, Holding, NodeState, Route, Status
from quiver.chain.sealing import Answer, Sealed
from quiver.chain.wire.faults import TEXT_BYTES_MAX, from_text, to_text
from quiver.chain.wire.format import (
    BODY_BYTES_MAX,
    ERROR_BYTES_MAX,
    HOLDINGS_MAX,
    MESSAGE_BYTES_MAX,
    VERSION,
    check_body,
    decode_frame,
    decode_message,
    encode_frame,
    encode_message,
    frame_of,
)
from quiver.chain.wire.messages import (
    Acks,
    Append,
    Condemn,
    Condemned,
    Cut,
    DamagedAsked,
    Damages,
    Done,
    Drop,
    DropCondemned,
    Fence,
    Fetch,
    Finish,
    Found,
    Frame,
    FrameKind,
    Keys,
    MetaCas,
    MetaDelete,
    MetaGet,
    MetaKeys,
    Opened,
    Opening,
    Prepare,
    Put,
    Read,
    Segment,
    Settle,
    StatusAsked,
    StatusBehind,
    Verify,
)
from quiver.errors import DamagedEntry, DamageError, InputError, TornEntry, VersionError
from quiver.ship.objects import Conflict, UnclearError

GOLDEN = Path(__file__).parents[1] / "golden" / "v1" / "wire"
BLOCK = BlockName("core_0", 7)
ROUTE = Route(BLOCK, 3, ("a", "ö", "c"), "a")
DONE = Finished(12, bytes(range(32)), 4096)
HELD = (Holding(BLOCK, 3, 100, None), Holding(BlockName("core_1", 0), 2, 0, DONE))
MESSAGES = (
    Opening(ROUTE),
    Opened("a-17-1"),
    Append("a-17-1"),
    Acks("a-17-1"),
    Read(BLOCK, 512, live=True),
    Segment(BLOCK),
    Prepare(ROUTE._replace(sender=""), '{"slots":[]}'),
    Fence(BLOCK, 4),
    Cut(BLOCK, Sealed(90, 8, -5, 7, ("a", "c"))),
    Finish(BLOCK),
    Settle(BLOCK, DONE),
    Fetch(BLOCK, "c", DONE),
    Drop(BLOCK),
    StatusAsked(),
    MetaGet("core_0/record"),
    MetaCas("core_0/record", "", b"\0\1"),
    MetaKeys("core_0/"),
    MetaDelete("core_0/record"),
    Done(),
    Answer("a", 100, -1, 0, 0, is_rebooted=True),
    DONE,
    Status("a", NodeState.DRAINING, 5, 9, HELD),
    Found(b"abc", "r1"),
    Put("r2"),
    Keys(("core_0/record", "core_1/record")),
)
ADDED = (
    Condemn(BLOCK),
    DropCondemned(BLOCK, 5),
    Condemned(5),
    Verify(BLOCK),
    DamagedAsked(),
    Damages((Damaged(BLOCK, "its log is gone"),)),
    StatusBehind(BLOCK),
)
"""Kinds that came later, each time behind those before."""
FRAMES = (
    frame_of(Frame(FrameKind.ENTRIES, 7, 3, 1024, 41), b"entries"),
    Frame(FrameKind.HEARTBEAT, 7, 3),
    Frame(FrameKind.ACK, 7, 3, 2048, 42),
    frame_of(Frame(FrameKind.ERROR, 7, 3), b"quiver/1 INPUT 2 {}"),
    Frame(FrameKind.NEXT, 7, 3, 1024, 41, body_len=7),
    Frame(FrameKind.SURE, 7, 3, 2048),
)


def repaired(data: bytes) -> bytes:
    return data[:-4] + struct.pack("<I", crc32c(data[:-4]))


def kind_of(value) -> str:
    return type(value).__name__.lower()


def test_golden_bytes_are_read_and_written_as_ever():
    messages = (GOLDEN / "messages").read_bytes() + (GOLDEN / "added").read_bytes()
    frames = (GOLDEN / "frames").read_bytes()
    assert b"".join(map(encode_message, MESSAGES + ADDED)) == messages
    assert b"".join(map(encode_frame, FRAMES)) == frames
    at = 0
    for message in MESSAGES + ADDED:
        size = len(encode_message(message))
        assert decode_message(messages[at : at + size]) == message
        at += size
    size = len(frames) // len(FRAMES)
    found = [decode_frame(frames[at : at + size]) for at in range(0, len(frames), size)]
    assert found == list(FRAMES)


@pytest.mark.parametrize("message", MESSAGES + ADDED, ids=kind_of)
def test_every_message_is_read_as_it_was_written_and_no_change_of_it_is(message):
    data = encode_message(message)
    assert decode_message(memoryview(data)) == message
    for at in range(len(data)):
        with pytest.raises((DamageError, VersionError)):
            decode_message(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :])
        with pytest.raises(DamageError):
            decode_message(data[:at])


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: frame.kind.name)
def test_every_head_is_read_as_it_was_written_and_no_change_of_it_is(frame):
    data = encode_frame(frame)
    assert decode_frame(data) == frame
    for at in range(len(data)):
        with pytest.raises((DamageError, VersionError)):
            decode_frame(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :])


@pytest.mark.parametrize(
    "frame",
    [
        Frame(FrameKind.ENTRIES, 1),
        Frame(FrameKind.HEARTBEAT, 1, body_len=1),
        Frame(FrameKind.HEARTBEAT, 1, body_crc=1),
        Frame(FrameKind.ENTRIES, 1, body_len=BODY_BYTES_MAX + 1),
        Frame(FrameKind.ERROR, 1, body_len=ERROR_BYTES_MAX + 1),
        Frame(FrameKind.ACK, -1),
        Frame(FrameKind.ACK, 1, offset=1 << 63),
        Frame(FrameKind.ACK, 1, last_seq=-2),
    ],
)
def test_a_head_of_what_may_not_be_is_not_written(frame):
    with pytest.raises(InputError):
        encode_frame(frame)


def test_as_many_holdings_as_are_told_at_once_fit_into_a_message():
    held = Holding(BlockName("p" * 100, 1 << 62), 1 << 62, 1 << 62, DONE)
    status = Status("n" * 100, NodeState.SERVING, 1, 1, (held,) * 1_000)
    assert len(encode_message(status)) * HOLDINGS_MAX / 1_000 < MESSAGE_BYTES_MAX


def test_a_length_is_checked_before_the_body_is_looked_at():
    data = bytearray(encode_frame(FRAMES[0]))
    struct.pack_into("<I", data, 12, BODY_BYTES_MAX + 1)
    with pytest.raises(DamagedEntry, match="impossible"):
        decode_frame(repaired(bytes(data)))


def test_a_body_is_the_one_that_its_head_is_about():
    frame = FRAMES[0]
    check_body(frame, b"entries")
    with pytest.raises(TornEntry):
        check_body(frame, b"entrie")
    with pytest.raises(DamagedEntry, match="checksum"):
        check_body(frame, b"entriez")


def test_another_version_is_named():
    for data, decode in (
        (encode_message(MESSAGES[0]), decode_message),
        (encode_frame(FRAMES[0]), decode_frame),
    ):
        newer = bytearray(data)
        struct.pack_into("<H", newer, 8, VERSION + 1)
        with pytest.raises(VersionError, match=f"version {VERSION + 1}"):
            decode(repaired(bytes(newer)))


def with_body(kind: int, body: bytes) -> bytes:
    return repaired(struct.pack("<8sHHI", b"QUIVER\0M", VERSION, kind, len(body)) + body + bytes(4))


@pytest.mark.parametrize(
    "data",
    [
        with_body(99, b""),
        with_body(32, b"x"),
        with_body(3, b"\1\0\xff" + bytes(8)),
        with_body(3, b"\1\0a" + b"\xff" * 8),
        with_body(3, b"\xff\xff" + bytes(70000)),
        with_body(2, b"\0\0" + bytes(16) + b"\2"),
        with_body(35, b"\0\0" + b"\0" + bytes(20)),
        with_body(38, b"\xff\xff\xff\xff"),
    ],
    ids=["kind", "more", "utf8", "range", "long", "flag", "state", "count"],
)
def test_bytes_of_no_message_are_damage(data):
    with pytest.raises(DamagedEntry):
        decode_message(data)


@pytest.mark.parametrize(
    "message",
    [
        Segment(BlockName("\ud800", 0)),
        Segment(BlockName("a" * 1025, 0)),
        Segment(BlockName("a", -1)),
        Prepare(ROUTE._replace(chain=("a",) * 17), ""),
        MetaCas("k", "", bytes((1 << 20) + 1)),
        Keys(("k" * 1024,) * 17000),
    ],
    ids=["utf8", "text", "number", "chain", "data", "whole"],
)
def test_what_is_too_much_is_not_written(message):
    with pytest.raises(InputError):
        encode_message(message)


def test_what_is_too_long_is_not_read():
    with pytest.raises(TornEntry):
        decode_message(bytes(MESSAGE_BYTES_MAX + 1))


# errors ------------------------------------------------------------------------------------------

ERRORS = (
    errors.FencedError("old", epoch=3, current=5, hint="read the record"),
    errors.RemoteError("gone", path="node-b", retryable=True),
    errors.InputError("no"),
    errors.ConfigError("no"),
    errors.OutOfSequenceError("back", partition=3, last=9, given=8),
    errors.MissingError("nothing", path="node-a", errno=2),
    errors.StorageError("full", path="x", errno=28),
    errors.TornEntry("short", path="p", offset=4, expected=8, found="seven"),
    errors.DamagedEntry("wrong", path="p", offset=4),
    errors.DamageError("wrong"),
    errors.VersionError("new"),
    errors.CapacityError("full", hint="wait"),
    errors.LockedError("his", pid=12),
    errors.ClosedError("over"),
    errors.PoisonedError("sync"),
    errors.SourceError("s", split="1", retryable=True),
    errors.SubscriberError("who"),
    errors.WaitTimeoutError("later"),
    errors.QuiverError("any"),
    Conflict("changed", path="k"),
    UnclearError("who knows", path="k", retryable=True),
)


@pytest.mark.parametrize("error", ERRORS, ids=kind_of)
def test_an_error_comes_across_as_what_it_is(error):
    found = from_text(f"Flight says: {to_text(error)}. Detail: Failed. }}{{")
    assert type(found) is type(error)
    assert (str(found), found.hint, found.retryable) == (str(error), error.hint, error.retryable)
    for name in ("path", "errno", "epoch", "current", "pid", "split", "offset", "expected"):
        assert getattr(found, name, None) == getattr(error, name, None)


def test_every_class_of_the_tree_has_a_code():
    classes = [getattr(errors, name) for name in errors.__all__]
    assert {type(error) for error in ERRORS} >= set(classes)


def test_a_class_that_has_no_code_goes_as_its_base():
    class Busy(errors.FencedError):
        pass

    found = from_text(to_text(Busy("x", epoch=1, current=2)))
    assert type(found) is errors.FencedError
    assert found.current == 2


@given(st.text(max_size=3000), st.text(max_size=3000))
def test_whatever_is_said_fits_into_a_header(message, hint):
    text = to_text(errors.RemoteError(message, path=message, hint=hint))
    assert len(text) <= TEXT_BYTES_MAX + 40
    assert text.isascii()
    assert isinstance(from_text(text), errors.RemoteError)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "boo",
        "quiver/1 NOBODY 2 {}",
        "quiver/1 INPUT 2 []",
        "quiver/1 INPUT 2 {",
        'quiver/1 INPUT 9 {"pid":1}',
        'quiver/1 LOCKED 11 {"pid":"1"}',
        'quiver/1 LOCKED 12 {"pid":true}',
        "quiver/1 INPUT 9999 " + "[" * 9999,
    ],
)
def test_what_is_no_error_is_none(text):
    assert from_text(text) is None


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_damage(data):
    for decode, encode in ((decode_message, encode_message), (decode_frame, encode_frame)):
        try:
            found = decode(data)
        except (DamageError, VersionError):
            continue
        assert encode(found) == data
