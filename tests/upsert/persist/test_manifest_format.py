"""The bytes of the manifest: what FORMAT.md says, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from persist_kit import Rig, as_dict, error, hashes_of, keys_of

from quiver.errors import DamageError, InputError, TornEntry, VersionError
from quiver.ship.objects import FolderBucket
from quiver.upsert.persist import (
    Collection,
    Dropped,
    FileRef,
    Manifest,
    Source,
    WholeState,
    changes,
    rows_as_of,
)
from quiver.upsert.persist import format as manifest_format
from quiver.upsert.persist.format import decode_manifest, encode_manifest

GOLDEN = Path(__file__).parents[2] / "golden" / "v1" / "persist"
ID = "00112233445566778899aabbccddeeff"
U64 = (1 << 64) - 1


def name(number: int, kind: str = "run") -> str:
    return f"{kind}s/01ARZ3NDEKTSV4RRFFQ69G{number:04}.arrow"


BASE = FileRef("base", 1, name(1, "base"), 5, 1, 100, 7, 2, 2)
RUN = FileRef("run", 1, name(2), 3, 0, 90, 9, 1, 3)
LATER = FileRef("run", 1, name(3), 3, 0, 90, 9, 4, 4)
WHOLE = Manifest(
    ID,
    b"key",
    b"value",
    3,
    writer=2,
    change=9,
    upper=5,
    since=1,
    times=(10, -3, 0, 1 << 60),
    sources={"s": Source("q", -1, {"a": 0, "": U64})},
    files=(FileRef("run", 0, name(4), 1, 1, 1, (1 << 32) - 1, 4, 4), BASE, RUN, LATER),
    dropped=(Dropped(name(5), 4, -1),),
)


def sealed(line: bytes) -> bytes:
    return line + b"crc32c %08x\n" % crc32c(line)


def changed(**fields: object) -> bytes:
    """Write the manifest with some of its JSON replaced; ``...`` leaves a field out."""
    document = json.loads(encode_manifest(WHOLE).partition(b"\n")[0]) | fields
    kept = {key: value for key, value in document.items() if value is not ...}
    return sealed(json.dumps(kept).encode() + b"\n")


def test_what_is_written_is_read_and_the_same_bytes_each_time() -> None:
    data = encode_manifest(WHOLE)
    assert decode_manifest(data) == WHOLE
    assert decode_manifest(memoryview(data)) == WHOLE
    assert encode_manifest(decode_manifest(data)) == data
    assert data.count(b"\n") == 2
    assert data.endswith(b"\ncrc32c %08x\n" % crc32c(data[: -len("crc32c 01234567\n")]))


def test_the_golden_manifest_says_what_it_says() -> None:
    data = (GOLDEN / "manifest").read_bytes()
    manifest = decode_manifest(data)
    assert encode_manifest(manifest) == data
    assert (manifest.buckets, manifest.writer, manifest.change) == (2, 1, 7)
    assert (manifest.since, manifest.upper) == (0, 5)
    assert manifest.sources == {"store": Source("query", 3, {"core_0": 17, "core_1": U64})}
    kinds = [(ref.kind, ref.bucket, ref.first, ref.last) for ref in manifest.files]
    assert kinds == [
        ("base", 0, 2, 2),
        ("run", 0, 1, 1),
        ("run", 0, 2, 2),
        ("run", 0, 4, 4),
        ("run", 1, 1, 1),
    ]
    assert [dropped.epoch for dropped in manifest.dropped] == [3]


def golden_key(number: int) -> tuple[object, ...]:
    moment = None if number % 3 else datetime.fromtimestamp(number, UTC)
    return number, moment, ("a",) * (number % 4)


def test_the_golden_collection_is_read_as_of_each_of_its_epochs() -> None:
    store = FolderBucket(str(GOLDEN))
    snapshot = Collection.open(store).snapshot()
    first = {golden_key(n): {"text": f"first {n}", "n": n, "more": None} for n in range(8)}
    second = dict(first)
    del second[golden_key(2)]
    second[golden_key(3)] = {"text": None, "n": -1, "more": None}
    second[golden_key(9)] = error("bad")
    fourth = second | {golden_key(1): {"text": "fourth", "n": 1 << 40, "more": 0.5}}
    del fourth[golden_key(9)]
    for epoch, wanted in enumerate([{}, first, second, second, fourth]):
        found = {}
        for bucket in range(2):
            found |= as_dict(rows_as_of(store, snapshot, bucket, epoch=epoch))
        assert found == wanted, epoch
    keys = keys_of(snapshot.definition, list(first))
    looked = WholeState(store, snapshot).lookup(hashes_of(keys), keys)
    assert list(looked.index >= 0) == [key in fourth for key in first]
    count = sum(batch.num_rows for b in range(2) for batch in changes(store, snapshot, b, after=0))
    assert count == sum(ref.rows for ref in snapshot.files if ref.kind == "run")


def test_no_two_manifests_of_a_collection_are_alike(tmp_path) -> None:
    """Else a put that was long on its way would find its tag again, where tags are of bytes."""
    rig = Rig(FolderBucket(str(tmp_path)))
    seen = {rig.store.get("manifest").tag}
    rig.apply({})
    for files in ((), (RUN._replace(last=1),), (), (RUN._replace(last=1),)):
        rig.writer.change(lambda now, files=files: replace(now.manifest, files=files))
        tag = rig.store.get("manifest").tag
        assert tag not in seen
        seen.add(tag)


def test_each_byte_of_the_golden_manifest_counts() -> None:
    data = (GOLDEN / "manifest").read_bytes()
    for place in range(len(data)):
        wrong = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(DamageError):
            decode_manifest(wrong)
    for length in (0, 15, 16, len(data) - 1):
        with pytest.raises(DamageError):
            decode_manifest(data[:length])
    with pytest.raises(TornEntry):
        decode_manifest(b"")


def file(**fields: object) -> list[object]:
    return [RUN._asdict() | fields]


MISTAKES = [
    {"collection": ID[1:]},
    {"collection": 5},
    {"key": 5},
    {"key": "*"},
    {"key": "é"},
    {"value": None},
    {"buckets": 0},
    {"buckets": 1 << 17},
    {"buckets": True},
    {"writer": -1},
    {"change": 1 << 64},
    {"writer": "1"},
    {"upper": 1 << 64},
    {"since": 5},
    {"since": -1},
    {"since": 0},
    {"times": []},
    {"times": {}},
    {"times": [1, 2, 3, "4"]},
    {"times": [1, 2, 3, 1 << 64]},
    {"unknown": 1},
    {"dropped": ...},
    {"sources": []},
    {"sources": {"": Source()._asdict()}},
    {"sources": {"x" * 2000: Source()._asdict()}},
    {"sources": {"s": {}}},
    {"sources": {"s": {"query": 1, "batch": 0, "splits": {}}}},
    {"sources": {"s": {"query": "", "batch": None, "splits": {}}}},
    {"sources": {"s": {"query": "", "batch": 0, "splits": []}}},
    {"sources": {"s": {"query": "", "batch": 0, "splits": {"a": -1}}}},
    {"sources": {"s": {"query": "", "batch": 0, "splits": {"a": 1 << 64}}}},
    {"files": {}},
    {"files": [5]},
    {"files": file(more=1)},
    {"files": file(kind="walk")},
    {"files": file(kind=["run"])},
    {"files": file(kind="base")},
    {"files": file(name="runs/../../etc/passwd")},
    {"files": file(name="/runs/01ARZ3NDEKTSV4RRFFQ69G0002.arrow")},
    {"files": file(name=name(2) + "\n")},
    {"files": file(name=None)},
    {"files": file(bucket=3)},
    {"files": file(bucket=-1)},
    {"files": file(rows=0)},
    {"files": file(rows=1.5)},
    {"files": file(errors=4)},
    {"files": file(byte_count=0)},
    {"files": file(crc32c=1 << 32)},
    {"files": file(first=0)},
    {"files": file(first=4)},
    {"files": file(last=5)},
    {"files": file() + file()},
    {"files": file() + file(name=name(7))},
    {"files": file() + file(name=name(7), first=3)},
    {"files": file(first=4, last=4) + file(name=name(7))},
    {"files": file() + file(bucket=0, name=name(7))},
    {"files": [*file(), BASE._asdict()]},
    {"files": [BASE._asdict(), BASE._asdict() | {"name": name(8, "base")}]},
    {"files": [BASE._asdict() | {"first": 1}]},
    {"dropped": [{"name": name(5), "epoch": 9, "wall_ms": 0}]},
    {"dropped": [{"name": name(5), "epoch": 1, "wall_ms": 1 << 63}]},
    {"dropped": [{"name": "x", "epoch": 1, "wall_ms": 0}]},
    {"dropped": [{"name": 5, "epoch": 1, "wall_ms": 0}]},
    {"dropped": [{"name": RUN.name, "epoch": 1, "wall_ms": 0}]},
    {"dropped": [Dropped(name(5), 1, 0)._asdict()] * 2},
    {"version": 0},
    {"version": "1"},
    {"version": True},
    {"version": ...},
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_what_makes_no_sense_is_damage_though_its_checksum_is_right(number) -> None:
    with pytest.raises(DamageError):
        decode_manifest(changed(**MISTAKES[number]))


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"{\n",
        b"[]\n",
        b"null\n",
        b"\xff\n",
        b'{"version":1,"version":1}\n',
        b'{"version":NaN}\n',
        b'{"version":1.0}\n',
        b"[" * 100_000 + b"\n",
        b'{"version":' + b"9" * 5000 + b"}\n",
    ],
    ids=lambda line: f"{line!r:.20}",
)
def test_what_is_no_json_of_ours_is_damage(line) -> None:
    with pytest.raises(DamageError):
        decode_manifest(sealed(line))


def test_a_newer_format_is_refused_by_its_version() -> None:
    with pytest.raises(VersionError, match="format 2"):
        decode_manifest(changed(version=2, anything=[]))


def test_what_makes_no_sense_is_not_written() -> None:
    for wrong in (
        replace(WHOLE, buckets=0),
        replace(WHOLE, files=(RUN, BASE)),
        replace(WHOLE, times=()),
        replace(WHOLE, sources={"s": Source(splits={"a": -1})}),
    ):
        with pytest.raises(InputError):
            encode_manifest(wrong)


def test_a_manifest_that_is_too_long_is_neither_written_nor_read(monkeypatch) -> None:
    data = encode_manifest(WHOLE)
    monkeypatch.setattr(manifest_format, "MANIFEST_BYTES_MAX", len(data) - 1)
    with pytest.raises(InputError, match="fold"):
        encode_manifest(WHOLE)
    with pytest.raises(DamageError, match="too long"):
        decode_manifest(data)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_a_manifest_or_damage(data, repair) -> None:
    with pytest.raises((DamageError, VersionError)):
        decode_manifest(sealed(data) if repair else data)
