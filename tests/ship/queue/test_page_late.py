"""Who makes a page may sleep at any request, while a sweeper takes what nobody names."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from ends_kit import Rig

from quiver.errors import RemoteError
from quiver.ship.queue import MANIFEST_KEY, PAGE, Queue, QueueOptions
from quiver.ship.queue.format import Footer, encode_footer
from quiver.ship.queue.table import encode_page
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
    """Let an hour pass, in which somebody takes what nobody names."""
    rig.bucket.before = rig.bucket.after = lambda act, key: None
    rig.clock.step("1h")
    rig.bucket.delete(pages(rig))


def sweep(rig: Rig, *, is_dry: bool = False) -> tuple[str, ...]:
    rig.bucket.before = rig.bucket.after = lambda act, key: None
    rig.clock.step("1h")
    sweeper = Sweeper(rig.queue(), grace_ns=parse_duration("10m"), clock=rig.clock)
    return sweeper.sweep(dry_run=is_dry).keys


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


def test_a_page_that_may_yet_be_named_is_not_swept(rig) -> None:
    """Its maker sleeps in the request that names it, and dies behind it."""

    def act(act: str, key: str) -> None:
        if act == "put_if" and key == MANIFEST_KEY and pages(rig):
            assert sweep(rig) == ()
            assert len(pages(rig)) == 1
            rig.bucket.after = die

    def die(act: str, key: str) -> None:
        raise KeyboardInterrupt

    rig.bucket.before = act
    with pytest.raises(KeyboardInterrupt):
        fill(rig)
    rig.bucket.after = lambda act, key: None
    assert [page.name for page in rig.queue().read().pages] == pages(rig)
    assert rig.sequences() == list(range(COUNT))


@pytest.mark.parametrize("is_dry", [False, True])
@pytest.mark.parametrize("through", [0, COUNT - 1])
def test_a_page_that_can_be_named_no_more_is_swept(rig, through, is_dry) -> None:
    """For its first entry has left the line."""
    epoch = rig.queue().start().epoch
    fill(rig)
    (page,) = pages(rig)
    data = rig.bucket.get(page).data
    line = Queue(rig.bucket, clock=rig.clock, options=QueueOptions(page_entries=0))
    rig.bucket.put("manifest", data[:-14] + encode_footer(Footer(6, 6, epoch)))
    assert sweep(rig, is_dry=is_dry) == ()
    line.dequeue(min(through, 5), epoch=epoch)
    swept = sweep(rig, is_dry=is_dry)
    assert page in swept
    assert (pages(rig) == []) != is_dry


@pytest.mark.parametrize("ending", [b"QVPG", b"????"])
def test_what_is_called_a_page_and_is_none_is_swept(rig, ending) -> None:
    key = rig.upload().replace(".batch", PAGE)
    rig.bucket.put(key, b"x" * 30 + ending)
    assert key in sweep(rig)


def test_a_page_of_a_newer_format_stays(rig) -> None:
    head = struct.pack("<IH", 0, 2)
    newer = rig.upload().replace(".batch", PAGE)
    rig.bucket.put(newer, head + struct.pack("<I4s", crc32c(head), b"QVPG"))
    assert newer not in sweep(rig)
    empty = rig.upload().replace(".batch", PAGE)
    rig.bucket.put(empty, encode_page(b"", 0)[0])
    assert empty in sweep(rig)
