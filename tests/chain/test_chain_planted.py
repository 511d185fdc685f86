"""The world of ``chain_world`` finds what is planted; else what it does not find means nothing."""

from __future__ import annotations

import pytest
from chain_faults import FAULTS
from chain_oracle import contested_of, life_of, takeover_of, waited_of
from chain_world import World

from quiver.chain.copies.copy import BlockCopy
from quiver.chain.copies.entries import Extent
from quiver.chain.loading.driver import Driver
from quiver.chain.loading.outbox import Outbox
from quiver.chain.loading.tasks import Tasks
from quiver.chain.node import LocalNode, passage
from quiver.chain.node.passage import Passage
from quiver.chain.peers import Ack
from quiver.chain.rolling import CommitNow, CutNow
from quiver.chain.sealing import Answer
from quiver.errors import QuiverError

TRIES = 400


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
        self._copy.readers.show(extent)

    patch.setattr(Passage, "_step", step)


def ack_before_the_one_behind(patch):
    def step(self):
        frames = self._taken()
        if not frames:
            return
        try:
            extent = self._copy.sync()
            self._copy.readers.show(extent)
            self._tell_acked(Ack(extent.length, extent.last_seq))
            if self._behind is not None:
                for joined in passage._joined(frames):
                    self._behind.send(joined)
        except QuiverError as error:
            self.stop(error)

    patch.setattr(Passage, "_step", step)


def sure_of_what_others_have_not_synced(patch):
    """The last node takes its own sync for everybody's."""
    settle = Passage._settle

    def hasty(self):
        self._sure = passage._EVERYTHING if self._behind is None else self._sure
        settle(self)

    patch.setattr(Passage, "_settle", hasty)


def sure_before_its_own_sync(patch):
    pass_on = Passage._pass_on

    def hasty(self, frames):
        pass_on(self, frames)
        if self._behind is not None and frames[-1].has_heard:
            self._behind.assure(frames[-1].offset + len(frames[-1].body))

    patch.setattr(Passage, "_pass_on", hasty)


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
        if (end := self._state.sealed) is not None:
            return Extent(end.length, end.last_seq), True
        return self._log.synced, False

    patch.setattr(BlockCopy, "_visible", visible)
    patch.setattr(World, "tail_of", staticmethod(lambda record: record.open.locations[0]))


def resent_without_a_look(patch):
    def rewind(self, last_seq):
        self.acked_seq = max(self.acked_seq, last_seq)
        self._unsent.extendleft(reversed(self._sent))
        self.unsent_bytes += self.sent_bytes
        self.sent_bytes = 0
        self._sent.clear()

    patch.setattr(Outbox, "rewind", rewind)


def old_entries_acked(patch):
    """An ack of the stream before counts for this one."""
    hear = Driver.hear

    def wrong(self, turn, ack, **rest):
        return hear(self, turn, ack._replace(last_seq=ack.last_seq + 1), **rest)

    patch.setattr(Driver, "hear", wrong)


def head_is_asked_instead_of_the_tail(patch):
    listen = Tasks._listen_to_tail

    def acks(self, block, epoch, tell=None):
        copy = self._copies[block]
        if copy.state.epoch == epoch and not copy.is_cut and copy._log is not None:
            yield Ack(copy._log.synced.length, copy._log.synced.last_seq)

    def wrong(self, route, turn, **rest):
        listen(self, route if rest else route._replace(chain=route.chain[::-1]), turn, **rest)

    patch.setattr(LocalNode, "acks", acks)
    patch.setattr(Tasks, "_listen_to_tail", wrong)


PLANTED = {
    "no fence": (no_fence, takeover_of, "links"),
    "a promise that is not synced": (promise_not_synced, takeover_of, "power"),
    "forwarded before it is synced": (forward_before_sync, life_of, "power"),
    "the last one takes its own sync for everybody's": (
        sure_of_what_others_have_not_synced,
        waited_of,
        "power at an act",
    ),
    "a node's word before its own sync": (sure_before_its_own_sync, waited_of, "power at an act"),
    "acked before the one behind": (ack_before_the_one_behind, life_of, "kills"),
    "cut before the record says so": (cut_before_the_record, contested_of, "links"),
    "the tail is the first location": (tail_is_the_first, life_of, "kills"),
    "sent again without a look at numbers": (resent_without_a_look, life_of, "kills"),
    "an ack of one too many": (old_entries_acked, life_of, "kills"),
    "the head is asked and not the tail": (head_is_asked_instead_of_the_tail, life_of, "kills"),
}


@pytest.mark.slow
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
