"""The slot table refuses what a bitmap and a file name cannot hold, and digests the rest."""

from __future__ import annotations

import pytest

from quiver.errors import InputError
from quiver.slots import Slot, SlotDifference, SlotTable


def test_names_become_slots_in_order() -> None:
    table = SlotTable.of(["logs", "spans"])
    assert list(table) == [Slot(0, "logs", 0), Slot(1, "spans", 1)]
    assert table["spans"].slot_id == table[1].slot_id == 1
    assert "logs" in table
    assert 1 in table
    assert "metrics" not in table
    assert len(table) == 2
    assert repr(table) == "SlotTable(0:logs, 1:spans)"


def test_a_mapping_gives_the_ids_and_a_table_is_taken_as_it_is() -> None:
    table = SlotTable.of({"b": 63, "a": 2})
    assert [slot.name for slot in table] == ["a", "b"]
    assert table["b"] == Slot(63, "b", 63)
    assert SlotTable.of(table) is table
    assert table == SlotTable([Slot(63, "b", 63), Slot(2, "a", 2)])
    assert hash(table) == hash(SlotTable.of({"a": 2, "b": 63}))


def test_sixty_four_slots_fit_and_one_more_is_refused_with_a_way_out() -> None:
    names = [f"slot{number}" for number in range(64)]
    assert SlotTable.of(names)["slot63"].slot_id == 63
    with pytest.raises(InputError, match=r"65 slots: a bundle has at most 64 .*type column"):
        SlotTable.of([*names, "one-more"])


@pytest.mark.parametrize(
    "slots, wanted",
    [
        ([], "at least one slot"),
        ({}, "at least one slot"),
        ("logs", r"is one string \(say slots=\[\"logs\"\]\)"),
        (5, "is not a list of names"),
        (None, "is not a list of names"),
        (["a", "a"], "'a' .* is in the table twice"),
        ([Slot(1, "a", 1), Slot(1, "b", 1)], "'b' .*id 1.* twice"),
        ([""], "slot name '' is not allowed"),
        ([".hidden"], "is not allowed"),
        (["../up"], "is not allowed"),
        (["a b"], "is not allowed"),
        (["a\n"], "is not allowed"),
        (["ä"], "is not allowed"),
        (["x" * 129], "is not allowed"),
        ([3], "slot name 3 is not allowed"),
        ({"a": 64}, "slot id 64 .* not within 0..63"),
        ({"a": -1}, "slot id -1"),
        ({"a": True}, "slot id True"),
        ({"a": "0"}, "slot id '0'"),
        ({"a": "0", "b": 1}, "slot id '0'"),
        ([Slot(0, "a", 65536)], "payload type id 65536 .* not within 0..65535"),
        ([Slot(0, "a", None)], "payload type id None"),
    ],
)
def test_a_bad_table_is_refused(slots, wanted: str) -> None:
    with pytest.raises(InputError, match=wanted):
        SlotTable.of(slots)


def test_an_unknown_slot_lists_the_known_ones() -> None:
    table = SlotTable.of(["logs", "spans"])
    with pytest.raises(InputError, match=r"no slot 'metrics' .*its slots are: logs, spans"):
        table["metrics"]
    with pytest.raises(InputError, match="no slot 7"):
        table[7]


def test_the_digest_covers_id_name_and_payload_type_and_nothing_else() -> None:
    plain = SlotTable([Slot(1, "a", 5)]).digest()
    assert len(plain) == 16
    assert plain == SlotTable([Slot(1, "a", 5, event_time="at")]).digest()
    others = [Slot(2, "a", 5), Slot(1, "b", 5), Slot(1, "a", 6)]
    digests = {SlotTable([slot]).digest() for slot in others}
    assert len(digests | {plain}) == 4


def test_the_digest_of_a_known_table_never_changes() -> None:
    # It stands in the header of every WAL file: a change here makes all of them unreadable.
    assert SlotTable.of(["logs", "spans"]).digest().hex() == "38d5ac3cae1626bc8a8c494adde24386"


@pytest.mark.parametrize(
    ("asked", "text", "options"),
    [
        (["a", "b"], "", ""),
        (["a"], "only in the store: b (id 1)", "--drop b"),
        (["a", "b", "c"], "only asked for: c (id 2)", "--slot c=2"),
        (["a", "c"], "different: b (id 1) in the store is c (id 1)", "--rename b=c"),
        (
            [Slot(0, "a", 0), Slot(1, "c", 8), Slot(3, "d", 3)],
            "only asked for: d (id 3); different: b (id 1) in the store is c (id 1, type 8)",
            "--slot d=3 --rename b=c --type c=8",
        ),
        (
            [Slot(0, "a", 9), Slot(1, "b", 1)],
            "different: a (id 0) in the store is a (id 0, type 9)",
            "--type a=9",
        ),
        (
            ["b", "a"],
            "different: a (id 0) in the store is a (id 1), b (id 1) in the store is b (id 0)",
            "",
        ),
        ({"x": 5}, "only in the store: a (id 0), b (id 1); only asked for: x (id 5)", None),
    ],
    ids=["equal", "fewer", "more", "renamed", "much", "retyped", "moved", "all"],
)
def test_two_tables_are_compared_slot_by_slot(asked, text: str, options: str | None) -> None:
    difference = SlotDifference.between(SlotTable.of(["a", "b"]), SlotTable.of(asked))
    assert str(difference) == text
    assert difference.options() == ("--drop a --drop b --slot x=5" if options is None else options)
