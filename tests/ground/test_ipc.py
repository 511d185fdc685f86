"""Bytes become Arrow data only through full validation; hostile ones become DamagedEntry."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from quiver import ipc, ipc_file
from quiver.config import LimitsConfig
from quiver.errors import DamagedEntry, InputError
from quiver.ipc import check_schema, decode_stream, encode_file, encode_stream
from quiver.ipc_file import ArrowFile

MUTANTS = 300


def zoo() -> pa.RecordBatch:
    return pa.record_batch(
        {
            "n": pa.array([1, None, 3]),
            "s": ["a", None, "a longer text that is no inline view"],
            "v": pa.array(["x", "y" * 20, None], pa.string_view()),
            "d": pa.array(["on", "off", "on"]).dictionary_encode(),
            "l": pa.array([[1], [], None], pa.list_(pa.int32())),
            "m": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
            "t": pa.array([{"f": ["deep"]}, None, {"f": None}]),
        }
    )


def test_a_batch_survives_the_round_trip_and_lies_in_the_bytes_given() -> None:
    batch = zoo()
    data = encode_stream(batch)
    decoded = decode_stream(data, rows=3)
    assert decoded.equals(batch)
    values = decoded["n"].buffers()[1]
    assert data.address <= values.address < data.address + data.size


def test_equal_batches_give_equal_bytes() -> None:
    assert encode_stream(zoo()).equals(encode_stream(zoo()))


@pytest.mark.parametrize("shift", range(1, 8))
def test_bytes_at_any_alignment_decode(shift: int) -> None:
    data = bytes(shift) + encode_stream(zoo()).to_pybytes()
    assert decode_stream(memoryview(data)[shift:]).equals(zoo())


def stream_of(*batches: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, zoo().schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    "data, wanted",
    [
        (b"", "cannot be read"),
        (b"\0" * 64, "cannot be read|no batch"),
        (b"\xff" * 64, "cannot be read"),
        (b"\xff\xff\xff\xff\xff\xff\xff\x7f", "cannot be read"),
        (stream_of(), "holds no batch"),
        (stream_of(zoo(), zoo()), "more than one batch"),
        (encode_file(zoo().schema, [zoo()]).to_pybytes(), "cannot be read"),
        (encode_stream(zoo()).to_pybytes()[:-200], "cannot be read"),
    ],
    ids=["empty", "zeros", "ones", "lie", "no batch", "two", "file", "cut"],
)
def test_bytes_that_are_no_stream_of_one_batch_are_damage(data: bytes, wanted: str) -> None:
    with pytest.raises(DamagedEntry, match=wanted):
        decode_stream(data)


def test_another_number_of_rows_than_promised_is_damage() -> None:
    with pytest.raises(DamagedEntry, match="expected 4, found 3"):
        decode_stream(encode_stream(zoo()), rows=4)


def test_a_row_bomb_is_refused_by_the_limit() -> None:
    small = encode_stream(pa.record_batch({"n": pa.nulls(1)})).to_pybytes()
    bomb = pa.RecordBatch.from_arrays([pa.nulls(2**31 - 1)], ["n"])
    data = encode_stream(bomb)
    assert data.size < 2 * len(small)
    with pytest.raises(DamagedEntry, match="at most 100000000, found 2147483647"):
        decode_stream(data, limits=LimitsConfig())


def test_schemas_beyond_the_limits_are_damage_when_read_and_bad_input_when_written() -> None:
    wide = pa.record_batch({f"c{i}": [1] for i in range(20)})
    limits = LimitsConfig(columns=19)
    with pytest.raises(InputError, match=r"limits\.columns"):
        check_schema(wide.schema, limits)
    with pytest.raises(DamagedEntry, match=r"an Arrow stream is refused: .* more than 19 columns"):
        decode_stream(encode_stream(wide), limits=limits)
    with pytest.raises(DamagedEntry, match="an Arrow file is refused"):
        ArrowFile(encode_file(wide.schema, [wide]), limits=limits)


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.list_(pa.int8())),
        pa.large_list(pa.list_(pa.int8())),
        pa.list_view(pa.list_(pa.int8())),
        pa.list_(pa.list_(pa.int8()), 2),
        pa.struct([("a", pa.struct([("b", pa.int8())]))]),
        pa.map_(pa.string(), pa.int8()),
        pa.dictionary(pa.int8(), pa.list_(pa.int8())),
        pa.run_end_encoded(pa.int32(), pa.list_(pa.int8())),
        pa.sparse_union([pa.field("a", pa.list_(pa.int8()))]),
        pa.list_(pa.bool8()),
    ],
    ids=str,
)
def test_every_kind_of_nesting_counts_as_depth(kind: pa.DataType) -> None:
    schema = pa.schema([("c", kind)])
    check_schema(schema, LimitsConfig(nesting=3))
    with pytest.raises(InputError, match="deeper than 2 levels"):
        check_schema(schema, LimitsConfig(nesting=2))


class Wrapped(pa.ExtensionType):
    """An extension type of our own, around anything."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "test.wrapped")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Wrapped:
        return cls(storage)


TEXTS = pa.dictionary(pa.int8(), pa.string())


@pytest.mark.parametrize(
    "kind",
    [
        pa.dictionary(pa.int8(), TEXTS),
        pa.dictionary(pa.int8(), pa.bool8()),
        Wrapped(pa.bool8()),
        Wrapped(Wrapped(pa.string())),
    ],
    ids=[
        "dictionary of dictionaries",
        "dictionary of extensions",
        "extension of a known extension",
        "extension of an extension",
    ],
)
@pytest.mark.parametrize(
    "place",
    [lambda kind: kind, pa.list_, lambda kind: pa.struct([("f", kind)])],
    ids=["column", "list", "struct"],
)
def test_a_wrapping_that_arrow_cannot_keep_is_refused_at_any_depth(place, kind) -> None:
    with pytest.raises(InputError, match=r"cannot keep a .* \(use the type inside it\)"):
        check_schema(pa.schema([("fine", pa.int8()), ("c", place(kind))]), LimitsConfig())


@pytest.mark.parametrize(
    "kind",
    [Wrapped(TEXTS), Wrapped(pa.list_(TEXTS)), pa.dictionary(pa.int8(), pa.list_(pa.int8()))],
    ids=["extension of a dictionary", "extension of a list", "dictionary of lists"],
)
def test_other_wrappings_are_taken(kind: pa.DataType) -> None:
    check_schema(pa.schema([("c", kind)]), LimitsConfig())


def test_a_file_is_read_chunk_by_chunk() -> None:
    chunks = [zoo(), zoo().slice(0, 0), zoo().slice(1, 1)]
    file = ArrowFile(encode_file(zoo().schema, [chunks[0], chunks[0].slice(1, 1)]))
    assert file.chunk_count == 2
    assert file.chunk(1).equals(chunks[2])
    assert [chunk.num_rows for chunk in file.chunks()] == [3, 1]
    for index in (-1, 2):
        with pytest.raises(DamagedEntry, match="a chunk is out of range: expected below 2"):
            file.chunk(index)


@pytest.mark.parametrize("columns", [None, [0, 3]])
def test_what_was_found_good_is_not_validated_again(
    monkeypatch: pytest.MonkeyPatch, columns: list[int] | None
) -> None:
    file = ArrowFile(encode_file(zoo().schema, [zoo(), zoo()]), columns=columns)
    seen: list[str] = []
    for name in ("check_batch", "validate_later", "validate_table"):
        real = getattr(ipc_file, name)

        def counted(*args: Any, name: str = name, real: Any = real) -> None:
            seen.append(name)
            real(*args)

        monkeypatch.setattr(ipc_file, name, counted)
    assert file.chunk(1).equals(file.chunk(1))
    assert file.chunk(0).equals(file.chunk(1))
    assert file.table().equals(file.table())
    assert seen == ["check_batch", "validate_later", "validate_table"]


def test_what_was_found_bad_is_found_bad_again() -> None:
    data = bytearray(encode_file(zoo().schema, [zoo(), zoo()]).to_pybytes())
    text = data.rindex(b"a longer text")
    data[text] = 0xFF
    file = ArrowFile(bytes(data))
    assert file.chunk(0).num_rows == 3
    for _ in range(2):
        with pytest.raises(DamagedEntry):
            file.chunk(1)
        with pytest.raises(DamagedEntry):
            file.table()


def test_bytes_that_are_no_file_are_damage() -> None:
    good = encode_file(zoo().schema, [zoo()]).to_pybytes()
    for data in (b"", good[:-1], good[100:], b"ARROW1" * 50, encode_stream(zoo())):
        with pytest.raises(DamagedEntry, match="cannot be read"):
            list(ArrowFile(data).chunks())


def mutants(data: bytes, count: int) -> list[bytes]:
    """Bit flips, special bytes, and extremes of 32 and 64 bits at aligned places."""
    rng = random.Random(1)
    found = []
    for _ in range(count):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(changed) - 8)
            kind = rng.randrange(4)
            if kind == 0:
                changed[place] ^= 1 << rng.randrange(8)
            elif kind == 1:
                changed[place] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
            else:
                size = 4 if kind == 2 else 8
                place -= place % size
                value = rng.choice([0, 1, -1, 2 ** (8 * size - 1) - 1, -(2 ** (8 * size - 1))])
                changed[place : place + size] = value.to_bytes(size, "little", signed=True)
        found.append(bytes(changed))
    return found


def read_all(stream: list[bytes], file: list[bytes]) -> int:
    """Decode each mutant and touch every value; give 0 if each was read or refused as damage."""
    for data in stream:
        try:
            decode_stream(data).to_pylist()
        except DamagedEntry:
            continue
    for data in file:
        try:
            for chunk in ArrowFile(data).chunks():
                chunk.to_pylist()
        except DamagedEntry:
            continue
    return 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # The child only reads and ends.
def test_hostile_bytes_are_read_or_refused_and_never_kill_the_process() -> None:
    stream = mutants(encode_stream(zoo()).to_pybytes(), MUTANTS)
    file = mutants(encode_file(zoo().schema, [zoo()]).to_pybytes(), MUTANTS)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = read_all(stream, file)
        except BaseException as error:  # noqa: BLE001
            sys.__stderr__.write(f"{type(error).__name__}: {error}\n")
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    killed = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else None
    assert killed is None
    assert os.waitstatus_to_exitcode(status) == 0


def test_column_names_that_are_no_text_are_damage_and_bad_input() -> None:
    data = encode_stream(pa.record_batch({"name": [1]})).to_pybytes()
    assert data.count(b"name") == 1
    with pytest.raises(DamagedEntry, match="cannot be read: 'utf-8'"):
        decode_stream(data.replace(b"name", b"n\xffme"))
    inner = encode_stream(pa.record_batch({"s": [{"name": 1}]})).to_pybytes()
    with pytest.raises(DamagedEntry, match="cannot be read: 'utf-8'"):
        decode_stream(inner.replace(b"name", b"n\xffme"))


def test_extension_types_come_back_as_they_are() -> None:
    tensor = pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((2, 3), np.float32))
    batch = pa.RecordBatch.from_arrays([tensor], ["t"])
    assert decode_stream(encode_stream(batch)).schema.equals(batch.schema)


def test_a_file_that_needs_more_room_than_was_guessed_is_the_same(monkeypatch) -> None:
    columns = {f"column {n}": pa.array([[n], None, []]) for n in range(300)}
    batch = pa.record_batch(columns)
    batches = [batch, batch.slice(1), batch.slice(0, 0)]
    guessed = encode_file(batch.schema, batches)
    monkeypatch.setattr("quiver.ipc._FILE_BYTES", 0)
    monkeypatch.setattr("quiver.ipc._CHUNK_BYTES", 0)
    grown = encode_file(batch.schema, batches)
    assert grown.equals(guessed)
    assert pa.ipc.open_file(grown).read_all().num_rows == 5


def test_a_file_keeps_no_more_memory_than_its_bytes() -> None:
    batch = pa.record_batch({"n": pa.array(range(100_000), pa.int64())})
    before = pa.total_allocated_bytes()
    data = encode_file(batch.schema, [batch], body_bytes=64 << 20)
    assert pa.total_allocated_bytes() - before < 2 * data.size < 4 << 20
    assert ArrowFile(data).chunk(0).equals(batch)


def test_a_schema_that_passed_is_known_and_other_limits_are_other_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[None] = []
    monkeypatch.setattr(ipc, "_KNOWN_SCHEMAS", {})
    monkeypatch.setattr(ipc, "check_schema", lambda *given: looked.append(check_schema(*given)))
    data = bytes(encode_stream(pa.record_batch({"a": [1], "b": [2]})))
    other = bytes(encode_stream(pa.record_batch({"a": [1], "c": [2]})))
    assert [decode_stream(one).num_columns for one in (data, data, other, data)] == [2] * 4
    assert len(looked) == 2
    with pytest.raises(DamagedEntry, match="more than 1 columns"):
        decode_stream(data, limits=LimitsConfig(columns=1))
    with pytest.raises(DamagedEntry, match="more than 1 columns"):  # Nor is that remembered.
        decode_stream(data, limits=LimitsConfig(columns=1))


def test_no_more_schemas_are_known_than_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ipc, "_KNOWN_SCHEMAS", {})
    for number in range(3 * ipc._KNOWN_MAX):
        decode_stream(encode_stream(pa.record_batch({f"column {number}": [1]})))
        assert len(ipc._KNOWN_SCHEMAS) <= ipc._KNOWN_MAX
    before = len(ipc._KNOWN_SCHEMAS)
    long = pa.record_batch({"x" * ipc._KNOWN_BYTES_MAX: [1]})
    assert decode_stream(encode_stream(long)).num_rows == 1
    options = pa.ipc.IpcWriteOptions(use_legacy_format=True)  # Its length says something else.
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, long.schema, options=options) as writer:
        writer.write_batch(long)
    with contextlib.suppress(DamagedEntry):
        decode_stream(sink.getvalue())
    assert len(ipc._KNOWN_SCHEMAS) == before
