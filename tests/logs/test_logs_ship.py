"""What a consumer of a queue meets is told: what it passes over, and what it cannot sweep."""

from __future__ import annotations

from ends_kit import GRACE_MS, Rig

from quiver.errors import FencedError, RemoteError
from quiver.ship.sweeper import Sweeper, SweeperTask
from quiver.units import MILLISECOND, SECOND


def test_a_dead_letter_is_told_with_its_key(heard) -> None:
    rig = Rig()
    key = rig.append(b"r0", metadata=b"secret")
    rig.bucket.delete([key])
    assert rig.consumer(on_poison="skip").next_batch() is None
    ((level, name, fields),) = heard.records
    assert (level, name) == ("warning", "ship.dead_letter")
    assert fields["queue"] == "memory:ingest"
    assert fields["sequence"] == 0
    assert rig.bucket.get(fields["key"]).data
    assert key in fields["error"]
    assert "secret" not in str(fields)
    rig.close()


def test_a_sweeper_that_fails_is_told_once_until_it_works_again(heard) -> None:
    rig = Rig()
    epoch = rig.consumer().epoch
    sweeper = Sweeper(rig.queue(), grace_ns=GRACE_MS * MILLISECOND, clock=rig.clock, epoch=epoch)
    task = SweeperTask(sweeper, interval_ns=60 * SECOND, clock=rig.clock)

    def refuse(act: str, key: str) -> None:
        if act == "list":
            raise RemoteError("not now")

    def rounds(count: int) -> None:
        for _ in range(count):
            before = task.round_count
            for _ in range(2000):  # A step while a round is on its way is no interval.
                rig.clock.step("1m")
                task.look()
                if task.ended.wait(0.02) or task.round_count > before:
                    break
            assert task.round_count > before

    rig.bucket.before = refuse
    rounds(3)
    rig.consumer()  # Being fenced is no failure: whoever came after sweeps.
    rounds(1)
    assert task.ended.wait(60)
    assert heard.names == ["ship.sweep_failed"]
    assert heard.of("ship.sweep_failed") == [{"queue": "memory:ingest", "error": "not now"}]
    assert isinstance(task.failure, FencedError)
    rig.close()
