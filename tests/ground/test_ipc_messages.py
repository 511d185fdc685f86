"""What compressed Arrow data decodes to is known, and held to a limit, before it is decoded."""

from __future__ import annotations

import os
import random
import resource
import struct
from collections.abc import Callable

import pyarrow as pa
import pytest

from quiver.config import LimitsConfig
from quiver.errors import DamagedEntry, QuiverError
from quiver.ipc import decode_stream, encode_file, encode_stream
from quiver.ipc_file import ArrowFile
from quiver.ipc_messages import file_blocks, stream_decoded_bytes

MIB = 1 << 20
CODECS = ("zstd", "lz4")
V4 = pa.ipc.MetadataVersion.V4


def options(codec: str | None, version: pa.ipc.MetadataVersion | None = None):
    version = version or pa.ipc.MetadataVersion.V5
    return pa.ipc.IpcWriteOptions(compression=codec, metadata_version=version, use_threads=False)


def stream_of(*batches: pa.RecordBatch, codec: str | None = "zstd") -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=options(codec)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def file_of(*batches: pa.RecordBatch, codec: str | None = "zstd") -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batches[0].schema, options=options(codec)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def numbers(count: int, columns: int = 1) -> pa.RecordBatch:
    column = pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(bytes(8 * count))])
    return pa.record_batch({f"n{i}": column for i in range(columns)})


def words() -> pa.RecordBatch:
    """A batch whose dictionary of 64 texts of 100 letters is compressed on its own."""
    texts = [f"{i:02}" * 50 for i in range(64)]
    return pa.record_batch({"w": pa.array(texts * 8).dictionary_encode()})


def budget(decoded_bytes: int) -> LimitsConfig:
    return LimitsConfig(decoded_bytes=decoded_bytes)


def test_data_that_is_not_compressed_costs_nothing_of_the_budget() -> None:
    data = encode_stream(words())
    assert stream_decoded_bytes(memoryview(data)) == 0
    assert decode_stream(data, limits=budget(1)).equals(words())
    file = encode_file(words().schema, [words(), words()])
    for blocks, count in zip(file_blocks(memoryview(file)), (1, 2), strict=True):
        assert [blocks.decoded_bytes(i) for i in range(blocks.count)] == [0] * count


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_data_decodes_up_to_the_budget_and_not_a_byte_beyond(codec: str) -> None:
    batch = numbers(1000, columns=3)
    data = stream_of(batch, codec=codec)
    assert stream_decoded_bytes(memoryview(data)) == 24_000
    assert decode_stream(data, limits=budget(24_000)).equals(batch)
    with pytest.raises(DamagedEntry, match=r"at most 23999 bytes, found 24000 \(limits.decoded_"):
        decode_stream(data, limits=budget(23_999))


def test_a_buffer_that_its_writer_left_as_it_was_counts_as_it_is() -> None:
    noise = pa.py_buffer(random.Random(1).randbytes(8 * 500))
    noise = pa.Array.from_buffers(pa.int64(), 500, [None, noise])
    data = stream_of(pa.record_batch({"n": noise}), codec="lz4")
    assert stream_decoded_bytes(memoryview(data)) == 4000
    assert decode_stream(data, limits=budget(4000))["n"].equals(noise)


@pytest.mark.parametrize("codec", CODECS)
def test_dictionaries_count_in_a_stream_and_with_each_chunk_of_a_file(codec: str) -> None:
    data = stream_of(words(), codec=codec)
    needed = stream_decoded_bytes(memoryview(data))
    assert needed >= 64 * 100 + 512 * 4
    assert decode_stream(data, limits=budget(needed)).equals(words())
    file = file_of(words(), words(), codec=codec)
    opened = ArrowFile(file, limits=budget(needed))
    assert all(chunk.equals(words()) for chunk in opened.chunks())
    opened = ArrowFile(file, limits=budget(needed - 1))
    with pytest.raises(DamagedEntry, match="decodes to more than the limit"):
        opened.chunk(1)
    with pytest.raises(DamagedEntry, match="decodes to more than the limit"):
        ArrowFile(file, limits=budget(64 * 100))


def test_every_batch_of_a_stream_counts_also_the_one_too_many() -> None:
    data = stream_of(numbers(1000), numbers(1000))
    with pytest.raises(DamagedEntry, match="found 16000"):
        decode_stream(data, limits=budget(8000))


def in_child(act: Callable[[], object]) -> str:
    """Say how ``act`` ends in a child with a bound on its memory."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        text = "nothing"
        try:
            with open("/proc/self/statm") as file:
                now = int(file.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (now + 2048 * MIB,) * 2)
            text = str(act())
        except BaseException as error:  # noqa: BLE001
            text = f"{type(error).__name__}: {error}"
        finally:
            os.write(write, text.encode())
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return text if status == 0 else f"status {status}"


def memory_taken(act: Callable[[], object]) -> str:
    """Say how ``act`` ends, and how many MiB Arrow had at most meanwhile."""
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    ending = "read"
    try:
        kept = act()
        del kept
    except DamagedEntry as error:
        ending = error.message
    return f"{ending}, {pool.max_memory() // MIB} MiB"


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # The child only reads and ends.
@pytest.mark.parametrize(
    ("allowed", "wanted"),
    [
        (255 * MIB, "compressed Arrow data decodes to more than the limit, 0 MiB"),
        (256 * MIB, "read, 256 MiB"),
    ],
    ids=["refused", "believed"],
)
@pytest.mark.parametrize(
    ("write", "read"),
    [
        (stream_of, decode_stream),
        (file_of, lambda data, limits: ArrowFile(data, limits=limits).chunk(0)),
    ],
    ids=["stream", "file"],
)
def test_a_bomb_is_refused_before_it_takes_memory(
    write: Callable[..., bytes], read: Callable[..., object], allowed: int, wanted: str
) -> None:
    data = write(numbers(64 * MIB // 8, columns=4))
    assert len(data) < 64 * 1024
    assert in_child(lambda: memory_taken(lambda: read(data, limits=budget(allowed)))) == wanted


def buffer_place(data: bytes, decoded: int) -> int:
    """Find the length in front of the one compressed buffer that decodes to ``decoded`` bytes."""
    prefix = struct.pack("<q", decoded)
    assert data.count(prefix) == 1
    return data.index(prefix)


@pytest.mark.parametrize("lie", [-(2**63), -2, 2**30 + 1, 2**46, 2**62, 2**63 - 1])
@pytest.mark.parametrize("codec", CODECS)
def test_a_length_that_cannot_be_is_refused_unread(codec: str, lie: int) -> None:
    data = bytearray(stream_of(numbers(999), codec=codec))
    struct.pack_into("<q", data, buffer_place(data, 8 * 999), lie)
    wanted = "impossible lengths" if lie < 0 else "decodes to more than the limit"
    with pytest.raises(DamagedEntry, match=wanted):
        decode_stream(data)


@pytest.mark.parametrize("lie", [-1, 0, 1, 8 * 999 - 1, 8 * 999 + 1, 2**20])
@pytest.mark.parametrize("codec", CODECS)
def test_a_length_that_is_wrong_is_found_by_arrow(codec: str, lie: int) -> None:
    data = bytearray(stream_of(numbers(999), codec=codec))
    struct.pack_into("<q", data, buffer_place(data, 8 * 999), lie)
    with pytest.raises(DamagedEntry, match="cannot be read"):
        decode_stream(data)


class Layout:
    """The second message of a stream of one batch, taken apart by the FlatBuffers rules."""

    def __init__(self, data: bytes) -> None:
        first = struct.unpack_from("<i", data, 4)[0]
        self.data = data
        self.start = 16 + first
        self.message = self.start + struct.unpack_from("<I", data, self.start)[0]
        header, _ = self.field(self.message, 2)
        self.batch = header + struct.unpack_from("<I", data, header)[0]

    def field(self, table: int, number: int) -> tuple[int, int]:
        """Give the places of a field and of its entry in the vtable."""
        vtable = table - struct.unpack_from("<i", self.data, table)[0]
        entry = vtable + 4 + 2 * number
        return table + struct.unpack_from("<H", self.data, entry)[0], entry


def test_compression_named_in_the_custom_metadata_of_version_4_is_no_way_around() -> None:
    sink = pa.BufferOutputStream()
    batch = numbers(1000)
    with pa.ipc.new_stream(sink, batch.schema, options=options("zstd", V4)) as writer:
        writer.write_batch(batch, custom_metadata={"ARROW:experimental_compression": "zstd"})
    data = bytearray(sink.getvalue().to_pybytes())
    layout = Layout(data)
    struct.pack_into("<H", data, layout.field(layout.batch, 3)[1], 0)
    assert pa.ipc.open_stream(bytes(data)).read_next_batch().equals(batch)
    with pytest.raises(DamagedEntry, match="compressed in a way that is not supported"):
        decode_stream(data)


def test_version_4_is_read_like_any_other() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, words().schema, options=options(None, V4)) as writer:
        writer.write_batch(words())
    assert decode_stream(sink.getvalue()).equals(words())


def test_messages_without_the_leading_minus_one_are_followed_too() -> None:
    sink = pa.BufferOutputStream()
    old = pa.ipc.IpcWriteOptions(compression="zstd", use_legacy_format=True)
    with pa.ipc.new_stream(sink, numbers(1).schema, options=old) as writer:
        writer.write_batch(numbers(1000))
    data = sink.getvalue()
    assert bytes(data[:4]) != b"\xff\xff\xff\xff"
    assert stream_decoded_bytes(memoryview(data)) == 8000
    assert decode_stream(data).equals(numbers(1000))


@pytest.mark.parametrize(
    ("number", "change", "wanted"),
    [
        (0, lambda block, _: (0, *block[1:]), "out of place: expected 8"),
        (0, lambda block, _: (10**9, *block[1:]), "out of place"),
        (0, lambda block, _: (-8, *block[1:]), "out of place"),
        (1, lambda _, before: before, "out of place"),
        (0, lambda block, _: (block[0], block[1] + 8, block[2]), "disagree about lengths"),
        (0, lambda block, _: (block[0], block[1], block[2] - 8), "disagree about lengths"),
        (0, lambda block, _: (block[0] + 8, *block[1:]), "cannot be read|disagree"),
    ],
    ids=["start", "beyond", "negative", "again", "metadata", "body", "shifted"],
)
def test_a_footer_that_sends_the_reader_elsewhere_is_damage(
    number: int, change: Callable, wanted: str
) -> None:
    layout = struct.Struct("<qi4xq")
    data = bytearray(file_of(numbers(1000), numbers(1000), codec=None))
    _, batches = file_blocks(memoryview(data))
    table = bytes(batches.table)
    blocks = [layout.unpack_from(table, 24 * i) for i in range(2)]
    assert data.count(table) == 1
    del batches
    layout.pack_into(
        data, data.index(table) + 24 * number, *change(blocks[number], blocks[number - 1])
    )
    with pytest.raises(DamagedEntry, match=wanted):
        list(ArrowFile(bytes(data)).chunks())


def small() -> list[tuple[Callable[[bytes], object], bytes]]:
    batch = pa.record_batch({"w": pa.array(["a", "b", None]).dictionary_encode()})
    read_file = lambda data: [chunk.to_pylist() for chunk in ArrowFile(data).chunks()]
    read_stream = lambda data: decode_stream(data).to_pylist()
    return [(read_stream, stream_of(batch, codec=c)) for c in (None, *CODECS)] + [
        (read_file, file_of(batch, codec=c)) for c in (None, *CODECS)
    ]


def read_with_each_byte_changed() -> int:
    """Read with each byte changed in three ways; count what was refused."""
    refused = 0
    for read, data in small():
        read(data)
        for place in range(len(data)):
            for flip in (0x01, 0x80, 0xFF):
                changed = bytearray(data)
                changed[place] ^= flip
                try:
                    read(bytes(changed))
                except QuiverError:
                    refused += 1
    return refused


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # The child only reads and ends.
def test_a_changed_byte_anywhere_is_read_or_refused_and_kills_nothing() -> None:
    refused = in_child(read_with_each_byte_changed)
    assert refused.isdigit(), refused
    assert int(refused) > 500


def test_the_walk_itself_raises_nothing_but_damage_whatever_the_bytes() -> None:
    rng = random.Random(2)
    refused = 0
    for read, data in small():
        del read
        for _ in range(500):
            changed = bytearray(data[: rng.randint(1, len(data))])
            for _ in range(rng.randint(0, 3)):
                place = rng.randrange(len(changed))
                value = rng.choice([0, 1, 4, 0x7F, 0x80, 0xFF, rng.randrange(256)])
                changed[place : place + 4] = bytes([value]) * rng.choice([1, 4])
            try:
                stream_decoded_bytes(memoryview(changed))
                for blocks in file_blocks(memoryview(changed)):
                    for index in range(blocks.count):
                        blocks.decoded_bytes(index)
            except DamagedEntry:
                refused += 1
    assert refused > 1000
