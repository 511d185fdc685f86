"""What is seen of all messages at once is what following each of them finds."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from quiver.errors import DamagedEntry
from quiver.ipc_file import ArrowFile
from quiver.ipc_messages import Blocks, file_blocks, file_footer

BATCHES = [
    pa.record_batch(
        {
            "n": pa.array(range(rows), pa.int64()),
            "w": pa.array(["a", None] * (rows // 2), pa.string()),
        }
    )
    for rows in (2, 0, 64)
]


def file_of(*, codec: str | None = None, version: Any = pa.ipc.MetadataVersion.V5) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec, metadata_version=version, use_threads=False)
    with pa.ipc.new_file(sink, BATCHES[0].schema, options=options) as writer:
        for batch in BATCHES:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def batches_of(data: bytes) -> Blocks:
    return file_blocks(memoryview(data))[1]


@pytest.mark.parametrize("version", [pa.ipc.MetadataVersion.V4, pa.ipc.MetadataVersion.V5])
def test_uncompressed_batches_are_plain(version: Any) -> None:
    assert batches_of(file_of(version=version)).doubtful() == []


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_each_compressed_batch_is_looked_at(codec: str) -> None:
    blocks = batches_of(file_of(codec=codec))
    assert blocks.doubtful() == [0, 1, 2]
    assert blocks.decoded_bytes(2) > 0


def test_of_a_file_without_batches_there_is_nothing_to_look_at() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, BATCHES[0].schema):
        pass
    assert batches_of(sink.getvalue().to_pybytes()).doubtful() == []


def agreed(data: bytes) -> set[str]:
    """Hold each plain message against what following it finds; what was found of all of them."""
    try:
        blocks = batches_of(data)
    except DamagedEntry:
        return set()
    doubtful = set(blocks.doubtful())
    found = set()
    for index in range(blocks.count):
        if index in doubtful:
            found.add("doubtful")
            continue
        found.add("plain")
        assert blocks.decoded_bytes(index) == 0  # And it raises nothing.
    return found


@pytest.mark.parametrize("codec", [None, "lz4"])
@pytest.mark.parametrize("version", [pa.ipc.MetadataVersion.V4, pa.ipc.MetadataVersion.V5])
def test_a_plain_message_is_plain_to_who_follows_it_whatever_byte_is_changed(
    codec: str | None, version: Any
) -> None:
    good = file_of(codec=codec, version=version)
    found = set()
    for at in range(len(good)):
        for change in (0xFF, 0x01, 0x80):
            data = bytearray(good)
            data[at] ^= change
            found |= agreed(bytes(data))
    assert found == {"plain", "doubtful"}


def test_what_version_4_may_hide_in_its_custom_metadata_is_looked_at() -> None:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
    with pa.ipc.new_file(sink, BATCHES[0].schema, options=options) as writer:
        writer.write_batch(BATCHES[0])
        writer.write_batch(BATCHES[0], custom_metadata={"ARROW:experimental_compression": "lz4"})
    blocks = batches_of(sink.getvalue().to_pybytes())
    assert blocks.doubtful() == [1]
    with pytest.raises(DamagedEntry, match="may be compressed"):
        blocks.decoded_bytes(1)


def noted(texts: list[str]) -> bytes:
    """Write a batch with each of these texts in its metadata; no text is no metadata."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, BATCHES[0].schema) as writer:
        for text in texts:
            writer.write_batch(BATCHES[0], custom_metadata={"note": text} if text else None)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("lengths", [[0, 40, 0, 40, 40, 0], [40, 0], [40, 80, 40, 0, 80]])
def test_messages_that_are_laid_out_in_several_ways_are_plain(lengths: list[int]) -> None:
    data = noted(["x" * length for length in lengths])
    assert batches_of(data).doubtful() == []
    for at in range(0, len(data), 3):
        changed = bytearray(data)
        changed[at] ^= 0xFF
        agreed(bytes(changed))


def test_of_too_many_layouts_some_are_followed_one_by_one() -> None:
    data = noted(["x" * (40 * number) for number in range(12)] * 2)
    blocks = batches_of(data)
    assert blocks.doubtful() == [*range(8, 12), *range(20, 24)]
    assert [blocks.decoded_bytes(index) for index in blocks.doubtful()] == [0] * 8
    assert ArrowFile(data).table().num_rows == 24 * BATCHES[0].num_rows


@pytest.mark.parametrize("number", [-(2**63), -1, 0, 2**31, 2**62, 2**63 - 1])
def test_no_number_in_a_footer_is_too_large_or_too_small(number: int) -> None:
    good = file_of()
    start, end = file_footer(memoryview(good))
    for at in range(start, end - 8):
        data = bytearray(good)
        data[at : at + 8] = number.to_bytes(8, "little", signed=True)
        agreed(bytes(data))


def test_messages_that_lie_upon_each_other_are_looked_at() -> None:
    data = file_of()
    blocks = batches_of(data)
    doubled = Blocks(blocks.data, memoryview(bytes(blocks.table[:24]) * 2))
    assert doubled.doubtful() == [1]
    with pytest.raises(DamagedEntry, match="out of place"):
        doubled.decoded_bytes(1)
