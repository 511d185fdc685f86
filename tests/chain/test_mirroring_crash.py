"""Whatever ends a mirror, at every act of its store: a later one makes each bundle be there once.

Kills, power cuts and failing disks at the acts of the store; the nodes are real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from cluster_kit import Nodes, row, running
from store_kit import abandon

import quiver
from quiver.chain import LoaderRules, Mirror
from quiver.chain.mirroring import mirror as module
from quiver.chain.mirroring.place import encode_place
from quiver.disk import Disk
from quiver.errors import DamageError, InputError, QuiverError, SourceError
from quiver.testing import Campaign, Loss, ManualClock, Plan
from quiver.testing.acts import Mark
from quiver.testing.lives import TINY
from quiver.testing.recorder import FaultKind

pytestmark = pytest.mark.filterwarnings("ignore:.*lost without an outcome")
COUNT = 14
NAMES = ("core_0", "core_1")
PATIENCE = 60.0


class Mirrors:
    """Two partitions that are read into a store, one first; in one life what was taken is deleted.

    Bundle ``n`` is of partition ``n % 2``.
    """

    lives = ("kept", "taken")

    def __init__(self, nodes: Nodes) -> None:
        self.cluster = nodes.cluster()

    def open(self, disk: Disk) -> quiver.Store:
        config = {**TINY, "segment": {"time": "caller", "target_size": 1500}}
        return quiver.open(
            "m", slots=["events"], core=0, disk=disk, clock=ManualClock(), config=config,
            worker=False,
        )  # fmt: skip

    def mirror(self, store: quiver.Store, *names: str) -> None:
        with Mirror(store, self.cluster, names) as mirror:
            mirror.run(once=True)

    def live(self, name: str, stage: Any) -> None:
        for names in (NAMES[:1], NAMES):
            with suppress(QuiverError):
                store = self.open(stage)
                with suppress(QuiverError):
                    self.mirror(store, *names)
                    stage.mark("mirrored", upto=names[-1])
                    if name == "taken":
                        list(self.take(store, "reader", stage.mark))
                        store.maintain()
                abandon(store)

    def take(
        self, store: quiver.Store, name: str, mark: Callable[..., object] = lambda *_, **__: None
    ) -> Iterator[int]:
        """Ack all bundles that are there, but for the last few; each is noted before its ack."""
        subscription = store.subscribe(name)
        handles = list(iter(subscription.poll, None))
        for place, handle in enumerate(handles):
            number = handle["events"]["n"][0].as_py()
            yield number
            if place < len(handles) - 4:
                mark("taken", number=number)  # It may be gone from here on, whatever ends this.
                handle.ack()

    def facts(self, marks: Sequence[Mark]) -> frozenset[int]:
        return frozenset(dict(mark.facts)["number"] for mark in marks if mark.label == "taken")

    def recover(self, disk: Disk, life: str) -> tuple[tuple[str, str], ...]:
        store = self.open(disk)
        found = store._core.progress.latest(None)
        abandon(store)
        return tuple((note.source, str(note.states)) for _, note in found.notes())

    def observe(self, disk: Disk, life: str, state: object) -> list[int] | None:
        store = self.open(disk)
        try:
            self.mirror(store, *NAMES)
        except (DamageError, SourceError):
            return None
        found = list(self.take(store, "judge"))
        abandon(store)
        return found

    def judge(self, facts: Any, state: Any, seen: Any, *, torn: bool) -> None:
        if seen is None:
            if not torn:
                raise Loss("it is lost, or wrong, how far a partition was read")
            return
        for each in range(len(NAMES)):
            of_it = [number for number in seen if number % 2 == each]
            rest = [n for n in range(COUNT) if n % 2 == each][-len(of_it) or COUNT :]
            if of_it != rest:
                raise Loss(f"{NAMES[each]} has {of_it}")
        missing = set(range(COUNT)) - set(seen) - facts
        if missing:
            raise Loss(f"{missing} are missing, and only {set(facts)} were taken")


@pytest.fixture(scope="module")
def mirrors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirrors]:
    with running(tmp_path_factory.mktemp("nodes"), "a") as nodes, nodes.cluster() as cluster:
        rules = LoaderRules(rf=1, soft_bytes=3_000)
        loaders = [cluster.loader(name, ["events"], rules=rules) for name in NAMES]
        for number in range(COUNT):
            loaders[number % 2].send(row(number), timeout=PATIENCE).wait(PATIENCE)
        for loader in loaders:
            loader.close(timeout=PATIENCE)
        found = Mirrors(nodes)
        yield found
        found.cluster.close()


def losses(mirrors: Mirrors, life: str) -> list[str]:
    # A full disk is waited for, and here nobody makes room.
    kinds: Sequence[FaultKind] = ("EIO", "kill")
    plan = Plan(images_per_life=12, depth=1, faults_per_life=4, fault_kinds=kinds)
    try:
        failure = Campaign(mirrors, plan).tell(life).failure
    except InputError as error:  # The chain knows no such place: so it was found as well.
        return [str(error)]
    return [] if failure is None else [str(failure)]


@pytest.mark.parametrize("life", Mirrors.lives)
def test_each_bundle_is_there_once_whatever_ends_it(mirrors: Mirrors, life: str) -> None:
    assert losses(mirrors, life) == []


@pytest.mark.parametrize("step", [-1, 1], ids=["behind", "ahead"])
def test_the_harness_finds_progress_that_is_wrong(
    mirrors: Mirrors, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(at: Any) -> str:
        return encode_place(at._replace(time_ns=at.time_ns + step, wal_seq=at.wal_seq + step))

    monkeypatch.setattr(module, "encode_place", wrong)
    assert losses(mirrors, "kept")
