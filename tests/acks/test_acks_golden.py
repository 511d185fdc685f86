"""Files of format 1, written once, that every later version must read."""

import importlib.util
from pathlib import Path

import pytest

from quiver.acks.copies import encode_copies, read_copies
from quiver.acks.replay import read_log

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def made():
    spec = importlib.util.spec_from_file_location("make_v1_acks", GOLDEN / "make_v1_acks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
    checkpoint = (GOLDEN / "v1/acks/checkpoint").read_bytes()
    assert encode_copies(made.CHECKPOINT) == checkpoint


def test_the_golden_files_are_not_written_twice(made):
    with pytest.raises(SystemExit, match="written once"):
        made.main()


@pytest.mark.parametrize("name, copies", [("ack.log", 1), ("checkpoint", 2)])
def test_the_dump_in_the_format_page_is_the_golden_file(name, copies):
    page = (GOLDEN.parents[1] / "quiver/acks/FORMAT.md").read_text()
    block = page.split(f"`tests/golden/v1/acks/{name}`")[1].split("```")[1]
    shown = "".join(line[6:53] for line in block.strip().splitlines())
    assert copies * bytes.fromhex(shown) == (GOLDEN / "v1/acks" / name).read_bytes()
