"""Files of the user's own, which are in no store: read once, as a whole, and never written."""

from __future__ import annotations

import os

from quiver.errors import InputError, StorageError

__all__ = ["foreign_path", "read_foreign"]


def foreign_path(path: str | os.PathLike[str]) -> str:
    """Check what a caller names as a file; raises InputError."""
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise InputError(f"{path!r} is not the path of a file", hint="a str or a pathlib.Path")
    return text


def read_foreign(path: str, *, bytes_max: int) -> bytes:
    """Read a file, or its beginning: one byte more than ``bytes_max`` says that it is longer.

    Links are followed, and a pipe is read to its end. Raises StorageError.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            data = bytearray()
            while len(data) <= bytes_max:
                piece = file.read(bytes_max + 1 - len(data))
                if not piece:
                    return bytes(data)
                data += piece
    except OSError as error:
        text = f"cannot read {path}: {error.strerror or error}"
        raise StorageError(text, path=path, errno=error.errno or 0) from error
    return bytes(data)
