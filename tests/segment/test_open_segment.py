from __future__ import annotations

import pytest

from quiver.config import SegmentConfig
from quiver.errors import InputError
from quiver.payload import EncodedBundle, Payload, StoredBundle
from quiver.segment import OpenSegment
from quiver.segment import open_segment as module

ONE, TWO = b"1" * 32, b"2" * 32


def bundle(*payloads: tuple[int, bytes], size: int = 10) -> EncodedBundle:
    made = tuple(Payload(slot, slot, fingerprint, 1, bytes(size)) for slot, fingerprint in payloads)
    return EncodedBundle(0, 0, made)


def config(**changes: int) -> SegmentConfig:
    return SegmentConfig(
        **{"target_size": 100, "max_open_duration": 50, "max_streams": 3} | changes
    )


def test_an_empty_segment_is_never_due_and_cannot_be_written():
    segment = OpenSegment(config())
    assert segment.due(10**18) is None
    with pytest.raises(InputError, match="of 0 bundles"):
        segment.encoded()


def test_the_first_bundle_alone_sets_the_time_from_which_age_counts():
    segment = OpenSegment(config())
    segment.add(bundle((0, ONE)), 1000)
    segment.add(bundle((0, ONE)), 1040)
    assert segment.opened_ns == 1000
    assert segment.due(1049) is None
    assert segment.due(1050) == "age"


def test_bytes_of_all_payloads_make_it_due_by_size():
    segment = OpenSegment(config())
    segment.add(bundle((0, ONE), (1, ONE), size=49), 0)
    assert (segment.payload_bytes, segment.due(0)) == (98, None)
    segment.add(bundle((0, ONE), size=2), 0)
    assert (segment.payload_bytes, segment.due(0)) == (100, "size")


def test_streams_are_pairs_of_slot_and_fingerprint():
    segment = OpenSegment(config())
    segment.add(bundle((0, ONE), (1, ONE)), 0)
    segment.add(bundle((0, ONE), (1, ONE)), 0)
    assert (segment.stream_count, segment.bundle_count, segment.due(0)) == (2, 2, None)
    segment.add(bundle((0, TWO)), 0)
    assert (segment.stream_count, segment.due(0)) == (3, "streams")
    assert segment.is_full
    assert not segment.is_at_limit


def test_it_is_due_before_the_payloads_could_need_more_streams_than_a_file_may_have(monkeypatch):
    monkeypatch.setattr(module, "_PAYLOADS_MAX", 2)
    segment = OpenSegment(config())
    segment.add(bundle((0, ONE)), 0)
    segment.add(bundle((0, ONE)), 0)
    assert segment.due(0) is None
    assert not segment.is_full
    segment.add(bundle((0, ONE)), 0)
    assert segment.due(0) == "streams"
    assert segment.is_full
    assert segment.is_at_limit


def test_age_alone_makes_nothing_full():
    segment = OpenSegment(config())
    segment.add(bundle((0, ONE)), 0)
    assert segment.due(50) == "age"
    assert not segment.is_full


def test_bundles_in_the_log_count_and_must_be_fetched_before_a_segment_is_written():
    segment = OpenSegment(config())
    first = bundle((0, ONE))
    segment.add(first, 5)
    assert segment.encoded() == [first]
    stored = StoredBundle(7, 1, 30, 200, 0)
    segment.add(bundle((0, ONE)), 6, stored=stored)
    assert segment.bundles == [first, stored]
    assert (segment.bundle_count, segment.stored_count) == (2, 1)
    assert segment.payload_bytes == 2 * first.payload_bytes
    with pytest.raises(InputError, match="1 that are in the log only"):
        segment.encoded()


@pytest.mark.parametrize(
    "payloads,message",
    [
        ([(0, ONE), (0, TWO)], "twice"),
        ([(64, ONE)], r"outside 0\.\.63"),
        ([(-1, ONE)], r"outside 0\.\.63"),
        ([(slot % 64, ONE) for slot in range(65)], "twice"),
        ([(slot, ONE) for slot in range(65)], r"outside 0\.\.63"),
        ([(0, b"short")], "5 bytes"),
    ],
)
def test_a_bundle_with_impossible_slots_is_refused_and_leaves_no_trace(payloads, message):
    segment = OpenSegment(config())
    with pytest.raises(InputError, match=message):
        segment.add(bundle(*payloads), 0)
    assert (segment.bundle_count, segment.stream_count, segment.opened_ns) == (0, 0, None)


def test_all_64_slots_fit_into_one_bundle():
    segment = OpenSegment(config(max_streams=65))
    segment.add(bundle(*((slot, ONE) for slot in range(64)), size=1), 0)
    assert segment.stream_count == 64
