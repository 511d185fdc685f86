"""The bytes of a collection's manifest: one line of JSON and its checksum. ``FORMAT.md`` has it.

::

    {"version":1,"collection":...}
    crc32c 01234567

Pure: bytes in, values out. Schemas stay the bytes that they are here.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from crc32c import crc32c

from quiver.errors import DamagedEntry, InputError, TornEntry, VersionError
from quiver.upsert.persist.soundness import fault_in

__all__ = [
    "MANIFEST_BYTES_MAX",
    "VERSION",
    "Dropped",
    "FileRef",
    "Kind",
    "Manifest",
    "Source",
    "decode_manifest",
    "encode_manifest",
]

VERSION: Final = 1
MANIFEST_BYTES_MAX: Final = 64 << 20

Kind: TypeAlias = Literal["base", "run"]

_SEAL: Final = b"crc32c "
_DIGITS: Final = 8
_OF_QUEUES: Final = (b"\1\0", b"\2\0")
"""How the manifest of a queue ends, with its version."""
_TAIL: Final = len(_SEAL) + _DIGITS + 1


class FileRef(NamedTuple):
    """A data file: the state of one bucket as of an epoch, or its differences of some epochs."""

    kind: Kind
    bucket: int
    name: str
    """Its key beside the manifest."""
    rows: int
    errors: int
    """How many of the rows are errors."""
    byte_count: int
    crc32c: int
    first: int
    """Epoch of its first difference; of a base the same as ``last``."""
    last: int


class Source(NamedTuple):
    """How far the collection has taken one of its sources."""

    query: str = ""
    """Who read it last, where that has a name."""
    batch: int = 0
    """The last batch of that query, as it counts."""
    splits: Mapping[str, int] = {}
    """For each split the first row, bundle or offset that is not in yet."""


class Dropped(NamedTuple):
    """A file that no snapshot from some epoch on needs; it is deleted after a grace."""

    name: str
    epoch: int
    """The upper when it was dropped."""
    wall_ms: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a collection consists of."""

    collection: str
    """Its id, 32 hexadecimal digits."""
    key: bytes
    """The schema of the key, an Arrow IPC stream with one batch of no rows."""
    value: bytes
    buckets: int
    writer: int = 0
    """Raised by each who opens it for writing."""
    change: int = 0
    """Raised by each change, so that no two manifests of a collection are alike."""
    upper: int = 1
    """The epoch that the next append gets; epoch 0 is the empty collection."""
    since: int = 0
    """The first epoch as of which it can be read."""
    times: tuple[int, ...] = (0,)
    """When each epoch from ``since`` on was appended, in milliseconds since 1970."""
    sources: Mapping[str, Source] = field(default_factory=dict)
    files: tuple[FileRef, ...] = ()
    """By bucket; of each the base first, then its runs by epoch."""
    dropped: tuple[Dropped, ...] = ()


def encode_manifest(manifest: Manifest) -> bytes:
    """Write a manifest; raises InputError for what makes no sense."""
    fault = fault_in(manifest)
    if fault:
        raise InputError(f"this is no manifest of a collection: {fault}")
    document = {
        "version": VERSION,
        "collection": manifest.collection,
        "key": _text(manifest.key),
        "value": _text(manifest.value),
        "buckets": manifest.buckets,
        "writer": manifest.writer,
        "change": manifest.change,
        "upper": manifest.upper,
        "since": manifest.since,
        "times": list(manifest.times),
        "sources": {
            name: {"query": source.query, "batch": source.batch, "splits": dict(source.splits)}
            for name, source in sorted(manifest.sources.items())
        },
        "files": [ref._asdict() for ref in manifest.files],
        "dropped": [dropped._asdict() for dropped in manifest.dropped],
    }
    line = json.dumps(document, separators=(",", ":"), allow_nan=False).encode() + b"\n"
    data = line + _seal(line)
    if len(data) > MANIFEST_BYTES_MAX:
        raise InputError(
            f"a manifest has {len(data):,} bytes, the most is {MANIFEST_BYTES_MAX:,}",
            hint="fold runs, keep less history, or use fewer buckets",
        )
    return data


def decode_manifest(data: bytes | memoryview) -> Manifest:
    """Read a manifest; raises TornEntry, DamagedEntry, or VersionError for a newer one."""
    if len(data) > MANIFEST_BYTES_MAX:
        raise DamagedEntry(
            "a manifest is too long", expected=f"at most {MANIFEST_BYTES_MAX:,}", found=len(data)
        )
    if len(data) < _TAIL:
        raise TornEntry("a manifest is too short", expected=_TAIL, found=len(data))
    line, seal = bytes(data[:-_TAIL]), bytes(data[-_TAIL:])
    expected = _seal(line)
    if bytes(data[:1]) != b"{" and seal.endswith(_OF_QUEUES):
        raise VersionError(
            "a manifest is none of a collection",
            hint="a queue has one too, which quiver queue looks into; a collection needs a place "
            "of its own",
        )
    if seal != expected:
        raise DamagedEntry(
            "the checksum of a manifest is wrong",
            offset=len(line),
            expected=expected[:-1].decode(),
            found=repr(seal)[2:-1],
        )
    try:
        document: object = json.loads(
            line, object_pairs_hook=_unrepeated, parse_constant=_refuse, parse_float=_refuse
        )
    except (ValueError, RecursionError) as error:
        raise DamagedEntry(f"a manifest is no JSON: {error!s:.200}") from None
    return _manifest(document)


def _seal(line: bytes) -> bytes:
    return b"%s%08x\n" % (_SEAL, crc32c(line))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _refuse(text: str) -> object:
    raise ValueError(f"{text:.20} has no place in it")


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice")
    return found


def _manifest(document: object) -> Manifest:
    if not isinstance(document, dict) or type(document.get("version")) is not int:
        raise DamagedEntry("a manifest has no version")
    version = document["version"]
    if version > VERSION:
        raise VersionError(
            f"a collection has format {version}, this Quiver reads {VERSION}",
            hint="install a newer Quiver",
        )
    if version < VERSION:
        raise DamagedEntry("a manifest has no such version", expected=VERSION, found=version)
    try:
        fields = _exactly(document, {"version", *Manifest.__slots__})
        del fields["version"]
        for name in ("key", "value"):
            fields[name] = base64.b64decode(_of(fields[name], str), validate=True)
        fields["times"] = tuple(_of(fields["times"], list))
        sources = _of(fields["sources"], dict)
        fields["sources"] = {name: _one(Source, each) for name, each in sources.items()}
        fields["files"] = tuple(_one(FileRef, each) for each in _of(fields["files"], list))
        fields["dropped"] = tuple(_one(Dropped, each) for each in _of(fields["dropped"], list))
        manifest = Manifest(**fields)
    except (ValueError, TypeError, binascii.Error) as error:
        raise DamagedEntry(f"a manifest is not what it should be: {error!s:.200}") from None
    fault = fault_in(manifest)
    if fault:
        raise DamagedEntry(f"a manifest makes no sense: {fault}")
    return manifest


def _of(value: object, kind: type) -> Any:  # noqa: ANN401
    if type(value) is not kind:
        raise TypeError(f"{value!r:.60} is no {kind.__name__}")
    return value


def _exactly(value: object, names: set[str]) -> dict[str, Any]:
    found: dict[str, Any] = _of(value, dict)
    if set(found) != names:
        odd = min(set(found) ^ names)
        raise ValueError(f"{odd!r:.60} is {'unknown' if odd in found else 'missing'}")
    return dict(found)


def _one(kind: Any, value: object) -> Any:  # noqa: ANN401
    return kind(**_exactly(value, set(kind._fields)))
