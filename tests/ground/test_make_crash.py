"""What is told to do more by ``make crash`` is run by it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NAME = re.compile(r"QUIVER_[A-Z_]+")


def _lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_each_file_that_can_do_more_is_run_by_the_target_that_says_so() -> None:
    makefile = (ROOT / "Makefile").read_text()
    recipe = makefile[makefile.index("\ncrash:") : makefile.index("\nproperties:")]
    told = {f"QUIVER_{name}" for name in re.findall(r"QUIVER_([A-Z_]+)=", recipe)}
    assert len(told) > 10
    listed = re.search(r"CRASH_TESTS := (.*?)\n\n", makefile, re.DOTALL)
    assert listed is not None
    names = set(re.findall(r"[a-z_]+(?:/[a-z_]+)+", listed[1]))
    places = {ROOT / "tests" / f"{name}.py" for name in names}
    assert all(place.is_file() for place in places)
    places |= {ROOT / place for place in re.findall(r"tests/[a-z_/]+(?:\.py)?", recipe)}
    wanted = {
        path
        for path in (ROOT / "tests").rglob("test_*.py")
        if any(told & set(_NAME.findall(line)) for line in _lines_of(path) if "environ" in line)
    }
    assert len(wanted) > 20
    left_out = {each for each in wanted if not places & {each, *each.parents}}
    assert not left_out
