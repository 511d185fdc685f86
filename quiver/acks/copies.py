"""The checkpoint twice in one file: whom it forgets nobody waits for, and data is deleted early.

::

    checkpoint | the same again

A log can be read without its damaged frame. A checkpoint cannot be read without any of its bytes,
so there is a second copy: a disk seldom loses two sectors that are this far apart.
"""

from __future__ import annotations

from quiver.acks.checkpoint import (
    CHECKPOINT_BYTES_MAX,
    CHECKPOINT_LAYOUT,
    Checkpoint,
    decode_checkpoint,
    encode_checkpoint,
)
from quiver.errors import DamagedEntry, DamageError

__all__ = ["CHECKPOINT_FILE_BYTES_MAX", "encode_copies", "read_copies"]

CHECKPOINT_FILE_BYTES_MAX = 2 * CHECKPOINT_BYTES_MAX


def encode_copies(checkpoint: Checkpoint) -> bytes:
    """Encode the whole file; raises InputError if a reader would refuse the result."""
    return 2 * encode_checkpoint(checkpoint)


def read_copies(data: bytes) -> tuple[Checkpoint | None, list[DamageError]]:
    """Read the first copy that is sound, if there is one, and say what is wrong with the file.

    Only VersionError is raised.
    """
    half = len(data) // 2
    damage: list[DamageError] = []
    for start, stop in ((0, half), (half, len(data)), (0, _length_of_first(data))):
        try:
            checkpoint = decode_checkpoint(data[start:stop])
        except DamageError as error:
            damage.append(error.at("", base=start))
            continue
        if data[:half] != data[half:]:
            damage = damage[:1] or [_difference(data, half)]
        return checkpoint, damage
    return None, damage[:1]


def _length_of_first(data: bytes) -> int:
    """How long the first copy is by its own account; for a file that was cut."""
    if len(data) < CHECKPOINT_LAYOUT.size:
        return 0
    length: int = CHECKPOINT_LAYOUT.unpack_from(data)[-1]
    return length


def _difference(data: bytes, half: int) -> DamageError:
    """Say where the second copy differs from the first, which is sound."""
    first, second = data[:half], data[half:]
    pairs = enumerate(zip(first, second, strict=False))
    place = next((at for at, (a, b) in pairs if a != b), half)
    return DamagedEntry("the second copy of the checkpoint differs", offset=half + place)
