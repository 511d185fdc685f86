"""The bytes of a node's copy of a block: its state, and what stands before its entries.

``FORMAT.md`` is the spec.

::

    state    top (16) | head (40) | sealed | finished | texts | layout | crc32c u32
    log      front (44) | ... | mark | ... | mark | ... | entry (from byte 4,096 on) | entry | ...
    floor    top (16) | number u64 | crc32c u32   (a generation too)

Everything is little-endian, and all texts are UTF-8. Pure: bytes in, values out.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from quiver.chain.peers.values import BlockName, Finished
from quiver.chain.sealing import Sealed
from quiver.errors import DamagedEntry, InputError, TornEntry, VersionError

__all__ = [
    "CHAIN_MAX",
    "FRONT_BYTES",
    "LOG_BEGIN",
    "MARK_BYTES",
    "MARK_PLACES",
    "NUMBER_MAX",
    "STATE_BYTES_MAX",
    "CopyState",
    "Mark",
    "decode_floor",
    "decode_front",
    "decode_generation",
    "decode_mark",
    "decode_state",
    "encode_floor",
    "encode_front",
    "encode_generation",
    "encode_mark",
    "encode_state",
]

VERSION: Final = 1
LOG_VERSION: Final = 2
NUMBER_MAX: Final = (1 << 63) - 1
CHAIN_MAX: Final = 16
TEXT_BYTES_MAX: Final = 255
LAYOUT_BYTES_MAX: Final = 1 << 16
BOOT_BYTES: Final = 16
DIGEST_BYTES: Final = 32
STATE_BYTES_MAX: Final = 1 << 17

TOP: Final = struct.Struct("<8sHHI")
HEAD: Final = struct.Struct("<QQ16sBBHI")
SEALED: Final = struct.Struct("<Qqqq")
FINISHED: Final = struct.Struct("<QQ32s")
FRONT: Final = struct.Struct("<8sHHIQ16sI")
MARK: Final = struct.Struct("<QQI")
CRC: Final = struct.Struct("<I")

FRONT_BYTES: Final = FRONT.size
MARK_BYTES: Final = MARK.size
MARK_PLACES: Final = (512, 1024)
"""Two, in sectors of their own: one of them is whole whenever the power fails."""
LOG_BEGIN: Final = 4096

_STATE: Final = b"QUIVER\0K"
_LOG: Final = b"QUIVER\0C"
_FLOOR: Final = b"QUIVER\0F"
_GENERATION: Final = b"QUIVER\0G"
_CUT: Final = 1
_FINISHED: Final = 2
_SETTLED: Final = 4


class CopyState(NamedTuple):
    """What a node holds to about its copy of a block, whatever happens."""

    name: BlockName
    epoch: int
    """The greatest one that was promised."""
    boot: bytes
    """Which run of the machine made room for it."""
    chain: tuple[str, ...] = ()
    """Empty: the segment was copied here."""
    layout: str = ""
    sealed: Sealed | None = None
    """Where the record says that it ends; without who has it."""
    finished: Finished | None = None
    is_settled: bool = False
    """There is no log any more."""


class Mark(NamedTuple):
    """So many bytes of entries were synced when it was written; the newer one counts."""

    turn: int
    length: int


# state --------------------------------------------------------------------------------------------


def faulty_state(state: CopyState) -> str:
    """Say what of a state may not be; empty if nothing."""
    (partition, number), epoch, boot, chain, layout, sealed, finished, is_settled = state
    if not partition or not 0 <= min(number, epoch) <= max(number, epoch) <= NUMBER_MAX:
        return "its name or its epoch is out of range"
    if len(boot) != BOOT_BYTES or len(layout.encode("utf-8", "replace")) > LAYOUT_BYTES_MAX:
        return "boot or layout has another size"
    if len(chain) > CHAIN_MAX or len(set(chain)) != len(chain) or "" in chain:
        return "a location is listed twice, or has no name, or they are too many"
    if sealed is not None and (
        not 0 < sealed.length <= NUMBER_MAX
        or not -1 <= sealed.last_seq <= NUMBER_MAX
        or not -NUMBER_MAX <= sealed.start <= sealed.end <= NUMBER_MAX
    ):
        return "where it ends is out of range"
    if finished is not None and (
        not 0 <= finished.rows <= NUMBER_MAX
        or not 0 < finished.size <= NUMBER_MAX
        or len(finished.digest) != DIGEST_BYTES
    ):
        return "its segment is out of range"
    if is_settled and finished is None:
        return "it has neither a log nor a segment"
    return ""


def encode_state(state: CopyState) -> bytes:
    """Write a state; raises InputError for what may not be."""
    if fault := faulty_state(state):
        raise InputError(f"a copy may not be like this: {fault}")
    sealed, finished, layout = state.sealed, state.finished, state.layout.encode()
    head = HEAD.pack(
        state.name.number,
        state.epoch,
        state.boot,
        _CUT * (sealed is not None)
        + _FINISHED * (finished is not None)
        + _SETTLED * state.is_settled,
        len(state.chain),
        0,
        len(layout),
    )
    parts = [head]
    if sealed is not None:
        parts.append(SEALED.pack(sealed.length, sealed.last_seq, sealed.start, sealed.end))
    if finished is not None:
        parts.append(FINISHED.pack(finished.rows, finished.size, finished.digest))
    parts += [_text(state.name.partition), *map(_text, state.chain), layout]
    return _whole(_STATE, b"".join(parts))


def decode_state(data: bytes) -> CopyState:
    """Read a state; raises TornEntry, DamagedEntry, VersionError."""
    reader = _Reader(_opened(data, _STATE))
    head = HEAD.unpack(reader.take(HEAD.size))
    number, epoch, boot, flags, chain_count, zero, layout_len = head
    if zero or flags > _CUT + _FINISHED + _SETTLED:
        raise reader.damage("flags of a copy mean nothing", flags)
    sealed = finished = None
    if flags & _CUT:
        length, last_seq, start, end = SEALED.unpack(reader.take(SEALED.size))
        sealed = Sealed(length, last_seq, start, end, ())
    if flags & _FINISHED:
        rows, size, digest = FINISHED.unpack(reader.take(FINISHED.size))
        finished = Finished(rows, digest, size)
    partition = reader.text()
    chain = tuple([reader.text() for _ in range(chain_count)])
    layout = reader.decoded(reader.take(layout_len))
    name = BlockName(partition, number)
    state = CopyState(name, epoch, boot, chain, layout, sealed, finished, bool(flags & _SETTLED))
    fault = faulty_state(state) or (f"{reader.rest} bytes more" if reader.rest else "")
    if fault:
        raise reader.damage("a copy is impossible", fault)
    return state


# log ----------------------------------------------------------------------------------------------


def encode_front(number: int, partition: bytes, *, version: int = LOG_VERSION) -> bytes:
    """Write how a log begins: whose it is, as number and digest (16 bytes) of the partition."""
    data = FRONT.pack(_LOG, version, 0, 0, number, partition, 0)[: -CRC.size]
    return data + CRC.pack(crc32c(data))


def decode_front(data: bytes, number: int, partition: bytes) -> None:
    """Check how a log begins; raises TornEntry, DamagedEntry, VersionError."""
    expected = encode_front(number, partition)
    if len(data) < len(expected):
        raise TornEntry("a log of a block begins too short", expected=len(expected))
    if data[: FRONT.size] in (expected, encode_front(number, partition, version=1)):
        return
    magic, version = struct.unpack_from("<8sH", data)
    if magic == _LOG and version > LOG_VERSION and crc32c(data[: FRONT.size - 4]) == _crc_of(data):
        raise VersionError(
            f"it has format version {version}, this Quiver reads {LOG_VERSION} and older",
            hint="install a newer Quiver",
        )
    raise DamagedEntry("a log of a block begins otherwise", expected=expected.hex())


def _crc_of(data: bytes) -> int:
    return int.from_bytes(data[FRONT.size - CRC.size : FRONT.size], "little")


def encode_mark(mark: Mark) -> bytes:
    """Write a mark; it belongs to the place ``turn % 2``."""
    data = MARK.pack(*mark, 0)[: -CRC.size]
    return data + CRC.pack(crc32c(data))


def decode_mark(data: bytes) -> Mark | None:
    """Read a mark; None if there is none, or it was half written."""
    if len(data) < MARK.size:
        return None
    turn, length, expected = MARK.unpack_from(data)
    if crc32c(data[: MARK.size - CRC.size]) != expected or length > NUMBER_MAX:
        return None
    return Mark(turn, length)


# floor --------------------------------------------------------------------------------------------


def encode_floor(number: int) -> bytes:
    """Write below which number no room is made any more."""
    return _numbered(_FLOOR, number)


def decode_floor(data: bytes) -> int:
    """Read it; raises TornEntry, DamagedEntry, VersionError."""
    return _number_in(_FLOOR, data)


def encode_generation(number: int) -> bytes:
    """Write how new a folder is."""
    return _numbered(_GENERATION, number)


def decode_generation(data: bytes) -> int:
    """Read it; raises TornEntry, DamagedEntry, VersionError."""
    return _number_in(_GENERATION, data)


def _numbered(magic: bytes, number: int) -> bytes:
    if not 0 <= number <= NUMBER_MAX:
        raise InputError(f"{number} is out of range")
    return _whole(magic, number.to_bytes(8, "little"))


def _number_in(magic: bytes, data: bytes) -> int:
    reader = _Reader(_opened(data, magic))
    number = int.from_bytes(reader.take(8), "little")
    if reader.rest or number > NUMBER_MAX:
        raise reader.damage("a number is impossible", number)
    return number


# bytes --------------------------------------------------------------------------------------------


def _whole(magic: bytes, body: bytes) -> bytes:
    data = TOP.pack(magic, VERSION, 0, len(body)) + body
    return data + CRC.pack(crc32c(data))


def _opened(data: bytes, magic: bytes) -> bytes:
    """Check what is around a body, and give all but the checksum."""
    least = TOP.size + CRC.size
    if len(data) < least:
        raise TornEntry("it is too short", expected=least, found=len(data))
    found, version, zero, length = TOP.unpack_from(data)
    if found != magic:
        raise DamagedEntry("it has another magic", expected=magic, found=found)
    if length != len(data) - least:
        raise TornEntry("it has another length", expected=length + least, found=len(data))
    end = len(data) - CRC.size
    (expected,) = CRC.unpack_from(data, end)
    if (crc := crc32c(data[:end])) != expected:
        raise DamagedEntry(
            "its checksum is wrong", expected=f"{expected:#010x}", found=f"{crc:#010x}"
        )
    if version != VERSION:
        raise VersionError(
            f"it has format version {version}, this Quiver reads {VERSION}",
            hint="install a newer Quiver",
        )
    if zero:
        raise DamagedEntry("what must be zero is not", found=zero)
    return data[:end]


def _text(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{text!r:.80} cannot be written as UTF-8") from error
    if len(data) > TEXT_BYTES_MAX:
        raise InputError(f"{text!r:.80} has {len(data):,} bytes, the most is {TEXT_BYTES_MAX}")
    return bytes([len(data)]) + data


class _Reader:
    """Takes bytes from the front; whatever does not fit is damage."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = TOP.size

    @property
    def rest(self) -> int:
        return len(self._data) - self._at

    def take(self, length: int) -> bytes:
        if length > self.rest:
            raise self.damage("it ends early", self.rest)
        self._at += length
        return self._data[self._at - length : self._at]

    def text(self) -> str:
        return self.decoded(self.take(self.take(1)[0]))

    def decoded(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise self.damage("a text is no UTF-8", raw[:80]) from error

    def damage(self, message: str, found: object) -> DamagedEntry:
        return DamagedEntry(message, offset=self._at, found=found)
