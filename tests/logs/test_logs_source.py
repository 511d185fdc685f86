"""What a source meets is told: once where it lasts, each time where it does not."""

from __future__ import annotations

from contextlib import closing

from source_rigs import FilesRig
from toy_source import ToySource

from quiver.disk import LocalDisk
from quiver.errors import SourceError
from quiver.events import Events
from quiver.source import (
    Acker,
    AssignSplits,
    Barrier,
    Discovery,
    Snapshots,
    SourceExecutor,
    SourceOptions,
    Split,
)
from quiver.source.files import FilesConnector, FilesOptions
from quiver.source.nats.reader import NatsReader
from quiver.testing import ManualClock, MemoryDisk


def test_a_listing_that_fails_is_told_once_and_so_is_a_split_that_is_missed(heard) -> None:
    source = ToySource({"a": [], "b": []})
    discovery = Discovery(source, clock=ManualClock())
    source.listing = SourceError("not now")
    for _ in range(3):
        discovery.tick(now=True)
    source.listing = None
    del source.rows["a"]
    for _ in range(3):
        discovery.tick(now=True)
    assert heard.names == ["source.listing_failed", "source.split_missing"]
    assert heard.of("source.listing_failed")[0]["error"] == "not now"
    assert heard.of("source.split_missing")[0]["split"] == "a"
    assert heard.of("source.split_missing")[0]["source"] == "toy"


def test_a_split_that_cannot_be_read_is_told_each_time(heard) -> None:
    source, clock = ToySource({"a": range(9)}), ManualClock()
    run = SourceExecutor(
        source,
        Snapshots(MemoryDisk(), connector="toy"),
        epoch=0,
        clock=clock,
        options=SourceOptions(threads=False),
    )
    run.send(Barrier(1, (AssignSplits((Split("a"),)),)))
    run.next(0)
    for _ in range(2):
        source.failing["a"] = SourceError("no answer", retryable=True)
        assert run.next(0) is None
        clock.step(2)
    told = heard.of("source.read_failed")
    assert [(record["error"], record["failure_count"]) for record in told] == [
        ("no answer", 1),
        ("no answer", 2),
    ]


def test_an_ack_that_a_source_refuses_is_told_once_until_it_is_over(heard) -> None:
    source, events = ToySource({"a": []}), Events(source="toy")
    acker = Acker(source, events, threads=False)
    for _ in range(2):
        source.refusal = SourceError("not now")
        acker.post({"a": "x"})
        for _ in range(3):
            assert not acker.tell()
        source.refusal = None
        assert acker.tell()
    events.tell()
    assert heard.names == ["source.ack_failed", "source.ack_failed"]


def test_a_file_that_changed_after_it_was_found_is_told_once(heard, tmp_path) -> None:
    with closing(FilesRig(tmp_path, "csv")) as rig:
        rig.feed(3)
        rig.list_splits()
        (path,) = rig.folder.rglob("*.csv")
        path.write_text("other\n")
        for _ in range(2):
            rig.list_splits()
        (told,) = heard.of("source.file_changed")
        assert told["path"] == str(path.relative_to(rig.folder))


def test_a_file_that_is_passed_over_is_told(heard, tmp_path) -> None:
    with closing(FilesRig(tmp_path, "csv")) as rig:
        rig.feed(3)
        (split, *_) = rig.list_splits()
        (path,) = rig.folder.rglob("*.csv")
        path.rename(path.with_name("other.txt"))
        options = FilesOptions(vanished="pass", splits=len(rig.list_splits()))
        disks = LocalDisk(rig.folder), LocalDisk(tmp_path / "register")
        made = FilesConnector(*disks, options=options)
        with closing(made.reader(split, None, None)) as reader:
            assert reader.next(0).batch.num_rows == 0
        (told,) = heard.of("source.file_passed")
        assert told["path"] == str(path.relative_to(rig.folder))
        assert (told["row_count"], told["split"]) == (0, split.id)


def test_a_gap_that_is_passed_over_is_told(heard) -> None:
    reader = object.__new__(NatsReader)
    reader._split, reader._subject, reader._is_strict = "S", "", False
    reader._events = Events(source="nats", split="S")
    reader._at = type("At", (), {"_replace": lambda self, sequence: sequence})()
    with reader._events.telling():
        reader._miss(5, 7)
    assert reader._at == 7
    (told,) = heard.of("source.gap")
    assert (told["first"], told["last"], told["split"]) == (5, 7, "S")
