"""The demonstration of a chain without kills, and its judge, who finds whatever is wrong."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from chain_wire_kit import PATIENCE
from cluster_kit import running

import quiver
from bench.demo.compare import Difference, compare
from bench.demo_chain import loader, reader
from bench.demo_chain.blocks import BlockMap, MappedBlock, Mark, legend, lines, mark, merged
from bench.demo_chain.copies import CopyFound, Observer
from bench.demo_chain.journal import Journal, last_noted, noted
from bench.demo_chain.judge import Verdict, judge_copies, judge_counts, pauses, sequenced
from bench.demo_chain.picture import Happening, draw
from bench.demo_stream.stage import Stage

NODES = ("n1", "n2", "n3")
AWAY = frozenset(["n2"])
BEFORE = BlockMap(
    NODES, AWAY, (MappedBlock(0, ("n1", "n2")), MappedBlock(1, ("n2", "n3")), MappedBlock(3, ()))
)
AFTER = BlockMap(
    NODES,
    AWAY,
    (MappedBlock(0, ("n3", "n1")), MappedBlock(1, ("n1", "n3")), MappedBlock(3, ("n2",))),
)
COPIES = [
    CopyFound(block, node, "segment", f"{block}") for block in range(2) for node in ("n1", "n3")
]
WANTED = {0: 2, 1: 2}
DIGESTS = {0: "0", 1: "1"}


def test_a_mark_says_what_a_node_has_and_since_when():
    first, second, empty = BEFORE.blocks
    assert [mark(BEFORE, first, node) for node in NODES] == [Mark.COPY, Mark.LOST, Mark.NONE]
    assert [mark(BEFORE, second, node) for node in NODES] == [Mark.NONE, Mark.LOST, Mark.TAIL]
    assert [mark(BEFORE, empty, node) for node in NODES] == [Mark.NONE] * 3
    found = [mark(AFTER, AFTER.blocks[0], node, BEFORE) for node in NODES]
    assert found == [Mark.TAIL, Mark.NONE, Mark.NEW]


def test_a_map_has_blocks_as_they_were_and_later_ones_as_they_are():
    old = dataclasses.replace(BEFORE, blocks=BEFORE.blocks[:2])
    found = merged(old, AFTER)
    assert found.blocks == (*BEFORE.blocks[:2], AFTER.blocks[2])
    assert merged(None, AFTER) == AFTER


def test_the_map_in_text_has_a_line_for_each_node():
    assert lines(BEFORE) == [
        "n1      o · ·",
        "n2      x x ·  lost",
        "n3      · T ·",
        "copies  1 1 0",
    ]
    assert lines(AFTER, BEFORE)[0] == "n1      T + ·"
    assert all(each.value in legend() for each in Mark if each is not Mark.NONE)


def test_the_picture_is_xml_with_all_nodes_blocks_and_happenings():
    happened = [Happening(0, "tail <n1> killed"), Happening(2, "of a block that stayed empty")]
    root = ET.fromstring(draw(BEFORE, AFTER, happened))
    said = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    for node in NODES:
        assert said.count(node) == 2
    numbers = [block.number for block in BEFORE.blocks]
    copies = [each.copies(block) for each in (BEFORE, AFTER) for block in each.blocks]
    for number in {*numbers, *copies}:
        assert said.count(str(number)) == 2 * numbers.count(number) + copies.count(number)
    for each in happened:
        assert said.count(each.what) == 1
    width = float(root.get("width"))
    boxes = list(root.iter("{http://www.w3.org/2000/svg}rect"))
    assert all(float(box.get("x", 0)) + float(box.get("width")) <= width for box in boxes)
    assert draw(BlockMap(NODES, AWAY, ()), BlockMap(NODES, AWAY, ()))


@pytest.mark.parametrize(
    "numbers,wrong",
    [
        ([0, 1, 2], {}),
        ([0, 2], {"lost": 1}),
        ([0, 1, 1, 2], {"twice": 1, "is_ordered": False}),
        ([0, 2, 1], {"is_ordered": False}),
        ([0, 1, 2, 3], {"strange": 1}),
        ([], {"lost": 3}),
    ],
    ids=["good", "lost", "twice", "order", "strange", "none"],
)
def test_what_a_cursor_gave_is_counted(numbers, wrong):
    found = sequenced(numbers, 3)
    for name, value in ({"lost": 0, "twice": 0, "strange": 0, "is_ordered": True} | wrong).items():
        assert getattr(found, name) == value
    assert found.is_good is not bool(wrong)


def test_copies_that_are_there_and_equal_are_found_good():
    assert judge_copies(COPIES, WANTED, DIGESTS) == []
    logs = [each._replace(form="log", digest="of the log") for each in COPIES]
    assert judge_copies(logs, WANTED, {}) == []
    assert judge_copies([logs[0], *COPIES[1:]], WANTED, DIGESTS) == []


@pytest.mark.parametrize(
    "copies",
    [
        COPIES[1:],
        [COPIES[1], *COPIES[1:]],
        [COPIES[0]._replace(digest="other"), *COPIES[1:]],
        [COPIES[0]._replace(form="none", digest="it is away"), *COPIES[1:]],
        [each._replace(digest="other") for each in COPIES],
        [each._replace(form="log", digest=each.node) for each in COPIES],
        [],
    ],
    ids=["missing", "one twice", "unequal", "unread", "not the record's", "logs", "none"],
)
def test_each_fault_of_a_copy_is_told(copies):
    assert judge_copies(copies, WANTED, DIGESTS)


def test_counts_of_spark_are_compared_with_the_source():
    assert judge_counts({"UA": 2, "AA": 1}, ["UA", "AA", "UA"]) == []
    assert len(judge_counts({"UA": 1, "B6": 1}, ["UA", "AA", "UA"])) == 3


def test_a_pause_is_the_longest_time_without_an_ack_behind_a_fault():
    acks = np.array([0, 1, 2, 5, 6, 7, 9], np.int64) * 1_000_000_000
    assert pauses(acks, [2_500_000_000, 7_500_000_000]) == [3.0, 2.0]
    assert pauses(acks, [9_500_000_000]) == [0.0]


def test_whatever_differs_is_a_problem():
    good, equal = sequenced([0, 1], 2), Difference(1, 1, lost=0, duplicates=0, foreign=0)
    assert Verdict({"live": good}, {"flights": equal}).all_problems == []
    assert Verdict().all_problems
    assert Verdict({"live": sequenced([0], 2)}, {"flights": equal}).all_problems
    wrong = Difference(1, 0, lost=1, duplicates=0, foreign=0)
    assert Verdict({"live": good}, {"flights": wrong}).all_problems
    assert Verdict({"live": good}, {"flights": equal}, ["a copy"]).all_problems == ["a copy"]


def test_a_journal_has_what_was_noted(tmp_path):
    path = str(tmp_path / "journal")
    assert last_noted(path) == -1
    assert len(noted(path)) == 0
    for numbers in (range(3), [3]):
        journal = Journal(path)
        journal.note(numbers)
        journal.close()
    assert noted(path)[:, 0].tolist() == [0, 1, 2, 3]
    assert (np.diff(noted(path)[:, 1]) >= 0).all()
    assert last_noted(path) == 3


def test_the_year_goes_through_a_chain_and_a_loader_goes_on_where_the_last_one_ended(
    year, tmp_path, monkeypatch
):
    said = []
    monkeypatch.setattr(loader, "load", dict)
    monkeypatch.setattr(loader, "cut", lambda _: year)
    pace = tmp_path / "pace"
    pace.write_text("0")
    for each in (loader, reader):
        monkeypatch.setattr(each, "say", said.append)
    acked, seen, store = (str(tmp_path / name) for name in ("acked", "seen", "store"))
    with running(tmp_path / "nodes", "a", "b", "c") as nodes, nodes.cluster() as cluster:
        monkeypatch.setattr(quiver, "connect", lambda _: nodes.cluster())
        loader.main("metadata", acked, str(pace))
        loader.main("metadata", acked, str(pace))
        reader.main("metadata", seen, store, len(year) - 1)
        observer = Observer(cluster)
        assert not observer.is_restored("a")
        assert Stage.has_come(lambda: observer.is_restored("nobody"), PATIENCE)
        found = observer.copies()
        blocks = observer.blocks()
        digests = {block.number: block.digest.hex() for block in blocks}
        wanted = dict.fromkeys((block.number for block in blocks), loader.RF)
        assert judge_copies(found, wanted, digests) == []
        assert {each.form for each in found} == {"segment"}
        assert len(observer.map(("a", "b", "c"), frozenset()).blocks) == len(blocks)
    assert said == ["ready", "done"] * 3
    for path in (acked, seen):
        assert sequenced(noted(path)[:, 0], len(year)).is_good
    for name, source in year.tables.items():
        live = quiver.scan(store, slot=name).to_table().cast(source.schema)
        assert compare(source, live).is_none
