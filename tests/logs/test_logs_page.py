"""LOGS.md lists the events that the code has, each with its level, logger and fields."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import quiver
from quiver.events import Events

HOUSE = Path(quiver.__file__).parent
PAGE = (HOUSE / "LOGS.md").read_text()
LEVELS = {"info": "info", "warning": "warning", "error": "error", "begin": "warning"}
TELLERS = {"events.py", "__init__.py", "logged.py"}


class Row(NamedTuple):
    level: str
    logger: str
    fields: tuple[str, ...]
    once: bool


def page_rows() -> dict[str, Row]:
    row = r"^\| `([a-z]+\.[a-z_]+)` \| ([a-z]+) \| `([a-z.]+)` \| ([^|]*) \| ([^|]+) \|$"
    found = re.findall(row, PAGE, re.MULTILINE)
    assert len({name for name, *_ in found}) == len(found) > 20
    return {
        name: Row(level, logger, tuple(re.findall(r"`([^`]+)`", fields)), when.startswith("once: "))
        for name, level, logger, fields, when in found
    }


def noted(text: str, place: str = "") -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Find the calls that note an event: method, name, fields. What is no literal is an error."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner = ast.unparse(node.func.value).split(".")[-1]
        if node.func.attr in LEVELS and owner.lstrip("_") == "events":
            assert len(node.args) == 1, (place, node.lineno)
            assert isinstance(node.args[0], ast.Constant), (place, node.lineno)
            fields = tuple(keyword.arg for keyword in node.keywords)
            assert None not in fields, (place, node.lineno)
            yield node.func.attr, node.args[0].value, fields


def code_events() -> dict[str, set[tuple[str, tuple[str, ...]]]]:
    found: dict[str, set[tuple[str, tuple[str, ...]]]] = {}
    for path in sorted(HOUSE.rglob("*.py")):
        if path.name != "events.py":
            for method, name, fields in noted(path.read_text(), str(path)):
                found.setdefault(name, set()).add((method, fields))
    return found


def test_the_page_has_every_event_of_the_code_and_the_code_every_one_of_the_page() -> None:
    page, code = page_rows(), code_events()
    assert set(page) == set(code)
    for name, places in code.items():
        row = page[name]
        assert {LEVELS[method] for method, _ in places} == {row.level}, name
        assert {fields for _, fields in places} == {row.fields}, name
        assert {method == "begin" for method, _ in places} == {row.once}, name


@pytest.mark.parametrize("name", page_rows())
def test_the_logger_on_the_page_is_the_one_that_is_used(name, caplog) -> None:
    caplog.set_level(logging.INFO, "quiver")
    events = Events()
    events.info(name)
    events.tell()
    (record,) = caplog.records
    assert (record.name, record.getMessage()) == (page_rows()[name].logger, name)
    room = record.name.removeprefix("quiver.")
    assert (HOUSE / room).is_dir(), "a logger is named after a room"


def test_no_field_is_a_name_that_a_log_record_has_itself() -> None:
    taken = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
    fields = {field for row in page_rows().values() for field in row.fields}
    assert not taken & (fields | {"store", "core"})
    assert not {field for field in fields if re.search(r"(_ns|_size|_length)$", field)}


def direct_loggers(files: list[Path]) -> list[str]:
    return [str(p) for p in files if p.name not in TELLERS and "getLogger" in p.read_text()]


def test_nobody_logs_past_the_events(tmp_path) -> None:
    assert direct_loggers(sorted(HOUSE.rglob("*.py"))) == []
    (tmp_path / "room.py").write_text("_log = logging.getLogger('quiver.room')")
    assert direct_loggers([tmp_path / "room.py"])


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("core.events.info('a.b', n=1)", [("info", "a.b", ("n",))]),
        ("self._events.begin('a.b')", [("begin", "a.b", ())]),
        ("events.warning('a.b', x=1, y=2)", [("warning", "a.b", ("x", "y"))]),
        ("log.info('a.b')", []),
        ("core.events.tell()", []),
    ],
)
def test_the_walk_through_the_code_sees_what_notes_an_event(text, wanted) -> None:
    assert list(noted(text)) == wanted


@pytest.mark.parametrize("text", ["events.info(name)", "events.info('a', **fields)"])
def test_an_event_that_cannot_be_read_off_the_code_is_refused(text) -> None:
    with pytest.raises(AssertionError):
        list(noted(text))


def test_the_sample_of_the_page_writes_a_line_for_each_event(capsys, tmp_path, monkeypatch) -> None:
    (sample,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    quiver_logger = logging.getLogger("quiver")
    monkeypatch.setattr(quiver_logger, "handlers", list(quiver_logger.handlers))
    monkeypatch.setattr(quiver_logger, "level", quiver_logger.level)
    exec(sample, {})
    quiver_logger.manager._clear_cache()
    with quiver.open(tmp_path, slots=["a"], worker=False):
        pass
    opened, closed = capsys.readouterr().err.splitlines()
    assert opened.startswith(f'{{"event": "store.opened", "store": "{tmp_path}", "core": 0, "dura')
    assert closed == f'{{"event": "store.closed", "store": "{tmp_path}", "core": 0}}'
    quiver_logger.manager._clear_cache()


def test_every_event_is_expected_by_a_test_of_its_own() -> None:
    tests = [p for p in Path(__file__).parent.glob("test_*.py") if p != Path(__file__)]
    text = "".join(path.read_text() for path in tests)
    assert [name for name in page_rows() if f'"{name}"' not in text] == []
