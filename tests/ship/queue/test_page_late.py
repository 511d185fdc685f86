"""Who makes a page may sleep at any request, while a sweeper takes what nobody names."""

from __future__ import annotations

import pytest
from ends_kit import Rig

from quiver.errors import RemoteError
from quiver.ship.queue import MANIFEST_KEY, PAGE, QueueOptions
from quiver.ship.sweeper import Sweeper
from quiver.units import parse_duration

OPTIONS = QueueOptions(page_entries=8)
COUNT = 8


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.queue().start()
    return rig


def nap(rig: Rig) -> None:
    """Let an hour pass, in which the consumer sweeps."""
    rig.bucket.before = rig.bucket.after = lambda act, key: None
    rig.clock.step("1h")
    Sweeper(rig.queue(), grace_ns=parse_duration("10m"), clock=rig.clock).sweep()


def fill(rig: Rig) -> None:
    queue = rig.queue(options=OPTIONS)
    for _ in range(COUNT):
        queue.append(rig.draft(rig.upload()))


def is_page(key: str) -> bool:
    return key.endswith(PAGE)


def pages(rig: Rig) -> list[str]:
    return [each.key for each in rig.bucket.list("") if is_page(each.key)]


def test_a_page_that_was_swept_before_it_is_named_stays_out(rig) -> None:
    rig.bucket.after = lambda act, key: nap(rig) if act == "put" and is_page(key) else None
    fill(rig)
    assert rig.sequences() == list(range(COUNT))
    assert not rig.queue().read().pages


def test_a_page_that_was_swept_while_it_is_named_is_put_back(rig) -> None:
    """The manifest did not change meanwhile, so the change goes through."""

    def act(act: str, key: str) -> None:
        if act == "put_if" and key == MANIFEST_KEY and pages(rig):
            nap(rig)
            assert not pages(rig)

    rig.bucket.before = act
    fill(rig)
    assert [page.name for page in rig.queue().read().pages] == pages(rig)
    assert rig.sequences() == list(range(COUNT))


def test_a_page_that_may_be_named_after_all_is_put_back(rig) -> None:
    """No answer came, and the change is in."""

    def act(act: str, key: str) -> None:
        if act == "put_if" and key == MANIFEST_KEY and pages(rig):
            nap(rig)
            rig.bucket.after = lost

    def lost(act: str, key: str) -> None:
        if act == "put_if":
            raise RemoteError("denied")

    rig.bucket.before = act
    fill(rig)
    assert len(pages(rig)) == 1
    assert rig.sequences() == list(range(COUNT))
