"""What a recovery writes came as fast as the log was read, however long the writing takes."""

from __future__ import annotations

from store_kit import abandon, bundle

from quiver.engine import rejoin


def test_the_time_in_which_one_segment_is_written_does_not_count_for_the_next(
    opener, clock, monkeypatch
):
    store = opener({"segment": {"max_open_duration": "100h"}})
    for number in range(4):
        store.append(bundle(number))
    abandon(store)
    filled = []
    real = rejoin.write_sealed

    def slowly(core):
        filled.append(None if core.sealed is None else core.sealed.filled_ns)
        clock.step("1h")
        real(core)

    monkeypatch.setattr(rejoin, "write_sealed", slowly)
    again = opener({"segment": {"target_size": 1}})
    assert again.recovery.replayed_bundles == 4
    assert filled == [None, 0, 0]
