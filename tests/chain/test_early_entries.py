"""Entries that a node passes on before it has synced them, and its word that follows them.

They are those whose loader had heard of all before; nodes sync them side by side.
"""

from __future__ import annotations

import threading

import pytest
from copies_kit import BLOCK, ROUTE, frame
from memory_peer import MemoryPeer, MemoryStream

from quiver.chain.node.passage import Passage
from quiver.errors import InputError, RemoteError

PATIENCE = 60.0


class Sends:
    """What a passage needs of its worker: the step is done by whoever sends."""

    def start(self, _, step):
        self.hurry = self.wake = step
        return self

    def end(self):
        """There is none."""


@pytest.fixture
def passed(shelf, monkeypatch):
    """A node whose worker is whoever sends: what it showed, and whether that was told at once."""
    return Passed(shelf, monkeypatch)


class Passed:
    def __init__(self, shelf, monkeypatch):
        self.copy, self.shown, self.acks, self.faults = shelf[BLOCK], [], [], []
        self.worker = Sends()
        self.length = 0
        show = self.copy.readers.show

        def noted(extent, *, at_once):
            self.shown.append((extent.last_seq, at_once))
            show(extent, at_once=at_once)

        monkeypatch.setattr(self.copy.readers, "show", noted)

    def begin(self, *, sender="", behind=None):
        self.passage = Passage(
            self.copy,
            ROUTE._replace(sender=sender),
            workers=self.worker,
            acked=lambda ack: self.acks.append(ack.last_seq),
            broken=self.faults.append,
        )
        if behind is not None:
            route = ROUTE._replace(chain=(behind.name,))
            behind.prepare(route, "")
            self.passage.pass_to(
                behind.stream(route, acked=self.passage.acked, broken=lambda _: None)
            )
        return self

    def send(self, *seqs, has_heard=False):
        entries = frame(self.length, *seqs)._replace(has_heard=has_heard)
        self.passage.send(entries)
        self.length += len(entries.body)
        return self.length


@pytest.mark.parametrize("is_asked_for", [True, False])
def test_the_last_node_tells_at_once_what_is_asked_for(passed, is_asked_for):
    passed.begin().send(0, has_heard=is_asked_for)
    assert (passed.shown, passed.acks) == ([(0, is_asked_for)], [0])


def test_another_node_shows_nothing_and_gives_its_word(passed):
    behind = MemoryPeer("c")
    passed.begin(behind=behind)
    end = passed.send(0, has_heard=True)
    passed.send(1)  # It went behind its sync, so that its word is in it.
    assert (passed.shown, behind.assured) == ([], [end])


def test_what_is_heard_goes_on_before_it_is_synced_and_the_word_behind_it(passed, monkeypatch):
    behind, done = MemoryPeer("c"), []
    sync = passed.copy.sync

    def noted():
        done.append(len(behind.sizes))
        return sync()

    monkeypatch.setattr(passed.copy, "sync", noted)
    passed.begin(behind=behind)
    for number, has_heard in enumerate([True, False, True]):
        passed.send(number, has_heard=has_heard)
    assert done == [1, 1, 3]
    assert len(behind.assured) == 2


def test_a_node_gives_no_word_before_all_before_it_gave_theirs(passed):
    behind = MemoryPeer("c")
    passed.begin(sender="a", behind=behind)
    end = passed.send(0, has_heard=True)
    assert (behind.sizes, behind.assured) == ([end], [])
    passed.passage.assure(end - 1)
    assert behind.assured == []
    passed.passage.assure(end)
    passed.passage.assure(end)
    assert behind.assured == [end]


def test_r25_the_last_node_shows_and_acks_nothing_before_all_before_it_gave_their_word(passed):
    passed.begin(sender="b")
    end = passed.send(0, has_heard=True)
    assert (passed.shown, passed.acks) == ([], [])
    passed.passage.assure(end)
    assert (passed.shown, passed.acks) == ([(0, True)], [0])


def test_a_word_that_comes_before_its_entry_counts_once_that_is_synced(passed):
    passed.begin(sender="b")
    passed.passage.assure(1 << 40)
    assert passed.acks == []
    passed.send(0, has_heard=True)
    assert passed.acks == [0]


def test_entries_without_a_word_are_the_word_for_all_before_them(passed):
    passed.begin(sender="b")
    passed.send(0, has_heard=True)
    passed.send(1, 2)
    assert (passed.shown, passed.acks) == ([(2, False)], [2])


def test_who_says_that_he_heard_of_what_nobody_told_is_refused(passed):
    passed.begin(sender="b")
    passed.send(0, has_heard=True)
    with pytest.raises(InputError, match="behind an ack of all before it"):
        passed.send(1, has_heard=True)
    assert len(passed.faults) == 1
    assert passed.copy.holding.length == passed.length


def test_two_in_one_frame_are_not_sent_one_behind_the_other(passed):
    with pytest.raises(InputError, match="others in its frame"):
        passed.begin().send(0, 1, has_heard=True)
    assert passed.copy.holding.length == 0


def test_several_frames_that_one_sync_is_for_go_behind_it_and_each_by_itself(passed):
    behind = MemoryPeer("c")
    passed.begin(behind=behind)
    step, passed.worker.hurry = passed.worker.hurry, lambda: None
    ends = [passed.send(number, has_heard=number != 1) for number in range(3)]
    assert behind.sizes == []
    step()
    assert sum(behind.sizes) == ends[-1] == behind.assured[-1]
    assert (len(behind.sizes), len(behind.assured)) == (3, 1)


def test_several_frames_that_one_sync_is_for_are_told_by_who_waits(passed):
    passed.begin()
    step, passed.worker.hurry = passed.worker.hurry, lambda: None
    passed.send(0, has_heard=True)
    passed.send(1, has_heard=True)
    step()
    assert passed.shown == [(1, False)]


def test_a_node_behind_that_cannot_be_told_breaks_the_stream(passed, monkeypatch):
    behind = MemoryPeer("c")
    passed.begin(sender="a", behind=behind)
    end = passed.send(0, has_heard=True)

    def unreached(_, length):
        raise RemoteError(f"c is not told of {length}", path="c")

    monkeypatch.setattr(MemoryStream, "assure", unreached)
    with pytest.raises(RemoteError):
        passed.passage.assure(end)
    assert [error.path for error in passed.faults] == ["c"]


def test_acks_of_the_last_node_come_in_order_whoever_gives_them(passed):
    """One thread brings a word, another one syncs what came behind: the first is held up."""
    passed.begin(sender="b")
    end = passed.send(0, has_heard=True)
    begun, go = threading.Event(), threading.Event()
    show, brings = passed.copy.readers.show, None

    def held(extent, **more):
        if threading.current_thread() is brings:
            begun.set()
            assert go.wait(PATIENCE)
        show(extent, **more)

    passed.copy.readers.show = held
    brings = threading.Thread(target=passed.passage.assure, args=(end,))
    syncs = threading.Thread(target=passed.send, args=(1,))
    brings.start()
    assert begun.wait(PATIENCE)
    syncs.start()
    while not passed.passage._synced and not passed.acks:
        pass  # It has synced, and is about to tell.
    go.set()
    for thread in (brings, syncs):
        thread.join(PATIENCE)
    assert (passed.shown, passed.acks) == ([(0, True), (1, False)], [0, 1])


def test_a_word_that_nobody_waited_for_is_no_word_for_what_comes_next(passed, monkeypatch):
    """While one that goes behind its sync is synced, another one comes that does not."""
    behind = MemoryPeer("c")
    passed.begin(behind=behind)
    sync, step = passed.copy.sync, passed.worker.hurry
    first = frame(0, 0)
    second = frame(len(first.body), 1)._replace(has_heard=True)

    def late():
        monkeypatch.setattr(passed.copy, "sync", sync)
        passed.worker.hurry = lambda: None
        passed.passage.send(second)
        return sync()

    monkeypatch.setattr(passed.copy, "sync", late)
    passed.passage.send(first)
    step()
    assert behind.assured == [len(first.body) + len(second.body)]
