"""``quiver chain top``: text, a document, a picture, and what it says of what is not well."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cluster_kit import STEADY, Nodes, row
from top_kit import HOSTILE, START, words_of

import quiver
from quiver.chain.loading import LoaderRules
from quiver.chain.metadata import open_metadata
from quiver.chain.record import Partition
from quiver.cli.live.chains.board import ChainBoard
from quiver.cli.live.chains.look import ChainLook, NodeSeen, PartitionSeen, WantSeen
from quiver.cli.live.chains.words import event_sheet, node_sheet, partition_sheet, total_line
from quiver.clock import SystemClock
from quiver.units import SECOND

PATIENCE = 60.0
ROOT = Path(__file__).parents[2]
PAGE = Path(quiver.__file__).parent / "cli" / "JSON.md"
ONCE = ("--once", "--interval", "100ms")


@pytest.fixture
def place(tmp_path) -> str:
    (tmp_path / "meta").mkdir()
    return str(tmp_path / "meta")


@pytest.fixture
def nodes(tmp_path, place):
    """Three nodes, and a block that is open."""
    nodes = Nodes(tmp_path, STEADY)
    nodes.metadata = open_metadata(place)
    try:
        for name in "abc":
            nodes.start(name)
        with nodes.cluster() as cluster:
            loader = cluster.loader("core_0", ["events"], rules=LoaderRules(soft_bytes=5_000))
            for number in range(20):
                loader.send(row(number), timeout=PATIENCE).wait(PATIENCE)
            yield nodes
            loader.abandon()
    finally:
        nodes.close()


def test_once_is_text(run, place, nodes) -> None:
    found = run("chain", "top", *ONCE, "--metadata", place)
    assert (found.code, found.err) == (0, "")
    head, rate, totals, *rest = found.out.splitlines()
    assert re.fullmatch(
        rf"{place} · 3 nodes · 1 partition · every 100ms · a look takes \S+ · [0-9:]{{8}}", head
    )
    assert rate == "written 0B/s"
    assert re.match(r"3 of 3 nodes serve · \d+ sealed blocks?, 1 open, ", totals)
    titles = [line for line in rest if re.match("nodes|partitions|copies|events", line)]
    assert titles == ["nodes", "partitions", "copies wanted: none", "events: nothing happened yet"]
    (partition,) = [line for line in rest if line.startswith("core_0")]
    assert re.search(r" open .* 0B  [abc] > [abc] +[0-9a-z]{8}$", partition)


def test_a_document_has_the_fields_of_the_page(run, place, nodes, kit) -> None:
    partition = Partition(nodes.metadata, "core_0", clock=SystemClock())
    sealed = next(block for block in partition.blocks_now(partition.read()) if block.locations)
    lost = sealed.locations[0]  # Another may have no copy: then none is wanted.
    nodes.stop(lost)
    found = json.loads(
        run("chain", "top", "--interval", "100ms", "--json", "--metadata", place).out
    )
    section = re.split(r"^## (.+)$", PAGE.read_text(), flags=re.MULTILINE)
    (text,) = [
        body
        for title, body in zip(section[1::2], section[2::2], strict=True)
        if title == "chain top"
    ]
    assert set(kit.leaves(found)) == set(re.findall(r"^\| `([^`]+)` \|", text, flags=re.MULTILINE))
    assert {each["name"]: each["state"] for each in found["nodes"]}[lost] == "offline"
    (partition,) = found["partitions"]
    assert partition["wanted_count"] >= found["want_count"] == len(found["wants"]) > 0
    assert {each["want"] for each in found["wants"]} == {"last copy"}


def test_by_way_of_a_node(run, nodes) -> None:
    address = nodes.served["b"].address
    found = run("chain", "top", *ONCE, "--metadata", f"quiver://127.0.0.1:1,{address}")
    assert found.code == 0, found.err
    assert "3 of 3 nodes serve" in found.out


def test_a_node_that_is_not_reached_is_told(run, place, nodes) -> None:
    nodes.metadata.cas("zzz/record", None, b"damaged")
    served = nodes.served["a"]
    served._server.close(seconds=0)
    found = run("chain", "top", *ONCE, "--metadata", place)
    assert found.code == 0
    assert "not reached" in found.out
    assert "a cannot be reached" in found.err
    assert "zzz" in found.err
    assert "unknown" in found.out


def test_metadata_that_are_away_are_an_error(run, tmp_path) -> None:
    found = run("chain", "top", *ONCE, "--metadata", "quiver://127.0.0.1:1")
    assert found.code == 7
    assert "127.0.0.1:1" in found.err
    assert run("chain", "top", *ONCE, "--metadata", str(tmp_path / "none")).code == 3
    assert run("chain", "top", "--metadata", str(tmp_path)).code == 2


def test_a_picture_of_the_screen(run, place, nodes, tmp_path) -> None:
    pytest.importorskip("textual")
    path = tmp_path / "top.svg"
    asked = ("chain", "top", "--interval", "100ms", "--for", "300ms", "--svg", path)
    found = run(*asked, "--metadata", place)
    assert (found.code, found.out, found.err) == (0, "", "")
    text = words_of(path.read_text())
    for word in ("quiver chain top", "3 nodes", " node state", " core_0 ", " q Quit "):
        assert word in text


WORDS = ["quiver chain top", "4 nodes · 3 partitions", "auditor", " clicks ", "is open on n"]


def test_the_picture_in_the_readme_is_one_of_these(tmp_path) -> None:
    pytest.importorskip("textual")
    assert "(bench/top_chain.svg)" in (ROOT / "README.md").read_text()
    path = tmp_path / "top.svg"
    command = [sys.executable, "-m", "bench.top_chain", "--seconds", "1", "--out", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    text = words_of(path.read_text())
    assert [word for word in WORDS[:-1] if word not in text] == []
    text = words_of((ROOT / "bench" / "top_chain.svg").read_text())
    assert [word for word in WORDS if word not in text] == []


# what is made of looks -------------------------------------------------------------------------


def node(name="a", **given) -> NodeSeen:
    return NodeSeen(name, "h:1", "", "serving", True, 60, 100)._replace(**given)


def partition(name="p", **given) -> PartitionSeen:
    seen = PartitionSeen(name, "open", "w", 2, 3, 1_000, 3, ("a", "b"), (500, 400))
    return seen._replace(**given)


def look(at: float, *, nodes=(), partitions=(), **given) -> ChainLook:
    ns = round(at * SECOND)
    return ChainLook(START + ns, 1 + ns, nodes=nodes, partitions=partitions, **given)


def texts(board: ChainBoard) -> list[tuple[str, str]]:
    return [(each.about, each.text) for each in reversed(board.events)]


def test_rates_and_lag_are_of_what_lies_between_two_looks() -> None:
    board = ChainBoard("here", interval_ns=SECOND)
    board.take(look(0, partitions=(partition(),)))
    assert board.total is None
    board.take(look(2, partitions=(partition(lengths=(2_500, 2_400)), partition("new"))))
    assert board.rates == {"p": 1000.0}
    assert board.total == 1000.0
    assert partition().lag_bytes == 100
    assert partition(lengths=(None, 5)).lag_bytes is None
    assert partition(lengths=()).lag_bytes is None
    board.take(look(3, partitions=(partition(sealed_bytes=0),)))
    assert board.rates == {"p": 0.0}


def test_what_happened_is_told_from_one_look_to_the_next() -> None:
    board = ChainBoard("here", interval_ns=SECOND)
    board.take(look(0, nodes=(node(),), partitions=(partition(), partition("q"))))
    assert texts(board) == []
    gone = node(state="not reached", is_reached=False)
    changed = partition(open_number=4, chain=("c", "b"), wanted_count=2, lost_count=1)
    board.take(look(1, nodes=(gone, node("c")), partitions=(changed,), want_count=2))
    assert texts(board) == [
        ("a", "not reached"),
        ("c", "is there: serving"),
        ("p", "block 4 is open on c > b"),
        ("p", "2 blocks with fewer copies than 2"),
        ("p", "1 block without a copy that answers"),
        ("q", "is gone"),
    ]
    board.events.clear()
    closed = partition(open_number=None, chain=(), lengths=(), block_count=1)
    board.take(look(2, nodes=(node(is_auditor=True),), partitions=(closed, partition("r"))))
    board.take(look(3, nodes=(node(),), partitions=(partition(fault="damaged"),)))
    board.take(look(4, nodes=(node(is_auditor=True),), partitions=(partition(fault="damaged"),)))
    assert texts(board) == [
        ("a", "serving"),
        ("p", "no block is open"),
        ("p", "2 blocks purged"),
        ("r", "begins"),
        ("", "all blocks have their copies"),
        ("p", "damaged"),
        ("r", "is gone"),
        ("a", "looks after all"),
    ]


def test_a_problem_is_told_once_and_what_was_seen_stays() -> None:
    board = ChainBoard("here", interval_ns=SECOND)
    board.take(look(0, nodes=(node(),)))
    for second in (1, 2):
        board.take(look(second, problem="etcd is away"))
    assert texts(board) == [("", "etcd is away")]
    assert board.problem == "etcd is away"
    assert board.look is not None
    assert board.look.nodes == (node(),)
    assert list(look(0, problem="x", nodes=(node(fault="y"),)).faults) == ["x", "a: y"]
    assert total_line(ChainBoard("here", interval_ns=SECOND)) == ""


def test_names_that_would_steer_a_terminal_are_printable() -> None:
    board = ChainBoard("here", interval_ns=SECOND)
    wants = (WantSeen(HOSTILE, 1, "live", (HOSTILE,), 2),)
    for second in (0, 1):
        seen = (partition(HOSTILE, writer=HOSTILE, chain=(HOSTILE,), open_number=second),)
        board.take(look(second, nodes=(node(HOSTILE),), partitions=seen, wants=wants))
    for sheet in (node_sheet(board), partition_sheet(board), event_sheet(board)):
        assert sheet.rows
        assert all(cell.isprintable() for each in sheet.rows for cell in each.cells)
    assert partition_sheet(board).sorted_by(0).rows
