"""What of a log is behind a position."""

from __future__ import annotations

import pytest
from copies_kit import BLOCK, SLOTS, entry

from quiver.chain.reading import ChainPosition
from quiver.chain.reading.decoding import messages_in_log


@pytest.mark.parametrize(
    ("above", "given"),
    [
        (ChainPosition(-1, -1), [4, 5, 6]),
        (ChainPosition(50, 4), [5, 6]),
        (ChainPosition(50, 5), [6]),
        (ChainPosition(60, 6), []),
        # Up to 9 was read of a block that was abandoned, before the time of these.
        (ChainPosition(45, 9), [4, 5, 6]),
    ],
    ids=["all", "same time", "last of a time", "none", "numbers come again"],
)
def test_time_and_number_say_what_is_behind(above, given):
    log = memoryview(entry(4, 50) + entry(5, 50) + entry(6, 60))
    found = messages_in_log(log, BLOCK, SLOTS, above=above, offset=0)
    assert [message.wal_seq for message in found] == given
