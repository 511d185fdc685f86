"""Write the seeds of every target from the golden files; the same bytes each time it is run."""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

import fuzz_acks
import fuzz_copies
import fuzz_ipc
import fuzz_ledger
import fuzz_otap
import fuzz_persist
import fuzz_progress
import fuzz_queue
import fuzz_record
import fuzz_retention
import fuzz_segment
import fuzz_shipper
import fuzz_source
import fuzz_timeline
import fuzz_upstream
import fuzz_wal
import fuzz_wire
import pyarrow as pa

from quiver.ipc_around import FILE_HEAD, FileAround
from quiver.segment.directory import Description, encode_directory
from quiver.segment.format import Footer, encode_tail
from quiver.segment.tables import BundleEntry, SlotRef, StreamEntry
from tests.kit.copies_kit import entry
from tests.kit.manifests import manifest_of

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden" / "v1"
CORPUS = ROOT / "fuzz" / "corpus"


def wal_seeds() -> dict[str, bytes]:
    log = (GOLDEN / "wal" / "quiver.wal").read_bytes()
    sidecar = (GOLDEN / "wal" / "truncate.offset").read_bytes()
    head = log[: fuzz_wal.HEADER_BYTES]
    second = fuzz_wal.frame_at(memoryview(log), len(head), fuzz_wal.LIMIT).end

    def seed(flags: int, body: bytes, cut: int = 0) -> bytes:
        return fuzz_wal.INPUT.pack(flags, cut) + body

    rotated = log[:second] + head + log[second:]
    reused = (GOLDEN / "reused" / "quiver.wal.9").read_bytes()
    damaged = log[:100] + b"\xff" * 8 + log[108:]
    own_place = fuzz_wal.encode_sidecar(fuzz_wal.Place(1, second))
    noted = fuzz_wal.encode_bundle(fuzz_wal.NOTED)
    every = fuzz_wal.REPAIR | fuzz_wal.ROTATED | fuzz_wal.WITH_SIDECAR | fuzz_wal.COVERED
    return {
        "golden": seed(0, log),
        "golden-repaired": seed(fuzz_wal.REPAIR, log),
        "again": seed(fuzz_wal.AGAIN, reused),
        "again-covered": seed(fuzz_wal.AGAIN | fuzz_wal.REPAIR | fuzz_wal.COVERED, reused),
        "golden-sidecar": seed(fuzz_wal.WITH_SIDECAR, log + sidecar),
        "rotated": seed(fuzz_wal.ROTATED | fuzz_wal.REPAIR, rotated, second),
        "covered": seed(every, rotated + own_place, second),
        "damaged": seed(0, damaged),
        "noted": seed(0, log + noted),
        "noted-repaired": seed(fuzz_wal.REPAIR, head + noted + log[len(head) :]),
        "torn": seed(0, log[:-7]),
        "torn-retired": seed(0, b"\xff" + log[1:-7]),
        "hole": seed(0, head + bytes(second - len(head)) + log[second:]),
    }


def acks_seeds() -> dict[str, bytes]:
    log = (GOLDEN / "acks" / "ack.log").read_bytes()
    state = (GOLDEN / "acks" / "checkpoint").read_bytes()
    inbox = (GOLDEN.with_name("v2") / "acks" / "inbox" / "spark").read_bytes()
    later_log = (GOLDEN.with_name("v2") / "acks" / "ack.log").read_bytes()
    later_state = (GOLDEN.with_name("v2") / "acks" / "checkpoint").read_bytes()

    def seed(flags: int, log: bytes, state: bytes) -> bytes:
        return fuzz_acks.INPUT.pack(flags, len(log)) + log + state

    return {
        "golden": seed(0, log, state),
        "golden-repaired": seed(fuzz_acks.REPAIR, log, state[: len(state) // 2]),
        "no-log": seed(fuzz_acks.NO_LOG | fuzz_acks.REPAIR, b"", state[: len(state) // 2]),
        "no-checkpoint": seed(fuzz_acks.NO_CHECKPOINT | fuzz_acks.REPAIR, log, b""),
        "damaged": seed(0, log[:100] + b"\xff" * 8 + log[108:], state),
        "torn": seed(0, log[:-30], state),
        "later": seed(0, later_log, later_state),
        "inbox": seed(0, b"", inbox),
        "inbox-repaired": seed(fuzz_acks.REPAIR, b"", inbox),
        "later-repaired": seed(fuzz_acks.REPAIR, later_log, later_state[: len(later_state) // 2]),
    }


def ipc_seeds() -> dict[str, bytes]:
    levels = pa.array(["warn", "info", None] * 20).dictionary_encode()
    nested = pa.array([[{"k": "a", "v": 1}], None, []] * 20)
    batch = pa.record_batch({"level": levels, "nested": nested, "n": pa.array(range(60))})
    seeds = {}
    for codec in ("plain", "zstd", "lz4"):
        options = pa.ipc.IpcWriteOptions(compression=None if codec == "plain" else codec)
        for kind, writer in (("stream", pa.ipc.new_stream), ("file", pa.ipc.new_file)):
            sink = pa.BufferOutputStream()
            with writer(sink, batch.schema, options=options) as opened:
                opened.write_batch(batch)
            flags = fuzz_ipc.FILE if kind == "file" else 0
            seeds[f"{kind}-{codec}"] = bytes([flags]) + sink.getvalue().to_pybytes()
    stream = memoryview(seeds["stream-plain"])[1:]
    around = FileAround.of(stream)
    assert around is not None
    file = FILE_HEAD + bytes(stream) + (around.tail(stream) or b"")
    seeds["alike"] = bytes([fuzz_ipc.ALIKE]) + file * fuzz_ipc.FILES
    return seeds


def foreign_segment() -> bytes:
    """Lay out a segment whose streams have no checksum of their own, so that theirs can be hit."""
    stream = ipc_seeds()["file-plain"][1:]
    entry = StreamEntry(0, 0, bytes(32), 0, len(stream), 60, 1)
    core = pa.ipc.open_file(encode_directory([entry], Description(), {})).read_all()
    sink = pa.BufferOutputStream()
    table = core.select(range(7)).replace_schema_metadata(None)
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    directory = sink.getvalue().to_pybytes()
    manifest = manifest_of([BundleEntry(0, (SlotRef(0, 0, 0),), 0, 0)]).to_pybytes()
    place = len(stream), len(directory), len(stream) + len(directory), len(manifest)
    body = stream + directory + manifest
    return body + encode_tail(Footer(1, 1, *place), zlib.crc32(body))


def segment_seeds() -> dict[str, bytes]:
    golden = (GOLDEN / "segment" / fuzz_segment.PATH).read_bytes()
    repair = bytes([fuzz_segment.REPAIR])
    return {
        "golden": b"\0" + golden,
        "golden-repaired": repair + golden,
        "foreign": b"\0" + foreign_segment(),
        "foreign-repaired": repair + foreign_segment(),
    }


def ledger_seeds() -> dict[str, bytes]:
    golden = (GOLDEN / "ledger" / "ledger").read_bytes()
    repair = bytes([fuzz_ledger.REPAIR])
    newer = golden[:8] + b"\2" + golden[9:]
    return {
        "golden": b"\0" + golden,
        "golden-repaired": repair + golden,
        "damaged": b"\0" + golden[:70] + b"\xff" * 8 + golden[78:],
        "newer": repair + newer,
        "torn": b"\0" + golden[:-30],
        "foreign": b"\0" + fuzz_ledger.encode_header(bytes(16)) + golden[64:],
    }


def progress_seeds() -> dict[str, bytes]:
    golden = (GOLDEN / "progress" / "progress").read_bytes()
    repair = bytes([fuzz_progress.REPAIR])
    return {
        "golden": b"\0" + golden,
        "golden-repaired": repair + golden,
        "damaged": b"\0" + golden[:70] + b"\xff" * 8 + golden[78:],
        "newer": repair + golden[:8] + b"\2" + golden[9:],
        "torn": b"\0" + golden[:-30],
    }


def retention_seeds() -> dict[str, bytes]:
    golden = (GOLDEN / "retention" / "ages").read_bytes()
    repair = bytes([fuzz_retention.REPAIR])
    return {
        "golden": b"\0" + golden,
        "golden-repaired": repair + golden,
        "damaged": b"\0" + golden[:40] + b"\xff" * 8 + golden[48:],
        "future": repair + golden[:16] + b"\xff" * 7 + b"\x7f" + golden[24:],
        "newer": repair + golden[:8] + b"\2" + golden[9:],
        "torn": b"\0" + golden[:-3],
    }


def timeline_seeds() -> dict[str, bytes]:
    golden = (GOLDEN / "timeline" / "timeline").read_bytes()
    repair = bytes([fuzz_timeline.REPAIR])
    return {
        "golden": b"\0" + golden,
        "golden-repaired": repair + golden,
        "damaged": b"\0" + golden[:20] + b"\xff" * 4 + golden[24:],
        "newer": repair + golden[:8] + b"\2" + golden[9:],
        "torn": b"\0" + golden[:-3],
    }


def record_seeds() -> dict[str, bytes]:
    seeds = {}
    for name in ("record", "page", "amended"):
        golden = (GOLDEN / "record" / name).read_bytes()
        seeds[name] = b"\0" + golden
        seeds[f"{name}-repaired"] = bytes([fuzz_record.REPAIR]) + golden
    return seeds


def copies_seeds() -> dict[str, bytes]:
    seeds = {}
    for name in ("open", "cut", "settled", "floor", "generation", "mark"):
        golden = (GOLDEN / "copies" / name).read_bytes()
        seeds[name] = b"\0" + golden
        seeds[f"{name}-repaired"] = bytes([fuzz_copies.REPAIR]) + golden
    rows = b"".join(entry(seq) for seq in (0, 1, 5))
    return seeds | {"log": b"\0" + rows, "torn-log": b"\0" + rows[:-3]}


def wire_seeds() -> dict[str, bytes]:
    frames = (GOLDEN / "wire" / "frames").read_bytes()
    messages = (GOLDEN / "wire" / "messages").read_bytes()
    repair = bytes([fuzz_wire.REPAIR])
    seeds = {"error": b'\0quiver/1 FENCED 37 {"current":5,"epoch":3,"message":"x"}'}
    size = fuzz_wire.FRAME_BYTES
    for number, at in enumerate(range(0, len(frames), size)):
        seeds[f"frame-{number}"] = b"\0" + frames[at : at + size]
        seeds[f"frame-{number}-repaired"] = repair + frames[at : at + size]
    at = 0
    while at < len(messages):
        kind, length = struct.unpack_from("<HI", messages, at + 10)
        end = at + fuzz_wire.TOP_BYTES + length + 4
        seeds[f"message-{kind}"] = b"\0" + messages[at:end]
        seeds[f"message-{kind}-repaired"] = repair + messages[at:end]
        at = end
    return seeds


def upstream_seeds() -> dict[str, bytes]:
    folder = GOLDEN / "upstream"
    log = (folder / "wal" / "quiver.wal").read_bytes()
    cursor = (folder / "wal" / "quiver.wal.cursor").read_bytes()
    progress = (folder / "quiver.sub.spark").read_bytes()

    def seed(flags: int, log: bytes, cursor: bytes = cursor) -> bytes:
        return fuzz_upstream.INPUT.pack(flags, len(log), len(cursor)) + log + cursor + progress

    twice = log + log[fuzz_upstream.HEADER_BYTES :]
    return {
        "golden": seed(0, log),
        "golden-repaired": seed(fuzz_upstream.REPAIR, twice),
        "rotated": seed(fuzz_upstream.ROTATED, 2 * log),
        "no-cursor": seed(fuzz_upstream.NO_CURSOR, twice),
        "damaged": seed(0, twice[:60] + b"\xff" * 8 + twice[68:]),
        "torn": seed(0, log[:-30]),
    }


def shipper_seeds() -> dict[str, bytes]:
    golden = (GOLDEN / "shipper" / "payload").read_bytes()
    repair = bytes([fuzz_shipper.REPAIR])
    return {
        "golden": b"\0" + golden,
        "golden-repaired": repair + golden,
        "damaged": b"\0" + golden[:30] + b"\xff" * 8 + golden[38:],
        "newer": repair + b"\2" + golden[1:],
        "foreign": repair + golden[:1] + b"\2" + golden[2:],
        "torn": b"\0" + golden[:-3],
    }


def source_seeds() -> dict[str, bytes]:
    epochs = (GOLDEN / "source" / "epochs").read_bytes()
    register = (GOLDEN / "source" / "register").read_bytes()
    repair = bytes([fuzz_source.REPAIR])
    return {
        "epochs": b"\0" + epochs,
        "epochs-repaired": repair + epochs,
        "epochs-torn": b"\0" + epochs[:-3],
        "newer": repair + epochs.replace(b'"version":1', b'"version":2'),
        "register": b"\0" + register,
        "register-repaired": repair + register,
        "register-torn": b"\0" + register[:-3],
        "register-damaged": b"\0" + register[:120] + b"\xff" * 8 + register[128:],
    }


def batch_seeds() -> dict[str, bytes]:
    found = {file.stem: file.read_bytes() for file in sorted((GOLDEN / "batch").iterdir())}
    return {**found, "torn": found["zstd"][4:]}


def queue_seeds() -> dict[str, bytes]:
    repair, page = fuzz_queue.REPAIR, fuzz_queue.PAGE
    found = {}
    for file in sorted((GOLDEN / "queue").iterdir()):
        is_page = file.suffix == ".page"
        name = "page" if is_page else file.stem
        data = file.read_bytes()
        found[name] = bytes([page if is_page else 0]) + data
        if is_page or data[-2] == fuzz_queue.PAGED_VERSION:
            found[f"{name}-repaired"] = bytes([repair | (page if is_page else 0)]) + data
    return found


def persist_seeds() -> dict[str, bytes]:
    golden = (GOLDEN / "persist" / "manifest").read_bytes()
    line = golden.partition(b"\n")[0] + b"\n"
    repair = bytes([fuzz_persist.REPAIR])
    return {
        "golden": b"\0" + golden,
        "golden-repaired": repair + golden,
        "small": repair + line.replace(b"run", b"base").replace(b'"since":0', b'"since":4'),
        "newer": repair + line.replace(b'"version":1', b'"version":2'),
        "damaged": b"\0" + golden[:90] + b"\xff" * 8 + golden[98:],
        "torn": b"\0" + golden[:-3],
    }


def otap_seeds() -> dict[str, bytes]:
    folder = GOLDEN / "otap"
    signals = {str(signal): index for index, signal in enumerate(fuzz_otap.SIGNALS)}
    answer = (folder / "status").read_bytes()
    return {
        name: bytes([index]) + (folder / f"{name}.stream").read_bytes()
        for name, index in signals.items()
    } | {"status": b"\0" + struct.pack("<I", len(answer)) + answer}


def subscribing_seeds() -> dict[str, bytes]:
    kinds = ("snapshot", "join", "take", "ack", "nack", "reject")
    golden = {kind: (GOLDEN / "subscribing" / kind).read_bytes() for kind in kinds}
    return {
        **golden,
        "all": b"\n".join(golden.values()),
        "newer": golden["snapshot"].replace(b'"version":1', b'"version":2'),
        "torn": golden["snapshot"][:-30],
    }


SEEDS = {
    "wal": wal_seeds,
    "wire": wire_seeds,
    "acks": acks_seeds,
    "batch": batch_seeds,
    "copies": copies_seeds,
    "ipc": ipc_seeds,
    "ledger": ledger_seeds,
    "otap": otap_seeds,
    "persist": persist_seeds,
    "progress": progress_seeds,
    "queue": queue_seeds,
    "record": record_seeds,
    "retention": retention_seeds,
    "timeline": timeline_seeds,
    "segment": segment_seeds,
    "shipper": shipper_seeds,
    "source": source_seeds,
    "subscribing": subscribing_seeds,
    "upstream": upstream_seeds,
}


def main() -> None:
    for target, seeds in SEEDS.items():
        folder = CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in seeds().items():
            (folder / name).write_bytes(data)
            sys.stdout.write(f"{folder.relative_to(ROOT)}/{name}: {len(data)} bytes\n")


if __name__ == "__main__":
    main()
