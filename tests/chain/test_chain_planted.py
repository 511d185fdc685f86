"""The world of ``chain_world`` finds what is planted; else what it does not find means nothing."""

from __future__ import annotations

import pytest
from chain_faults import FAULTS
from chain_oracle import contested_of, life_of, takeover_of
from chain_world import World

from quiver.chain.copies.copy import BlockCopy
from quiver.chain.loading.driver import Driver
from quiver.chain.loading.outbox import Outbox
from quiver.chain.node import passage
from quiver.chain.node.passage import Passage
from quiver.chain.peers import Ack
from quiver.chain.rolling import CommitNow, CutNow
from quiver.chain.sealing import Answer
from quiver.errors import QuiverError

TRIES = 150


def no_fence(patch):
    def fence(self, epoch):
        del epoch
        self._log.note()
        return Answer(self._rules.node, *self._log.extent)

    patch.setattr(BlockCopy, "fence", fence)
    patch.setattr("quiver.chain.node.node.LocalNode._stop", lambda *_: None)


def promise_not_synced(patch):
    def hasty(disk, path, data):
        if disk.stat(path + ".tmp"):
            disk.unlink(path + ".tmp")
        file = disk.create(path + ".tmp")
        file.write(0, data)
        file.close()
        disk.rename(path + ".tmp", path)

    patch.setattr("quiver.chain.copies.copy.put", hasty)


def forward_before_sync(patch):
    def step(self):
        frames = self._taken()
        if not frames:
            return
        try:
            extent = self._copy._log.extent
            if self._behind is not None:
                for frame in frames:
                    self._behind.send(frame)
            else:
                self._tell_acked(Ack(extent.length, extent.last_seq))
        except QuiverError as error:
            self.stop(error)
            return
        self._copy._log.synced = extent  # It will be, sometime.

    patch.setattr(Passage, "_step", step)


def ack_before_the_one_behind(patch):
    def step(self):
        frames = self._taken()
        if not frames:
            return
        try:
            extent = self._copy.sync()
            self._tell_acked(Ack(extent.length, extent.last_seq))
            if self._behind is not None:
                for joined in passage._joined(frames):
                    self._behind.send(joined)
        except QuiverError as error:
            self.stop(error)

    patch.setattr(Passage, "_step", step)


def cut_before_the_record(patch):
    carry_out = Driver._carry_out

    def hasty(self, stepped):
        roll, acts = stepped
        for act in acts:
            if isinstance(act, CommitNow) and act.sealed is not None:
                self.tasks.cut(CutNow(roll.record.open.number, act.sealed))
        carry_out(self, stepped)

    patch.setattr(Driver, "_carry_out", hasty)


def tail_is_the_first(patch):
    def visible(self):
        if self._state.sealed is not None:
            return self._state.sealed.length, True
        return self._log.synced.length, False

    patch.setattr(BlockCopy, "_visible", visible)
    patch.setattr(World, "tail_of", staticmethod(lambda record: record.open.locations[0]))


def resent_without_a_look(patch):
    def rewind(self, last_seq):
        self.acked_seq = max(self.acked_seq, last_seq)
        self._unsent.extendleft(reversed(self._sent))
        self.unsent_bytes += sum(len(waiting.body) for waiting in self._sent)
        self._sent.clear()

    patch.setattr(Outbox, "rewind", rewind)


def old_entries_acked(patch):
    """An ack of the stream before counts for this one."""
    take = Driver._take

    def wrong(self, happening):
        if hasattr(happening, "ack"):
            self._let_go(happening.ack.last_seq + 1)
        else:
            take(self, happening)

    patch.setattr(Driver, "_take", wrong)


PLANTED = {
    "no fence": (no_fence, takeover_of, "links"),
    "a promise that is not synced": (promise_not_synced, takeover_of, "power"),
    "forwarded before it is synced": (forward_before_sync, life_of, "power"),
    "acked before the one behind": (ack_before_the_one_behind, life_of, "kills"),
    "cut before the record says so": (cut_before_the_record, contested_of, "links"),
    "the tail is the first location": (tail_is_the_first, life_of, "kills"),
    "sent again without a look at numbers": (resent_without_a_look, life_of, "kills"),
    "an ack of one too many": (old_entries_acked, life_of, "kills"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found(monkeypatch, name):
    plant, live, faults = PLANTED[name]
    plant(monkeypatch)
    for seed in range(TRIES):
        try:
            live(World(seed), FAULTS[faults])
        except (AssertionError, QuiverError):
            return
    pytest.fail(f"{name} is not found in {TRIES} lives")
