"""Keys that are made to have one hash, as many as wanted, by undoing what HASHING.md does."""

from __future__ import annotations

import struct

MASK = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
SUM = 0x0123456789ABCDEF


def mix(word: int) -> int:
    word ^= word >> 32
    word = word * FIRST & MASK
    word ^= word >> 29
    word = word * SECOND & MASK
    return word ^ word >> 32


def unmix(word: int) -> int:
    word ^= word >> 32
    word = word * pow(SECOND, -1, 1 << 64) & MASK
    word ^= word >> 29 ^ word >> 58
    word = word * pow(FIRST, -1, 1 << 64) & MASK
    return word ^ word >> 32


def colliding(count: int) -> list[bytes]:
    """Give different keys for one column of binary, of 19 bytes each, that share one hash."""
    head = b"abc"
    found = []
    for number in range(count):
        middle = struct.pack("<Q", number * 7919)
        (word,) = struct.unpack("<Q", middle)
        last = (unmix((SUM - mix((word + 2 * STEP) & MASK)) & MASK) - 3 * STEP) & MASK
        found.append(head + middle + struct.pack("<Q", last))
    return found
