"""Dead letters of an exporter are sent again as its page says, to that exporter alone."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner
from pipeline_kit import FakeParts, Sink, names, opened, pipeline_of

import quiver
import quiver.otel.exporters
from quiver.cli.program import program
from quiver.otel.nodes import Accepted, Delivered, Outcome, Refused

PAGE = Path(quiver.otel.exporters.__file__).with_name("EXPORTERS.md")


def refusing(each: Delivered) -> Outcome:
    return Refused("odd") if names(each.batch)[0].startswith("t") else Accepted()


def test_dead_letters_are_sent_again_once_to_who_refused_them(tmp_path: Path) -> None:
    data = tmp_path / "data"
    file = pipeline_of(tmp_path, "in > keep > a, b")
    parts = FakeParts(a=Sink(answer=refusing), b=Sink())
    pipeline = opened(file, parts)
    for each in ("one", "two", "three", "four"):
        parts.send(each)
    assert pipeline.stop() == 0
    assert parts.sinks["a"].got == ["one", "four"]
    assert parts.sinks["b"].got == ["one", "two", "three", "four"]
    with quiver.open(data, worker=False) as store:
        lag = store.lag("a")
        assert (lag.bundle_count, lag.dead_letter_count) == (0, 2)
    (command,) = re.findall(
        r"^    quiver (dead-letters retry .*?)  ", PAGE.read_text(), re.MULTILINE
    )
    arguments = command.replace("data", str(data)).replace("upstream", "a").split()
    for refused in (["two", "three"], []):  # Then they are done with.
        found = CliRunner().invoke(program, arguments, catch_exceptions=False)
        assert found.exit_code == 0
        parts = FakeParts()
        assert opened(file, parts).stop() == 0
        assert (parts.sinks["a"].got, parts.sinks["b"].got) == (refused, [])
