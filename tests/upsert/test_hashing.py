"""Hashes of keys, and their order, by ways that are sooner: what comes out is what it ever was."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from quiver.upsert.rows import key_hashes
from quiver.upsert.rows.hashing import places_by_hash, rest_of

_MASK = (1 << 64) - 1


def mixed(word: int) -> int:
    """Spread bits as HASHING.md has it, in numbers of any length."""
    for shift, factor in ((32, 0xBF58476D1CE4E5B9), (29, 0x94D049BB133111EB)):
        word = (word ^ word >> shift) * factor & _MASK
    return word ^ word >> 32


def by_hand(row: bytes) -> int:
    step = 0x9E3779B97F4A7C15
    words = [row[at : at + 8] for at in range(0, max(len(row), 1), 8)]
    total = len(row) * step
    for place, word in enumerate(words, 1):
        total += mixed(int.from_bytes(word, "little") + place * step & _MASK)
    return mixed(total & _MASK)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 16, 23])
def test_rows_of_one_length_are_hashed_as_others_are(length) -> None:
    rows = [bytes((n * 37 + at) % 256 for at in range(length)) for n in range(50)]
    wanted = [by_hand(row) for row in rows]
    assert key_hashes(pa.array(rows, pa.large_binary())).tolist() == wanted
    sliced = pa.array([b"before", *rows, b"behind"], pa.large_binary()).slice(1, 50)
    assert key_hashes(sliced).tolist() == wanted
    several = key_hashes(pa.array([*rows, b"of another length"], pa.large_binary()))
    assert several.tolist()[:-1] == wanted


@pytest.mark.parametrize("bits", [2, 20, 40, 64])
@pytest.mark.parametrize("shift", [0, 30, 44])
def test_places_by_hash_are_those_of_a_stable_sort(bits, shift) -> None:
    rng = np.random.default_rng(bits)
    found = rng.integers(0, _MASK >> (64 - bits), 5000, np.uint64, endpoint=True)
    hashes = found << np.uint64(min(shift, 64 - bits))
    for some in (hashes, np.sort(hashes), hashes[::-1], hashes[:1], hashes[:0]):
        assert places_by_hash(some).tolist() == np.argsort(some, kind="stable").tolist()


@pytest.mark.parametrize("buckets", [1, 2, 3, 7, 64, 1000])
def test_the_bucket_is_the_rest_of_a_division(buckets) -> None:
    hashes = np.random.default_rng(1).integers(0, _MASK, 1000, np.uint64)
    assert rest_of(hashes, buckets).tolist() == (hashes % np.uint64(buckets)).tolist()
