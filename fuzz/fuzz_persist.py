"""Manifests of collections: any bytes are one, damage, or of a newer version; nothing else.

::

    flags u8 | manifest
"""

from __future__ import annotations

from crc32c import crc32c

from quiver.errors import DamageError, VersionError
from quiver.upsert.persist.format import decode_manifest, encode_manifest

REPAIR = 1


def one_input(data: bytes) -> None:
    if not data:
        return
    flags, manifest = data[0], data[1:]
    if flags & REPAIR:
        line = manifest.rpartition(b"crc32c ")[0] or manifest
        manifest = line + b"crc32c %08x\n" % crc32c(line)
    try:
        found = decode_manifest(manifest)
    except (DamageError, VersionError):
        return
    again = encode_manifest(found)
    try:
        assert decode_manifest(again) == found
    except (DamageError, VersionError) as error:
        raise AssertionError("what was written cannot be read") from error
