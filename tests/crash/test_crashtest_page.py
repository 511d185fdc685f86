"""The example of CRASHTEST.md is whole and does what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import quiver.testing
from quiver.testing import Campaign, Plan

PAGE = (Path(quiver.testing.__file__).parent / "CRASHTEST.md").read_text()


def load(code: str) -> Any:
    names: dict[str, Any] = {}
    exec(code, names)
    return names["subject"](0)


def test_the_example_shows_what_the_page_says() -> None:
    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    failure = Campaign(load(code), Plan()).tell("one two three").failure
    told = [line.removeprefix("    ") for line in PAGE.split("    ...\n")[1].splitlines()]
    assert str(failure).splitlines() == told[: told.index("")]
    journaled = Plan(models=("journaled",))
    assert Campaign(load(code), journaled).tell("one two three").failure is None
    mended = code.replace('create("notes").close()', 'create("notes").close(); stage.sync_dir("")')
    assert mended != code
    assert Campaign(load(mended), Plan()).tell("one two three").failure is None
