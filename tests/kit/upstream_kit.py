"""Files of the Rust Quiver, laid out, and read, from its tables alone: struct, zlib and pyarrow.

No file that it wrote itself is at hand, so nothing here uses a line of Quiver's formats.
"""

from __future__ import annotations

import io
import posixpath
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from quiver.disk import Disk

LAYOUT = b"QUIVER_SEGCFG\0\0\0"
Bundle = Mapping[int, pa.RecordBatch]


# Arrow -----------------------------------------------------------------------------------------


def arrow_file(schema: pa.Schema, *batches: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def arrow_stream(batch: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


# segment ---------------------------------------------------------------------------------------


def one_batch(fields: list[pa.Field], columns: list[list]) -> bytes:
    schema = pa.schema(fields)
    arrays = [
        pa.array(column, type=field.type) for column, field in zip(columns, fields, strict=True)
    ]
    return arrow_file(schema, pa.record_batch(arrays, schema=schema))


def directory(rows: list[tuple]) -> bytes:
    kinds = [
        ("stream_id", pa.uint32()),
        ("slot_id", pa.uint16()),
        ("schema_fingerprint", pa.binary(32)),
        ("byte_offset", pa.uint64()),
        ("byte_length", pa.uint64()),
        ("row_count", pa.uint64()),
        ("chunk_count", pa.uint32()),
    ]
    fields = [pa.field(name, kind, nullable=False) for name, kind in kinds]
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * len(kinds)
    return one_batch(fields, columns)


def manifest(refs: list[list[tuple[int, int, int]]], items: list | None = None) -> bytes:
    """Rows of (slot, stream, chunk); item counts stand between index and references."""
    names = ("slot_id", "stream_id", "chunk_index")
    kinds = (pa.uint16(), pa.uint32(), pa.uint32())
    ref = pa.struct([pa.field(n, k, nullable=False) for n, k in zip(names, kinds, strict=True)])
    fields = [pa.field("bundle_index", pa.uint32(), nullable=False)]
    columns: list[list] = [list(range(len(refs)))]
    if items is not None:
        fields.append(pa.field("item_count", pa.uint64(), nullable=None in items))
        columns.append(items)
    fields.append(pa.field("slot_refs", pa.list_(pa.field("item", ref)), nullable=False))
    columns.append([[dict(zip(names, one, strict=True)) for one in bundle] for bundle in refs])
    return one_batch(fields, columns)


def assemble(
    streams: list[tuple[int, bytes, int, int]],
    refs: list[list[tuple[int, int, int]]],
    *,
    items: list | None = None,
    behind_footer: bytes = b"",
    align: int = 64,
) -> bytes:
    """Streams are (slot, Arrow file, rows, chunks)."""
    body, rows = b"", []
    for stream_id, (slot, data, row_count, chunk_count) in enumerate(streams):
        body += bytes(-len(body) % align)
        fingerprint = bytes([stream_id]) * 32
        rows.append((stream_id, slot, fingerprint, len(body), len(data), row_count, chunk_count))
        body += data
    tables = (directory(rows), manifest(refs, items))
    places = [(len(body), len(tables[0])), (len(body) + len(tables[0]), len(tables[1]))]
    footer = struct.pack("<HIIQIQI", 1, len(streams), len(refs), *places[0], *places[1])
    assert len(footer) == 34
    footer += behind_footer
    whole = body + tables[0] + tables[1] + footer
    whole += struct.pack("<I8s", len(footer), b"QUIVER\0S")
    return whole + struct.pack("<I", zlib.crc32(whole))


def segment(*bundles: Bundle) -> bytes:
    """Lay bundles out: a stream for each slot and schema, in order of first appearance."""
    groups: dict[tuple[int, bytes], list[pa.RecordBatch]] = {}
    refs = []
    for bundle in bundles:
        row = []
        for slot, batch in bundle.items():
            key = slot, batch.schema.serialize().to_pybytes()
            chunks = groups.setdefault(key, [])
            row.append((slot, list(groups).index(key), len(chunks)))
            chunks.append(batch)
        refs.append(row)
    streams = [
        (slot, arrow_file(chunks[0].schema, *chunks), sum(c.num_rows for c in chunks), len(chunks))
        for (slot, _), chunks in groups.items()
    ]
    return assemble(streams, refs)


# log -------------------------------------------------------------------------------------------


def wal_header(position: int = 0, *, more: bytes = b"", version: int = 1) -> bytes:
    header = struct.pack("<10sHH16sQ", b"QUIVER\0WAL", version, 38 + len(more), LAYOUT, position)
    assert len(header) == 38
    return header + more


def wal_entry(
    sequence: int, slots: Iterable[tuple[int, pa.RecordBatch | bytes]], *, at: int = 0
) -> bytes:
    """Write a bundle's blocks in the order given; bytes are a payload as it is, of 1 row."""
    bitmap, blocks = 0, b""
    for slot, value in slots:
        bitmap |= 1 << slot
        rows = 1 if isinstance(value, bytes) else value.num_rows
        payload = value if isinstance(value, bytes) else arrow_stream(value)
        blocks += struct.pack("<H32sII", slot, bytes([slot]) * 32, rows, len(payload)) + payload
    return wal_frame(struct.pack("<BqQQ", 0, at, sequence, bitmap) + blocks)


def wal_frame(body: bytes) -> bytes:
    return struct.pack("<I", len(body)) + body + struct.pack("<I", zlib.crc32(body))


def cursor(position: int, *, version: int = 1, more: bytes = b"") -> bytes:
    data = struct.pack("<8sHHQ", b"QUIVER\0T", version, 24 + len(more), position) + more
    return data + struct.pack("<I", zlib.crc32(data))


# progress --------------------------------------------------------------------------------------


def progress(
    segments: Sequence[tuple[int, int, Iterable[int]]],
    *,
    flags: int = 0,
    more: bytes = b"",
    version: int = 1,
) -> bytes:
    """Segments are (number, bundles, those that are resolved)."""
    head = struct.pack("<8sHHH", b"QUIVSUB\0", version, 32, flags)
    head += struct.pack("<QI6x", 0, len(segments))
    assert len(head) == 32
    for seq, count, resolved in segments:
        words = [0] * -(-count // 64)
        for index in resolved:
            words[index // 64] |= 1 << (index % 64)
        head += struct.pack(f"<QIH{len(words)}Q", seq, count, len(words), *words)
    return sealed(head + more)


def sealed(data: bytes) -> bytes:
    return data + struct.pack("<I", zlib.crc32(data))


# folders ---------------------------------------------------------------------------------------


def save(disk: Disk, path: str, data: bytes) -> str:
    """Write a file, its folders with it; whatever was there is gone."""
    folder = ""
    for name in path.split("/")[:-1]:
        folder = posixpath.join(folder, name)
        disk.make_dir(folder)
    if disk.stat(path) is not None:
        disk.unlink(path)
    file = disk.create(path)
    file.write(0, data)
    file.close()
    return path


class Folder:
    """A data folder in the making, at ``path`` below the root of a disk."""

    def __init__(self, disk: Disk, path: str = "") -> None:
        self.disk = disk
        self.path = path

    def add_segment(self, seq: int, *bundles: Bundle) -> str:
        return self.save(f"segments/{seq:016d}.qseg", segment(*bundles))

    def add_log(
        self, *entries: bytes, position: int = 0, rotated: int | None = None, more: bytes = b""
    ) -> int:
        """Write a file of the log; gives the position behind it."""
        name = "quiver.wal" if rotated is None else f"quiver.wal.{rotated}"
        data = b"".join(entries)
        self.save(f"wal/{name}", wal_header(position, more=more) + data)
        return position + len(data)

    def set_cursor(self, position: int) -> None:
        self.save("wal/quiver.wal.cursor", cursor(position))

    def set_progress(self, name: str, *segments: tuple[int, int, Iterable[int]]) -> None:
        self.save(f"quiver.sub.{name}", progress(segments))

    def save(self, name: str, data: bytes) -> str:
        return save(self.disk, posixpath.join(self.path, name), data)


def logs(*bodies: str) -> pa.RecordBatch:
    columns = {"body": pa.array(bodies, pa.string()), "n": pa.array(range(len(bodies)), pa.int64())}
    return pa.record_batch(columns)


# a log whose entries tell themselves apart -----------------------------------------------------


def numbered(number: int) -> bytes:
    return wal_entry(number, [(30, logs(f"row {number}"))], at=number * 10)


ENTRIES = [numbered(number) for number in range(6)]
LENGTH = len(ENTRIES[0])


# a reader of version 1 -------------------------------------------------------------------------


def read_v1(data: bytes) -> list[dict[int, pa.RecordBatch]]:
    """Read all bundles of a segment as the other implementation does, with all that it refuses."""
    assert len(data) >= 16
    footer_size, magic, crc = struct.unpack("<I8sI", data[-16:])
    assert magic == b"QUIVER\0S"
    assert crc == zlib.crc32(data[:-4])
    assert 34 <= footer_size <= len(data) - 16
    footer = data[-16 - footer_size :][:34]
    version, streams, bundles, d_offset, d_length, m_offset, m_length = struct.unpack(
        "<HIIQIQI", footer
    )
    assert version == 1
    assert streams <= 100_000
    assert bundles <= 10_000_000
    end = len(data) - 16 - footer_size
    assert d_offset + d_length <= end
    assert m_offset + m_length <= end
    files = _read_streams(data, data[d_offset:][:d_length], streams)
    table = pa.ipc.open_file(data[m_offset:][:m_length])
    assert table.num_record_batches == 1
    rows = table.get_batch(0)
    assert rows.num_rows == bundles
    _check_list(rows.schema.field("slot_refs").type)
    found = []
    for index, row in enumerate(rows.select(["bundle_index", "slot_refs"]).to_pylist()):
        assert row["bundle_index"] == index
        assert len(row["slot_refs"]) <= 64
        batches = {}
        for ref in row["slot_refs"]:
            slot, file = files[ref["stream_id"]]
            assert slot == ref["slot_id"] < 64
            batches[slot] = file.get_batch(ref["chunk_index"])
        assert len(batches) == len(row["slot_refs"])
        found.append(batches)
    return found


def _read_streams(data: bytes, table: bytes, count: int) -> dict[int, tuple[int, object]]:
    """Columns are asked for by name and type, and may hold no null; others are not looked at."""
    file = pa.ipc.open_file(table)
    assert file.num_record_batches == 1
    batch = file.get_batch(0)
    assert batch.num_rows == count
    wanted = pa.ipc.open_file(directory([])).schema
    for field in wanted:
        assert batch.schema.field(field.name) == field
        assert batch.column(field.name).null_count == 0
    found = {}
    for row in batch.select(wanted.names).to_pylist():
        assert row["byte_offset"] % 64 == 0
        assert row["chunk_count"] <= 10_000_000
        stream = pa.ipc.open_file(data[row["byte_offset"] :][: row["byte_length"]])
        assert stream.num_record_batches == row["chunk_count"]
        assert stream.stats.num_dictionary_batches <= 10_000
        assert stream.read_all().num_rows == row["row_count"]
        found[row["stream_id"]] = (row["slot_id"], stream)
    assert len(found) == count
    return found


def _check_list(kind: pa.DataType) -> None:
    """Its item is called ``item`` and may be null, and holds these three, which may not."""
    wanted = pa.ipc.open_file(manifest([[]])).schema.field("slot_refs").type
    assert kind.value_field.name == "item"
    assert kind.value_field.nullable
    assert kind == wanted
