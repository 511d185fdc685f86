"""Dead letters of an exporter are sent again as its page says, to that exporter alone."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from pipeline_kit import FakeParts, Sink, names, opened, pipeline_of

import quiver
import quiver.otel.exporters
from quiver.otel.nodes import Accepted, Delivered, Outcome, Refused

PAGE = Path(quiver.otel.exporters.__file__).with_name("EXPORTERS.md")


def refusing(each: Delivered) -> Outcome:
    return Refused("odd") if names(each.batch)[0].startswith("t") else Accepted()


def letters_of(folder: Path) -> None:
    """Send four logs, of which one exporter refuses two; take its letters away."""
    parts = FakeParts(a=Sink(answer=refusing), b=Sink())
    pipeline = opened(pipeline_of(folder, "in > keep > a, b"), parts)
    for each in ("one", "two", "three", "four"):
        parts.send(each)
    assert pipeline.stop() == 0
    assert parts.sinks["a"].got == ["one", "four"]
    assert parts.sinks["b"].got == ["one", "two", "three", "four"]
    with quiver.open(folder / "data", worker=False) as store:
        lag = store.lag("a")
        assert (lag.bundle_count, lag.dead_letter_count) == (0, 2)
    (folder / "letters").mkdir()
    (folder / f"data/core_0/dead_letters/{lag.subscriber_id}").rename(folder / "letters/0")


def test_dead_letters_are_sent_again_once_to_who_refused_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters_of(tmp_path)
    monkeypatch.chdir(tmp_path)
    (sample,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    whole = sample.split("os.rename")[0]
    exec(whole, {})  # As far as something that was broken off.
    (tmp_path / "letters/0/half.qseg").write_bytes(b"no reason is beside it")
    exec(sample, {})
    with pytest.raises(OSError, match="not empty"):
        exec(sample, {})  # Nothing is there twice.
    for refused in (["two", "three"], []):  # Then they are done with.
        parts = FakeParts()
        path = Path(pipeline_of(tmp_path, "in > keep > a"))
        path.write_text(path.read_text().replace("path: data", "path: again"))
        pipeline = opened(str(path), parts)
        assert pipeline.stop() == 0
        assert parts.sinks["a"].got == refused
    shutil.rmtree("letters")
    with quiver.open(tmp_path / "data", worker=False) as store:
        assert [lag.bundle_count for lag in store.lags()] == [0, 0]
