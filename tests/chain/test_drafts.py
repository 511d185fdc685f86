"""Entries that get their number last: the bytes that a log has, and nothing of the caller's."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from quiver.chain.loading import drafts
from quiver.chain.loading.drafts import Drafts
from quiver.config import Config
from quiver.engine.encoding import Encoder
from quiver.errors import CapacityError, InputError
from quiver.payload import EncodedBundle
from quiver.slots import SlotTable
from quiver.wal.format import encode_bundle

SLOTS = SlotTable.of(["a", "b", "c"])
LARGE = 200_000
RANDOM = np.random.default_rng(5)


def numbers(count=LARGE):
    return pa.record_batch({"n": RANDOM.integers(0, 1 << 62, count)})


def words(count=LARGE):
    column = pa.array([f"word {n}" for n in range(count)]).dictionary_encode()
    return pa.record_batch({"w": column, "t": pa.array([None, "é"] * (count // 2))})


def wanted(bundle, config=None, *, wal_seq=7, time_ns=9):
    payloads = Encoder(SLOTS, config or Config()).encode(bundle)
    return encode_bundle(EncodedBundle(wal_seq, time_ns, payloads))


def is_in_place(draft):
    return draft.memory is not None


BUNDLES = {
    "small": lambda: {"a": numbers(5)},
    "large": lambda: {"b": numbers()},
    "several": lambda: {"a": numbers(3), "b": numbers(), "c": words(10)},
    "out of order": lambda: {"c": numbers(), "a": numbers()},
    "a slice": lambda: {"a": numbers(3 * LARGE).slice(LARGE + 3, LARGE)},
    "no rows": lambda: {"a": numbers(0), "b": numbers()},
    "no columns": lambda: {"a": pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])))},
}


@pytest.mark.parametrize("make", BUNDLES.values(), ids=BUNDLES)
def test_an_entry_is_what_a_log_would_have(make):
    ours = Drafts(SLOTS, Config())
    for _ in range(3):
        bundle = make()
        draft = ours.draft(bundle)
        size = sum(batch.nbytes for batch in bundle.values())
        assert is_in_place(draft) == (size > 600_000)
        assert draft.entry(7, 9).to_pybytes() == wanted(bundle)


def test_dictionaries_that_found_no_room_find_it_the_next_time():
    ours = Drafts(SLOTS, Config())
    bundle = {"a": words()}
    found = [ours.draft(bundle) for _ in range(3)]
    assert [is_in_place(draft) for draft in found] == [False, True, True]
    assert {draft.entry(7, 9).to_pybytes() for draft in found} == {wanted(bundle)}


def test_one_large_dictionary_does_not_make_all_that_comes_keep_as_much():
    ours = Drafts(SLOTS, Config())
    large = {"a": words(10 * LARGE)}
    ours.draft(large)
    before, entries = pa.total_allocated_bytes(), []
    for number in range(8):
        draft = ours.draft({"b": numbers()})
        assert is_in_place(draft) == (number > 0)
        entries.append(draft.entry(7, 9))
        del draft
    kept = pa.total_allocated_bytes() - before
    assert kept < 1.2 * sum(len(entry) for entry in entries)


@pytest.mark.parametrize("around", [*range(0, 700, 50), *range(700, 740), *range(750, 1200, 50)])
def test_however_little_room_there_is_nothing_is_cut_off(monkeypatch, around):
    monkeypatch.setattr(drafts, "_AROUND_BYTES", around)
    bundle = {"a": numbers(), "b": numbers(3)}
    draft = Drafts(SLOTS, Config()).draft(bundle)
    assert draft.entry(7, 9).to_pybytes() == wanted(bundle)


def test_what_is_sent_is_arrows_own_and_nothing_of_the_callers():
    before = pa.total_allocated_bytes()
    values = RANDOM.integers(0, 1 << 62, LARGE)
    bundle = {"a": pa.record_batch({"n": values})}
    entry = Drafts(SLOTS, Config()).draft(bundle).entry(7, 9)
    was = entry.to_pybytes()
    values[:] = 0
    assert entry.to_pybytes() == was
    assert pa.total_allocated_bytes() - before >= len(was)


@pytest.mark.parametrize("count", [5_000, LARGE])
def test_what_is_larger_than_an_entry_may_be_is_refused(count):
    config = Config.of({"limits": {"entry_bytes": 1 << 15}})
    with pytest.raises(InputError, match="the limit is 32,768"):
        Drafts(SLOTS, config).draft({"a": numbers(count)})


def test_without_memory_it_says_so(monkeypatch):
    def refuse(_):
        raise pa.ArrowMemoryError("none is left")

    monkeypatch.setattr(pa, "allocate_buffer", refuse)
    with pytest.raises(CapacityError, match="not enough memory"):
        Drafts(SLOTS, Config()).draft({"a": numbers()})
