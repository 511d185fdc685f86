"""Records of subscribers: their texts, and what is none; and what they come to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.chain.subscribing.format import decode_record, encode_record
from quiver.chain.subscribing.marks import Lane, Marks
from quiver.chain.subscribing.records import (
    Acked,
    Joined,
    LaneSnapshot,
    Nacked,
    Rejected,
    Snapshot,
    Taken,
)
from quiver.errors import DamagedEntry, InputError, VersionError

GOLDEN = Path(__file__).parents[1] / "golden" / "v1" / "subscribing"
NACK = Nacked("core_0", 3, 4, 2, 1_800_000_000_000_000_000)
LETTER = Rejected("core_0", 3, 7, 57, 1_700_000_000_000_000_001, 3, "no such \u00fcnit")
LANES = (
    LaneSnapshot("core_0", 3, None, 9, 81, ((Taken("core_0", 3, 9, 50, 59), ((0, 3), (7, 1))),)),
    LaneSnapshot("core_1", 5, -7, 5, None, ()),
)
RECORDS = {
    "join": Joined("core_1", 5, -7, 40),
    "take": Taken("core_0", 3, 9, 50, 59),
    "ack": Acked("core_0", 3, 0, 3),
    "nack": NACK,
    "reject": LETTER,
    "snapshot": Snapshot(
        wants_all=True,
        is_gone=False,
        lanes=(LANES[0]._replace(nacks=(NACK,), letters=(LETTER,)), LANES[1]),
    ),
}


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_golden_records_are_read_and_written_as_ever(name):
    golden = (GOLDEN / name).read_text()
    assert decode_record(golden) == RECORDS[name]
    assert encode_record(RECORDS[name]) == golden


@pytest.mark.parametrize("name", sorted(RECORDS))
@pytest.mark.parametrize("value", [None, True, -1, 1 << 63, 1.5, "x", [], [[1]], {}], ids=repr)
def test_a_value_that_is_none_is_damage_and_never_another_fault(name, value):
    fields = json.loads(encode_record(RECORDS[name]))
    for key in fields:
        changed = {**fields, key: value}
        try:
            record = decode_record(json.dumps(changed))
        except (DamagedEntry, VersionError):
            continue
        assert json.loads(encode_record(record)) == changed


@pytest.mark.parametrize("key", ["kind", "more"])
def test_a_record_with_other_fields_is_damage(key):
    for record in RECORDS.values():
        fields = json.loads(encode_record(record))
        fields.pop(key, None)
        with pytest.raises(DamagedEntry):
            decode_record(json.dumps(fields if key == "kind" else {**fields, key: 1}))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "1", "{", '{"kind":"later"}', "[" * 100_000],
    ids=["empty", "list", "number", "torn", "later", "deep"],
)
def test_what_is_no_record_is_damage(text):
    with pytest.raises(DamagedEntry):
        decode_record(text)


@pytest.mark.parametrize(
    "lane, change",
    [
        (0, {"blocks": [[2, 9, 50, 59, []]]}),
        (0, {"blocks": [[3, 9, 50, 58, []]]}),
        (0, {"blocks": [[3, 9, 50, 59, [[0, 10]]]]}),
        (0, {"blocks": [[3, 9, 50, 59, [[0, 3], [3, 1]]]]}),
        (0, {"blocks": [[3, 9, 50, 59, [[0, 0]]]]}),
        (0, {"next_number": 3}),
        (0, {"nacks": [[1]]}),
        (1, {"partition": "core_0"}),
        (1, {"letters": 3}),
    ],
    ids=["below", "numbers", "beyond", "touching", "empty", "next", "row", "twice", "no_rows"],
)
def test_a_snapshot_that_makes_no_sense_is_damage(lane, change):
    fields = json.loads(encode_record(Snapshot(wants_all=False, is_gone=False, lanes=LANES)))
    fields["lanes"][lane].update(change)
    with pytest.raises(DamagedEntry):
        decode_record(json.dumps(fields))


def test_a_block_of_more_bundles_than_any_has_is_damage():
    fields = json.loads(encode_record(Taken("p", 1, 1 << 28, 0, 1 << 29)))
    with pytest.raises(DamagedEntry):
        decode_record(json.dumps({**fields, "bundle_count": 1 << 29}))


@pytest.mark.parametrize(
    "record",
    [
        Taken("p", 1, 1 << 29, 0, 1 << 29),
        Nacked("p", 1, 0, 1, 1 << 63),
        Snapshot(True, False, (LaneSnapshot("p", 5, None, 4, None, ()),)),
        Snapshot(True, False, (LaneSnapshot("p", 5, 1 << 63, 6, None, ()),)),
    ],
)
def test_what_nobody_could_read_is_not_written(record):
    with pytest.raises(InputError):
        encode_record(record)


def test_a_newer_version_is_told():
    fields = json.loads(encode_record(RECORDS["snapshot"]))
    with pytest.raises(VersionError):
        decode_record(json.dumps({**fields, "version": 3}))


def test_a_paused_subscriber_is_of_version_2_and_others_as_before():
    snapshot = RECORDS["snapshot"]
    fields = json.loads(encode_record(snapshot))
    assert (fields["version"], "is_paused" in fields) == (1, False)
    paused = snapshot._replace(is_paused=True)
    fields = json.loads(encode_record(paused))
    assert (fields["version"], fields["is_paused"]) == (2, True)
    assert decode_record(encode_record(paused)) == paused
    assert decode_record(json.dumps({**fields, "is_paused": False})) == snapshot


@pytest.mark.parametrize(
    ("version", "more"),
    [(1, {"is_paused": True}), (1, {"is_paused": False}), (2, {}), (2, {"is_paused": None})],
)
def test_a_pause_that_makes_no_sense_is_damage(version, more):
    fields = json.loads(encode_record(RECORDS["snapshot"]))
    with pytest.raises(DamagedEntry):
        decode_record(json.dumps({**fields, "version": version, **more}))


# marks ----------------------------------------------------------------------------------


def marks_of(*records) -> Marks:
    marks = Marks(wants_all=False)
    for record in records:
        marks.apply(record)
    return marks


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6), st.integers(1, 4)), max_size=60))
def test_what_is_done_again_from_any_snapshot_comes_to_the_same(acks):
    marks = marks_of(Joined("p", 0))
    numbers = [0, 1, 4, 5, 9, 12]  # Blocks that ended empty have no number.
    resolved: set[tuple[int, int]] = set()
    for place, number in enumerate(numbers):
        marks.apply(Taken("p", number, 10, 10 * place, 10 * place + 10))
    for at, first, count in acks:
        records = [
            Acked("p", numbers[at], index, 1)
            for index in range(first, first + count)
            if (numbers[at], index) not in resolved
        ]
        resolved |= {(each.block, each.bundle_first) for each in records}
        again = marks_of(decode_record(encode_record(marks.snapshot())))
        for record in records:
            marks.apply(record)
            again.apply(record)
        assert again.snapshot() == marks.snapshot()
    done = [n for n in numbers if all((n, index) in resolved for index in range(10))]
    waiting = [n for n in numbers if n not in done]
    assert marks.lanes["p"].floor == (waiting[0] if waiting else 13)
    assert marks.lanes["p"].open_count == 60 - len(resolved)


@pytest.mark.parametrize(
    "record",
    [
        Acked("q", 0, 0, 1),
        Acked("p", 1, 0, 1),
        Acked("p", 0, 9, 2),
        Taken("p", 0, 5, 0, 5),
        Nacked("p", 0, 10, 1, 5),
        Rejected("p", 3, 0, 1, 1, 1, ""),
    ],
    ids=["partition", "block", "beyond", "again", "nack", "reject"],
)
def test_a_record_that_makes_no_sense_behind_the_others_is_damage(record):
    marks = marks_of(Joined("p", 0), Taken("p", 0, 10, 0, 10))
    with pytest.raises(DamagedEntry):
        marks.apply(record)


def test_nacks_and_dead_letters_outlive_a_snapshot():
    marks = marks_of(
        Joined("p", 0),
        Taken("p", 0, 4, 0, 4),
        Nacked("p", 0, 2, 1, 77),
        Rejected("p", 0, 0, 0, 5, 1, "why"),
    )
    again = marks_of(marks.snapshot())
    assert again.lanes["p"].member.nacks == {(0, 2): (1, 77)}
    assert [each.reason for each in again.letters()] == ["why"]
    assert again.lanes["p"].open_count == 3


def test_finished_blocks_are_forgotten():
    lane = Lane("p", 0)
    for number in range(1_000):
        lane.take(Taken("p", number, 3, 3 * number, 3 * number + 3))
        lane.resolve(number, 0, 3)
    assert lane.snapshot() == LaneSnapshot("p", 1_000, None, 1_000, 3_000, ())
    assert not lane.blocks
    assert not lane.member.progress.segments()
