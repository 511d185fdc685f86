"""Every byte of every file of a store, wrong or cut off: only what was stored there is lost.

Plain runs try one place of 29, and the first and last byte of each region;
``QUIVER_DAMAGE=every`` tries every byte and every length, ``all`` each third.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache

import pytest

from quiver.cli import audit
from quiver.engine import stored
from quiver.ipc import decode_stream
from quiver.testing import Loss

from .sound_store import FILES, sound_store
from .wreck import Damage, Yard

STEP = {"every": 1, "all": 3}.get(os.environ.get("QUIVER_DAMAGE", ""), 43)
SAME_SHAPE = ("newest segment",)
"""Tried at a seventh of the places: the other segment is built alike."""

UNTOLD = {
    ("rotated log", "length"): "a segment holds the entry, so recovery starts behind it",
    ("rotated log", "entry"): "a segment holds the entry, so recovery starts behind it",
    ("segment", "padding"): "zeros between two streams: nobody reads them",
    ("segment", "checksum of the file"): "what is read has checksums of its own",
    ("segment", "index"): "who reads whole streams does without it",
    ("newest segment", "padding"): "zeros between two streams: nobody reads them",
    ("newest segment", "index"): "who reads whole streams does without it",
    ("newest segment", "checksum of the file"): "what is read has checksums of its own",
}
"""Regions in which a wrong byte may pass an opening and all reading, and why that is harmless."""

WHOLE = {
    "active log": "it ends behind an entry, as if nothing had been appended since",
    "rotated log": "it ends behind an entry, and sequences may have gaps",
    "ack.log": "it ends behind a record, as if nothing had been resolved since",
    "manifest": "only its last line break is missing",
}
"""Files that may be cut to a length at which nothing tells that there was more, and which."""


@pytest.fixture(scope="module")
def yard() -> Yard:
    return Yard(sound_store())


@pytest.fixture
def decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Payloads that are not damaged are the same each time: decode each of them once."""
    remembered = lru_cache(maxsize=64)(lambda data, named: decode_stream(data, **dict(named)))
    for module in (audit, stored):
        monkeypatch.setattr(
            module,
            "decode_stream",
            lambda data, **named: remembered(bytes(data), tuple(named.items())),
        )


def places(kind: str, phase: int) -> list[int]:
    step = STEP * 7 if kind in SAME_SHAPE else STEP
    regions = sound_store().regions[kind]
    edges = {place for region in regions for place in (region.start, region.end - 1)}
    return sorted(edges.union(range(phase % step, regions[-1].end, step)))


def flips(kind: str) -> Iterator[Damage]:
    """Wrong bytes: all bits of one turned over, and one bit of one chosen by lot."""
    data = sound_store().data(kind)
    phase = list(FILES).index(kind)
    for place in places(kind, phase):
        yield flip(kind, data, place, mask=0xFF)
    for place in places(kind, phase + 3):
        yield flip(kind, data, place, mask=1 << random.Random(f"{kind} {place}").randrange(8))


def flip(kind: str, data: bytes, place: int, *, mask: int) -> Damage:
    wrong = bytes([data[place] ^ mask])
    return Damage(kind, place, place + 1, data[:place] + wrong + data[place + 1 :])


def cuts(kind: str) -> Iterator[Damage]:
    data = sound_store().data(kind)
    for length in places(kind, list(FILES).index(kind) + 5):
        yield Damage(kind, length, len(data), data[:length])


@pytest.mark.usefixtures("decoded_once")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", FILES)
def test_a_wrong_byte_costs_at_most_what_is_stored_in_it(kind: str, yard: Yard) -> None:
    untold = defaultdict(set)
    for damage in flips(kind):
        verdict = yard.examine(damage)
        (region,), _ = yard.at_stake(damage)
        if not verdict.told:
            untold["opening"].add((kind, region.name))
        if not verdict.audited:
            untold["audit"].add((kind, region.name))
    assert untold["opening"] == {key for key in UNTOLD if key[0] == kind}
    assert untold["audit"] == set()


@pytest.mark.usefixtures("decoded_once")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_ends_early_costs_at_most_its_end(kind: str, yard: Yard) -> None:
    boundaries = {region.start for region in yard.sound.regions[kind]}
    if kind == "manifest":
        boundaries = {len(yard.sound.data(kind)) - 1}
    for damage in cuts(kind):
        verdict = yard.examine(damage)
        if not verdict.audited:
            assert kind in WHOLE, damage
            assert damage.start in boundaries, damage


@pytest.mark.usefixtures("decoded_once")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["active log", "rotated log"])
def test_so_it_is_in_a_log_whose_files_were_used_before(kind: str) -> None:
    """What opens the store punches, so that both ways meet in it."""
    sound = sound_store("recycle")
    yard, data = Yard(sound), sound.data(kind)
    assert {"beginning", "mark"} < {region.name for region in sound.regions[kind]}
    assert kind == "rotated log" or sound.regions[kind][-1].name == "older"
    for place in range(0, len(data), STEP):
        yard.examine(flip(kind, data, place, mask=0xFF))
        yard.examine(Damage(kind, place, len(data), data[:place]))


class Anything(int):
    """Equal to whatever it is compared with."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    def __xor__(self, other: int) -> int:
        return 0


ANYTHING = lambda *_: Anything()


def nothing(*args: object, **named: object) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("kind", "target", "defect", "loss"),
    [
        ("active log", "quiver.wal.format.crc32c", ANYTHING, "bundle"),
        ("active log", "quiver.wal.replay.copy_range", nothing, "not in quarantine"),
        ("active log", "quiver.wal.reader._next_entry", lambda d, *_: d.size, "never gets"),
        ("segment", "quiver.segment.stream_file.check_crc32c", nothing, "gets bundle"),
        ("segment", "quiver.engine.outlet.copy_file", nothing, "not in quarantine"),
        ("segment", "quiver.engine.recovery.copy_file", nothing, "not in quarantine"),
        ("ack.log", "quiver.acks.format.crc32c", ANYTHING, "refused|gets|Error|twice"),
        ("ack.log", "quiver.acks.opening._set_aside", nothing, "not in quarantine"),
        ("checkpoint", "quiver.acks.checkpoint.crc32c", ANYTHING, "refused|gets|Error|twice"),
    ],
)
def test_a_planted_defect_is_found(
    kind: str, target: str, defect: object, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard = Yard(sound_store())
    found = [*flips(kind), *cuts(kind)]
    monkeypatch.setattr(target, defect)
    with pytest.raises(Loss, match=loss):
        for damage in random.Random(kind).sample(found, len(found)):
            yard.examine(damage)


def test_the_sound_store_has_one_of_everything(yard: Yard) -> None:
    sound = yard.sound
    assert {path for path, inode in sound.inodes.items() if sound.tree.blobs[inode].data} == set(
        FILES.values()
    )
    assert not any(finding for finding in audit.audit(yard.disk(), lambda _: None))
    untouched = Damage("sidecar", 0, 0, sound.data("sidecar"))
    verdict = yard.examine(untouched)
    assert not verdict.told
    assert not verdict.audited
