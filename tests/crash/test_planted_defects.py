"""What the harness is worth: it finds every planted defect, and nothing in the store without one.

``QUIVER_DEFECTS`` says how many of them are tried, evenly spread; ``all`` tries each, make crash
eight. Without it four are, and the store without a defect meets fewer faults in each life.
DEFECTS.md tells what other methods find of them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

PLANTED = Path(__file__).parent / "planted"
PAGE = Path(__file__).parent / "DEFECTS.md"
SOME = 4
ALL = "all"
SECONDS_MAX = 900

sys.path.insert(0, str(PLANTED))
planting, defects, methods = map(import_module, ("planting", "defects", "methods"))
sys.path.remove(str(PLANTED))

ASKED = os.environ.get("QUIVER_DEFECTS", str(SOME))
IS_CRASH = "QUIVER_DEFECTS" in os.environ
FAULTS_MAX = methods.EVERY if IS_CRASH else 30
OTHERS = ["kill", "ext4 cut", "xfs cut", "journaled"]

pytestmark = pytest.mark.timeout(SECONDS_MAX + 60)


def spread(everything: list[Any], share: int = 1) -> list[Any]:
    """Take as many as are asked for, or a share of that, evenly spread."""
    asked = len(everything) if ASKED == ALL else int(ASKED) // share
    count = min(asked, len(everything))
    return [everything[place * len(everything) // count] for place in range(count)]


def name_of(value: Any) -> str:
    return value.name if isinstance(value, planting.Defect) else str(value)


@pytest.mark.parametrize("defect", spread(list(defects.DEFECTS)), ids=name_of)
def test_a_planted_defect_is_found(defect: Any) -> None:
    verdict = ask("posix", defect.name, "--known")
    story = verdict["how"]
    assert verdict["found"], verdict
    assert "Error: name" not in story, "the defect itself is no sound Python"
    if defect.lost:
        assert re.search(r"^life: \w", story, re.MULTILINE), story
        assert re.search(r"^power cut after act \d+ of \d+", story, re.MULTILINE), story
        assert re.search(rf"^  (lost|torn) +\d+: {defect.lost}", story, re.MULTILINE), story


@pytest.mark.filterwarnings("ignore:.*lost without an outcome:ResourceWarning")
@pytest.mark.parametrize("number, life", spread(list(methods.chapters()), share=2), ids=name_of)
def test_the_store_without_a_defect_is_not_flagged(number: int, life: str) -> None:
    chapter = methods.tell("posix", number, life, faults_max=FAULTS_MAX)
    assert chapter.failure is None, str(chapter.failure)
    assert chapter.images > 0


@pytest.mark.parametrize("method", OTHERS if IS_CRASH else OTHERS[:2])
def test_no_other_method_flags_it_either(method: str) -> None:
    verdict = ask(method, "", "--seconds", "20" if ASKED == ALL else "2")
    if verdict["obstacle"]:
        pytest.skip(verdict["obstacle"])
    assert not verdict["found"], verdict
    assert verdict["images"] > 0


def test_every_sync_that_is_left_out_says_what_a_power_cut_takes() -> None:
    for defect in defects.DEFECTS:
        if "not synced" in defect.name:
            assert defect.lost, defect.name


def ask(method: str, name: str, *options: str) -> dict[str, Any]:
    command = [sys.executable, str(PLANTED / "methods.py"), method, name, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS_MAX)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_there_are_enough_defects_and_each_has_its_own_name() -> None:
    assert len(defects.DEFECTS) >= 90
    assert len({defect.name for defect in defects.ALL}) == len(defects.ALL)


@pytest.mark.parametrize("defect", defects.ALL, ids=name_of)
def test_each_defect_still_has_its_line(defect: Any) -> None:
    text = planting.mutated(defect)
    assert text != planting.source_of(defect.module).read_text()
    compile(text, defect.module, "exec", dont_inherit=True)


def test_a_line_that_is_gone_or_there_twice_is_no_defect() -> None:
    for old in ("no such line\n", "return"):
        with pytest.raises(ValueError, match=r"times in quiver\.wal\.writer"):
            planting.mutated(planting.Defect("stale", "quiver.wal.writer", old, "pass"))


def test_what_is_imported_already_cannot_be_changed() -> None:
    defect = planting.Defect("late", "quiver.errors", "Errors", "Mistakes")
    with pytest.raises(RuntimeError, match="imported already"):
        planting.plant(defect)


def test_a_planted_module_is_the_one_that_runs() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from planting import Defect, plant\n"
        "plant(Defect('other', 'quiver.units', 'MILLISECOND = 1', 'MILLISECOND = -1'))\n"
        "import quiver.units\n"
        "print(quiver.units.MILLISECOND)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(PLANTED)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 0


def test_the_page_has_every_defect() -> None:
    rows = [line.split(" | ")[0] for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    told = {row.removeprefix("| ").split(" (`")[0] for row in rows}
    assert {defect.name for defect in defects.ALL} <= told
