"""What gzip made small, made large again: no further than a limit."""

from __future__ import annotations

import zlib
from typing import Final

from quiver.errors import InputError
from quiver.otel.receivers.refusal import TooLarge

__all__ = ["inflate"]

_GZIP: Final = 31
"""What tells zlib that there is a header of gzip, and a checksum at the end."""
_MEMBERS_MAX: Final = 1024


def inflate(data: bytes | bytearray, size_max: int) -> bytes:
    """Decompress all of it; raises TooLarge, or InputError if it is damaged or ends early."""
    parts: list[bytes] = []
    size = 0
    rest = memoryview(data)
    for _ in range(_MEMBERS_MAX):
        reader = zlib.decompressobj(wbits=_GZIP)
        try:
            part = reader.decompress(rest, size_max - size + 1)
        except zlib.error as error:
            raise InputError("the body is no gzip, or is damaged") from error
        size += len(part)
        if size > size_max:
            raise TooLarge(f"the body is larger than {size_max:,} bytes, decompressed")
        parts.append(part)
        if not reader.eof:
            raise InputError("the gzip of the body ends early")
        left = len(reader.unused_data)
        if not left:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        rest = rest[len(rest) - left :]
    raise InputError(f"the body has more than {_MEMBERS_MAX:,} members of gzip")
