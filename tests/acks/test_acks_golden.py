"""Files of format 1, written once, that every later version must read."""

import importlib.util
from pathlib import Path

import pytest

from quiver.acks.copies import encode_copies, read_copies
from quiver.acks.inbox import decode_inbox
from quiver.acks.replay import read_log

GOLDEN = Path(__file__).parents[1] / "golden"


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, GOLDEN / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made():
    return loaded("make_v1_acks")


@pytest.fixture(scope="module")
def later():
    return loaded("make_v2_acks")


def test_the_golden_log_gives_its_records(made):
    content = read_log((GOLDEN / "v1/acks/ack.log").read_bytes())
    assert content.faults == []
    assert content.base_seq == made.BASE_SEQ
    assert [seq for seq, _ in content.entries] == [9, 10, 11, 12, 13, 14]
    assert tuple(record for _, record in content.entries) == made.RECORDS


def test_the_golden_checkpoint_gives_its_state(made):
    data = (GOLDEN / "v1/acks/checkpoint").read_bytes()
    assert read_copies(data) == (made.CHECKPOINT, [])


def test_the_same_values_are_still_written_as_the_same_bytes(made):
    assert made.golden_log() == (GOLDEN / "v1/acks/ack.log").read_bytes()


def test_the_golden_checkpoint_of_format_2_gives_its_state(later):
    data = (GOLDEN / "v2/acks/checkpoint").read_bytes()
    assert read_copies(data) == (later.CHECKPOINT, [])


def test_the_golden_inbox_gives_its_values(later):
    assert decode_inbox((GOLDEN / "v2/acks/inbox/spark").read_bytes()) == later.INBOX


def test_a_checkpoint_of_format_1_is_written_as_one_of_format_2(made):
    data = encode_copies(made.CHECKPOINT)
    assert data[8:10] == b"\2\0"
    assert read_copies(data) == (made.CHECKPOINT, [])


def test_the_golden_log_of_later_kinds_gives_its_records(later):
    content = read_log((GOLDEN / "v2/acks/ack.log").read_bytes())
    assert (content.faults, content.base_seq) == ([], later.BASE_SEQ)
    assert [seq for seq, _ in content.entries] == [20, 21, 22, 23, 25]
    assert tuple(record for _, record in content.entries) == later.RECORDS


def test_what_came_later_is_still_written_as_the_same_bytes(later):
    for name, data in later.golden_files().items():
        assert data == (GOLDEN / "v2/acks" / name).read_bytes()


def test_the_golden_files_are_not_written_twice(made, later):
    for module in (made, later):
        with pytest.raises(SystemExit, match="written once"):
            module.main()


@pytest.mark.parametrize(
    "name, copies",
    [
        ("v1/acks/ack.log", 1),
        ("v1/acks/checkpoint", 2),
        ("v2/acks/ack.log", 1),
        ("v2/acks/checkpoint", 2),
        ("v2/acks/inbox/spark", 1),
    ],
)
def test_the_dump_in_the_format_page_is_the_golden_file(name, copies):
    page = (GOLDEN.parents[1] / "quiver/acks/FORMAT.md").read_text()
    block = page.split(f"`tests/golden/{name}`")[1].split("```")[1]
    shown = "".join(line[6:53] for line in block.strip().splitlines())
    assert copies * bytes.fromhex(shown) == (GOLDEN / name).read_bytes()
