"""Wrong lines in what subscribers give up, and in what they do in other processes."""

from __future__ import annotations

from typing import Final

from planting import Defect

__all__ = ["DEFECTS"]

FOLD: Final = "quiver.engine.fold"
LEASE: Final = "quiver.consumer.lease"

DEFECTS: Final[tuple[Defect, ...]] = (
    Defect(
        "a dead letter is written down before it is set aside",
        "quiver.engine.outlet",
        "        record = dead_letters.write(self._core, claim, outcome, opened=opened, "
        "reason=reason)\n        self.append([record])\n",
        "        from quiver.acks import DeadLetter\n"
        "        self.append([DeadLetter(claim.subscriber_id, *claim.run, 0)])\n"
        "        dead_letters.write(self._core, claim, outcome, opened=opened, reason=reason)\n",
    ),
    Defect(
        "what an inbox says is not synced before its lease ends",
        FOLD,
        "        sync_acks(core)  # Under a new lease the inbox counts no more",
        "        # Under a new lease the inbox counts no more",
        lost="write core_0/acks/ack.log ",
    ),
    Defect(
        "an inbox is folded in with one bundle more",
        FOLD,
        "Ack(number, *part, now, inbox.lease)",
        "Ack(number, *part[:2], part[2] + 1, now, inbox.lease)",
    ),
    Defect(
        "an inbox outlives its subscriber in a power cut",
        "quiver.acks.letterbox",
        "        remove_name(disk, path)\n        disk.sync_dir(folder)\n",
        "        remove_name(disk, path)\n",
    ),
    Defect(
        "an inbox stays when its subscriber starts over",
        "quiver.engine.going",
        "        remove_inbox(core.disk, folder, name)\n",
        "",
    ),
    Defect(
        "a commit of another process writes nothing",
        LEASE,
        "        check(follower)\n        _write(follower)\n",
        "        check(follower)\n",
    ),
    Defect(
        "who comes next in another process forgets what the last one did",
        LEASE,
        "        if before is not None and before.subscriber_id in",
        "        if before is not None and not before.lease and before.subscriber_id in",
    ),
)
