"""Each refusal is one line and a hint, leaves every file as it was, and the store goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from store_kit import SLOTS, bundle, numbers

import quiver
from quiver.testing import ManualClock


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Give every file below a folder with its mode and bytes."""
    found = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p): (p.stat().st_mode, p.read_bytes()) for p in found}


def nested(levels: int) -> pa.RecordBatch:
    kind = pa.int64()
    for _ in range(levels):
        kind = pa.struct([("inner", kind)])
    return pa.record_batch({"n": pa.nulls(1, kind)})


def check_words(error: quiver.QuiverError) -> None:
    """Hold an error to what all of ours promise: one line, and what to do about it."""
    assert error.message
    assert "\n" not in str(error)
    assert error.hint
    assert str(error).endswith(f"({error.hint})")


@pytest.mark.parametrize("later", [False, True], ids=["first bundle", "later bundle"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: {"event": bundle(0)["events"]},
        lambda: {**bundle(0), "event": bundle(0)["events"]},
        lambda: {"events": [1, 2]},
        lambda: {"events": bundle(0)["events"], "notes": "text"},
        lambda: {"events": nested(49)},
        dict,
        lambda: {"events": None, "notes": None},
        lambda: {"events": pa.table({"s": ["x" * 20_000]})},
        lambda: {"events": pa.table({"n": range(101)})},
    ],
    ids=[
        "unknown slot",
        "unknown slot beside a good one",
        "wrong type",
        "wrong type beside a good one",
        "too deep",
        "empty",
        "all absent",
        "too many bytes",
        "too many rows",
    ],
)
def test_a_refused_bundle_says_what_to_do_and_touches_no_file(
    opener, path: Path, make: Callable[[], object], *, later: bool
) -> None:
    store = opener({"limits": {"entry_bytes": 10_000, "rows": 100}})
    expected = []
    if later:
        store.append(bundle(0))
        store.finalize()
        store.append(bundle(1))
        expected = [0, 1]
    before, info = files(path), store.info()
    with pytest.raises(quiver.InputError) as caught:
        store.append(make())
    check_words(caught.value)
    assert not caught.value.retryable
    assert files(path) == before
    assert store.info() == info
    store.append(bundle(len(expected)))
    store.finalize()
    assert numbers(store) == [*expected, len(expected)]


def test_what_lies_just_inside_the_limits_is_taken(opener) -> None:
    store = opener({"limits": {"entry_bytes": 100_000, "rows": 100}})
    store.append({"events": nested(47)})
    store.append({"events": pa.table({"n": range(100)})})
    assert store.finalize().bundle_count == 2


def test_a_table_of_65_slots_says_what_to_do_and_64_are_taken(path: Path) -> None:
    names = [f"slot{n}" for n in range(65)]
    with pytest.raises(quiver.InputError) as caught:
        quiver.open(path, slots=names)
    check_words(caught.value)
    assert not path.exists()
    with quiver.open(path, slots=names[:64], worker=False) as store:
        assert len(store.slots) == 64


@pytest.fixture
def left(opener, path: Path) -> Path:
    """A store that nobody has open, with one segment in it."""
    with opener() as store:
        store.append(bundle(0))
    return path


def check_open_refused(path: Path, kind: type[quiver.QuiverError], **options: object) -> str:
    """See an opening refused without a change of any file, and what it said.

    But for the mark of visits: who finds a core taken looks whether it is by a visitor.
    """
    before = files(path.parent)
    with pytest.raises(kind) as caught:
        quiver.open(path, worker=False, clock=ManualClock(), **options)
    check_words(caught.value)
    after = files(path.parent)
    assert {name: found for name, found in after.items() if not name.endswith("/VISIT")} == before
    return str(caught.value)


@pytest.mark.parametrize(
    "slots",
    [["events"], ["notes", "events"], ["events", "notes", "more"], {"events": 0, "notes": 2}],
    ids=["fewer", "another order", "more", "another id"],
)
def test_another_slot_table_touches_no_file_and_names_both_digests(
    left: Path, opener, slots: list[str] | dict[str, int]
) -> None:
    text = check_open_refused(left, quiver.VersionError, slots=slots)
    for table in (SLOTS, slots):
        assert quiver.SlotTable.of(table).digest().hex() in text
    assert numbers(opener()) == [0]


def test_a_newer_format_touches_no_file_and_opens_again_when_it_is_ours(left: Path, opener) -> None:
    manifest = left / "quiver.json"
    ours = manifest.read_text()
    manifest.write_text(json.dumps({**json.loads(ours), "format": 2, "unheard_of": [1]}))
    assert "format 2" in check_open_refused(left, quiver.VersionError)
    manifest.write_text(ours)
    assert numbers(opener()) == [0]


def test_a_file_in_the_place_of_a_store_is_left_as_it_is(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("mine")
    for options in ({}, {"slots": SLOTS}):
        text = check_open_refused(place, quiver.StorageError, **options)
        assert "is not a folder" in text


def test_a_second_writer_touches_no_file_and_the_first_goes_on(left: Path, opener) -> None:
    store = opener()
    store.append(bundle(1))
    text = check_open_refused(left, quiver.LockedError, core=0)
    assert "process" in text
    store.append(bundle(2))
    store.finalize()
    assert numbers(store) == [0, 1, 2]
