"""What fails once is tried again, by the same run."""

from __future__ import annotations

import pytest
from shipper_kit import arrived

from quiver.errors import CapacityError
from quiver.ship.shipper import Shipment
from quiver.ship.shipper.cargo import Packer


@pytest.mark.parametrize("follow", [False, True])
def test_what_had_no_room_in_memory_once_is_shipped_at_the_next_try(
    rig, monkeypatch, follow
) -> None:
    pack, calls = Packer.pack, []

    def short(self, pending):
        calls.append(pending)
        if len(calls) == 1:
            raise CapacityError("out of memory")
        return pack(self, pending)

    def hear(told) -> None:
        rig.told.append(told)
        if isinstance(told, Shipment) or len(rig.told) > 5:
            shipper.stop()

    monkeypatch.setattr(Packer, "pack", short)
    with rig.open() as store:
        rig.fill(store, 2, 1)
        shipper = rig.shipper()
        shipper._watch = hear
        assert shipper.run(follow=follow).segment_count == 2
    assert arrived(rig.bucket) == list(range(3))
