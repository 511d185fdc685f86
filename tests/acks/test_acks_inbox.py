"""The bytes of an inbox: they come back as they were, or are refused."""

import dataclasses
import re
import struct
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

import quiver.acks.inbox as module
from quiver.acks.inbox import (
    DeadLetterState,
    Inbox,
    decode_inbox,
    encode_inbox,
)
from quiver.acks.states import NackState, SegmentState
from quiver.errors import DamagedEntry, DamageError, InputError, TornEntry, VersionError

U16 = st.integers(0, 0xFFFF)
U32 = st.integers(0, 0xFFFF_FFFF)
U64 = st.integers(0, 0xFFFF_FFFF_FFFF_FFFF)
I64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.from_regex(r"[A-Za-z0-9]([._-]?[A-Za-z0-9]){0,63}", fullmatch=True)
TEXTS = st.text(max_size=50).filter(lambda text: len(text.encode()) <= 200)
STORE = "0123456789abcdef" * 2
SOME = Inbox(
    STORE,
    "spark",
    9,
    77,
    1,
    42,
    3,
    (SegmentState(42, 10, ((0, 3), (5, 2))),),
    (NackState(42, 4, 3, 99, 500),),
    (DeadLetterState(42, 8, 5, 2, "\u00e4b"), DeadLetterState(43, 0)),
)
SEALED = encode_inbox(SOME)
# Where things are: name at 80, segment at 85, runs at 101, nack at 117, dead letters at 149.


def sealed(body: bytes) -> bytes:
    return body + struct.pack("<I", crc32c(body))


def patched(offset: int, layout: str, value: object, data: bytes = SEALED) -> bytes:
    changed = bytearray(data)
    struct.pack_into(layout, changed, offset, value)
    return sealed(bytes(changed[:-4]))


@st.composite
def inboxes(draw):
    segments = []
    for seq in sorted(draw(st.sets(U64, max_size=3))):
        cuts = sorted(draw(st.sets(st.integers(0, 0xFFFF), max_size=12)))
        pairs = zip(cuts[::2], cuts[1::2], strict=False)
        segments.append(SegmentState(seq, 0xFFFF, tuple((a, b - a) for a, b in pairs)))
    places = st.sets(st.tuples(U64, U32), max_size=3)
    nacks = [NackState(*p, draw(U32), draw(I64), draw(U16)) for p in sorted(draw(places))]
    dead = [DeadLetterState(*p, draw(U32), draw(U16), draw(TEXTS)) for p in sorted(draw(places))]
    return Inbox(
        draw(st.binary(min_size=16, max_size=16)).hex(),
        draw(NAMES),
        max(1, draw(U64)),
        draw(I64),
        draw(U16),
        draw(U64),
        draw(U32),
        tuple(segments),
        tuple(nacks),
        tuple(dead),
        paused=draw(st.booleans()),
    )


@given(inboxes())
def test_an_inbox_comes_back_as_it_was(inbox):
    assert decode_inbox(encode_inbox(inbox)) == inbox


@given(st.binary(max_size=400), st.integers(0, 2**32 - 1))
def test_any_bytes_are_read_or_refused(body, count):
    for offset in (12, 36, 40, 44):
        head = bytearray(SEALED[:80])
        struct.pack_into("<I", head, 32, 84 + len(body))
        struct.pack_into("<H" if offset == 12 else "<I", head, offset, count % 2**16)
        for data in (body, sealed(bytes(head) + body)):
            try:
                inbox = decode_inbox(data)
            except (DamageError, VersionError):
                continue
            assert encode_inbox(inbox) == data


@pytest.mark.parametrize(
    "title, layout",
    [("Inbox", module.INBOX_LAYOUT), ("Dead letter in an inbox", module.DEAD_LETTER_LAYOUT)],
)
def test_the_tables_of_the_format_page_are_the_structs(title, layout):
    page = (Path(module.__file__).parent / "FORMAT.md").read_text()
    section = page.split(f"### {title}\n")[1].split("\n#")[0]
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\w+) \|", section, re.MULTILINE)
    codes = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i64": "q"}
    wanted, at = "<", 0
    for offset, size, kind in rows:
        assert int(offset) == at
        wanted += codes.get(kind) or f"{size}{'s' if kind == 'bytes' else 'x'}"
        at += int(size)
    shortened = re.sub(r"([BHIQq])\1+", lambda m: m.group(0), wanted)
    assert shortened == layout.format
    assert at == layout.size


def test_every_byte_that_is_changed_is_noticed():
    for place in range(len(SEALED)):
        for change in (1, 0x80, 0xFF):
            data = bytearray(SEALED)
            data[place] ^= change
            with pytest.raises(DamageError):
                decode_inbox(bytes(data))


def test_every_prefix_is_torn():
    for length in range(len(SEALED)):
        with pytest.raises(TornEntry):
            decode_inbox(SEALED[:length])


@pytest.mark.parametrize(
    "data, error, words",
    [
        (patched(0, "<B", 0), DamagedEntry, "magic"),
        (patched(8, "<H", 2), VersionError, "format 2, this program reads 1"),
        (patched(8, "<H", 0), VersionError, "format 0"),
        (patched(12, "<H", 0xFFFF), DamagedEntry, "fewer bytes"),
        (patched(12, "<H", 0), DamagedEntry, "fewer bytes|goes on|1 to 128"),
        (patched(32, "<I", 5), DamagedEntry, "another size"),
        (patched(32, "<I", 0xFFFF_FFFF), DamagedEntry, "another size"),
        (patched(36, "<I", 0xFFFF_FFFF), DamagedEntry, "fewer bytes"),
        (patched(40, "<I", 0xFFFF_FFFF), DamagedEntry, "fewer bytes"),
        (patched(44, "<I", 0xFFFF_FFFF), DamagedEntry, "fewer bytes"),
        (patched(44, "<I", 1), DamagedEntry, "goes on after its last dead letter"),
        (patched(48, "<Q", 0), DamagedEntry, "no lease has the generation 0"),
        (patched(80, "<B", 0x2F), DamagedEntry, "letters"),
        (patched(80, "<B", 0xE4), DamagedEntry, "letters"),
        (patched(97, "<I", 0xFFFF_FFFF), DamagedEntry, "fewer bytes"),
        (patched(93, "<I", 6), DamagedEntry, "segment 42 has no run 5 to 7"),
        (patched(105, "<I", 0), DamagedEntry, "no run 0 to 0"),
        (patched(109, "<I", 3), DamagedEntry, "no run 3 to 5"),
        (patched(149, "<Q", 43), DamagedEntry, "dead letters do not ascend"),
        (patched(167, "<H", 0xFFFF), DamagedEntry, "fewer bytes"),
        (patched(169, "<B", 0xFF), DamagedEntry, "UTF-8"),
        (sealed(SEALED[:-4] + b"\0"), DamagedEntry, "another size"),
        (SEALED + b"\0", DamagedEntry, "checksum"),
    ],
)
def test_a_bad_inbox_is_named(data, error, words):
    with pytest.raises(error, match=words) as caught:
        decode_inbox(data)
    assert type(caught.value) is error


def test_lists_that_do_not_ascend_are_refused():
    twice = {
        "segments": (SegmentState(1, 4, ()),) * 2,
        "nacks": (NackState(1, 1, 1, 0),) * 2,
        "dead_letters": (DeadLetterState(1, 1),) * 2,
    }
    for name, value in twice.items():
        with pytest.raises(InputError, match=f"{name.replace('_', ' ')} do not ascend"):
            encode_inbox(dataclasses.replace(SOME, **{name: value}))


@pytest.mark.parametrize(
    "change",
    [
        {"store_id": ""},
        {"store_id": STORE.upper()},
        {"store_id": STORE + "00"},
        {"store_id": STORE[:-1] + " "},
        {"store_id": "g" * 32},
        {"name": ""},
        {"name": "a/b"},
        {"name": "n" * 129},
        {"lease": 0},
        {"lease": -1},
        {"lease": 1 << 64},
        {"subscriber_id": 1 << 16},
        {"start_segment_seq": 1 << 64},
        {"start_bundle_index": 1 << 32},
        {"at_ns": 1 << 63},
        {"segments": (SegmentState(1, 4, ((2, 3),)),)},
        {"nacks": (NackState(1, 1 << 32, 1, 0),)},
        {"dead_letters": (DeadLetterState(1, 1, 1, 1 << 16),)},
        {"dead_letters": (DeadLetterState(1, 1, text="x" * 201),)},
        {"dead_letters": (DeadLetterState(1, 1, text="\u00e4" * 101),)},
        {"dead_letters": (DeadLetterState(1, 1, text="\ud800"),)},
    ],
)
def test_an_inbox_that_could_not_be_read_back_is_not_written(change):
    with pytest.raises(InputError):
        encode_inbox(dataclasses.replace(SOME, **change))


@pytest.mark.parametrize("text", ["", "x" * 200, "\u00e4" * 100])
def test_a_text_may_have_200_bytes(text):
    inbox = dataclasses.replace(SOME, dead_letters=(DeadLetterState(1, 2, 3, 4, text),))
    assert decode_inbox(encode_inbox(inbox)) == inbox


def test_a_stored_text_of_201_bytes_is_refused():
    inbox = dataclasses.replace(SOME, dead_letters=(DeadLetterState(1, 2, 3, 4, "x" * 200),))
    data = bytearray(encode_inbox(inbox)[:-4] + b"x")
    struct.pack_into("<H", data, 167, 201)
    struct.pack_into("<I", data, 32, len(data) + 4)
    with pytest.raises(DamagedEntry, match="201 bytes"):
        decode_inbox(sealed(bytes(data)))
