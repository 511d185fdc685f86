"""From a query's checkpoint to acks: only what is committed, and only once it is on the disk."""

from __future__ import annotations

import pytest

from quiver.checkpoint import Acker
from quiver.disk import LocalDisk
from quiver.errors import ConfigError, DamagedEntry, StorageError, SubscriberError, VersionError
from quiver.source.stores import Position


def test_what_is_committed_is_acked_and_nothing_else(ground) -> None:
    ground.lay_out(upto=3)
    with_more = ground.checkpoint / "offsets" / "4"
    with_more.write_text((ground.checkpoint / "offsets" / "3").read_text().replace(": 7", ": 8"))
    acker = ground.acker()
    assert acker.reconcile() == 7
    assert (acker.batch, ground.left()) == (3, 11)
    assert acker.reconcile() == 0
    ground.lay_out()
    assert acker.reconcile() == 10
    assert (acker.batch, ground.left()) == (13, 1)
    assert ground.acker().reconcile() == 0


def test_without_a_commit_nothing_is_acked(ground) -> None:
    assert ground.acker().reconcile() == 0
    (ground.checkpoint / "commits").mkdir(parents=True)
    assert ground.acker().reconcile() == 0
    assert ground.left() == 18


@pytest.mark.parametrize("text", ["", "v1", "v1\n", "\0\0\0\0"])
@pytest.mark.parametrize("folder", ["commits", "offsets"])
def test_an_entry_that_a_power_cut_left_empty_is_none(ground, folder, text) -> None:
    ground.lay_out(upto=3)
    (ground.checkpoint / folder / "3").write_text(text)
    assert ground.acker().reconcile() == 6


def test_entries_of_a_newer_spark_are_refused(ground) -> None:
    ground.lay_out(upto=3)
    (ground.checkpoint / "offsets" / "3").write_text("v2\n{}\n{}")
    with pytest.raises(VersionError, match="version v2"):
        ground.acker().reconcile()


def test_of_two_reads_of_one_slot_the_one_behind_counts(ground) -> None:
    ground.lay_out(upto=3)
    path = ground.checkpoint / "offsets" / "3"
    line = path.read_text().splitlines()[-1]
    path.write_text(path.read_text() + "\n-\n" + line.replace(": 7", ": 5"))
    assert ground.acker().reconcile() == 5


def test_another_queries_checkpoint_acks_nothing(ground) -> None:
    ground.lay_out(upto=3)
    with pytest.raises(ConfigError, match="another one's"):
        ground.acker().reconcile({0: Position(6)})
    path = ground.checkpoint / "offsets" / "3"
    path.write_text(path.read_text().replace("logs", "others"))
    with pytest.raises(ConfigError, match="nothing of slot 'logs'"):
        ground.acker().reconcile({0: Position(7)})
    assert ground.left() == 18


def test_who_was_followed_by_another_acks_no_more(ground) -> None:
    ground.lay_out(upto=3)
    old, new = ground.acker(), ground.acker()
    with pytest.raises(SubscriberError, match="another process"):
        old.check()
    with pytest.raises(SubscriberError, match="another process"):
        old.reconcile()
    assert ground.left() == 18
    new.check()
    assert new.reconcile() == 7


class Synced:
    """What was synced by name, in order, seen at the door to the system."""

    def __init__(self, monkeypatch, acker: Acker) -> None:
        self.names: list[str] = []
        self.acker = acker
        from quiver.checkpoint import folder, reconciler, sink

        def note(disk, path):
            self.names.append(disk.locate(path))

        monkeypatch.setattr(folder, "sync_file", note)
        monkeypatch.setattr(sink, "sync_file", note)
        monkeypatch.setattr(reconciler, "sync_everything", lambda: self.names.append("everything"))
        sync_dir = LocalDisk.sync_dir

        def note_dir(disk, path):
            self.names.append(disk.locate(path).rstrip("/") + "/")
            sync_dir(disk, path)

        monkeypatch.setattr(LocalDisk, "sync_dir", note_dir)


def test_all_that_a_batch_rests_on_is_synced_before_the_ack(ground, monkeypatch) -> None:
    ground.lay_out(upto=3)
    acker = ground.acker()
    acker.reconcile()
    ground.lay_out(upto=5)
    state = ground.checkpoint / "state" / "0" / "0"
    state.mkdir(parents=True)
    (state / "6.delta").touch()
    seen = Synced(monkeypatch, acker)
    monkeypatch.setattr(acker._consumer, "ack_before", lambda _: seen.names.append("ack") or 2)
    acker.reconcile()
    before = seen.names[: seen.names.index("ack")]
    parts = [name for name in before if name.endswith(".parquet")]
    assert len(parts) == 2, "those of batches 4 and 5 alone"
    for name in ("offsets/5", "commits/5", "metadata", "offsets/", "commits/", ""):
        assert f"{ground.checkpoint}/{name}" in before
    for name in ("_spark_metadata/5", "_spark_metadata/4", "_spark_metadata/", ""):
        assert f"{ground.sink}/{name}" in before
    assert f"{state}/6.delta" in before


@pytest.mark.parametrize(("sink", "everything"), [("", True), ("synced", False)])
def test_a_sink_that_is_not_known_is_synced_with_everything(
    ground, monkeypatch, sink, everything
) -> None:
    ground.lay_out(upto=3)
    acker = ground.acker(sink=sink)
    seen = Synced(monkeypatch, acker)
    assert acker.reconcile() == 7
    assert ("everything" in seen.names) is everything


def test_a_compacted_log_names_the_files_of_batches_before_it(ground, monkeypatch) -> None:
    ground.lay_out()
    acker = ground.acker()
    seen = Synced(monkeypatch, acker)
    assert acker.reconcile() == 17
    assert len({name for name in seen.names if name.endswith(".parquet")}) == 14


def test_a_file_that_cannot_be_synced_is_not_acked(ground, monkeypatch) -> None:
    ground.lay_out(upto=3)
    acker = ground.acker()

    def fail(disk, path):
        raise StorageError("no", path=path)

    monkeypatch.setattr("quiver.checkpoint.sink.sync_file", fail)
    with pytest.raises(StorageError):
        acker.reconcile()
    assert ground.left() == 18


def test_a_file_that_a_power_cut_left_shorter_is_not_acked(ground) -> None:
    ground.lay_out(upto=3)
    part = min(ground.sink.glob("*.parquet"))
    whole = part.read_bytes()
    part.write_bytes(whole[:-1])
    with pytest.raises(DamagedEntry, match="not what Spark wrote") as caught:
        ground.acker().reconcile()
    assert (caught.value.expected, caught.value.found) == (len(whole), len(whole) - 1)
    assert ground.left() == 18
    part.unlink()  # Whoever deletes one means to.
    assert ground.acker().reconcile() == 7


def test_a_batch_whose_own_commit_is_gone_is_looked_at_too(ground) -> None:
    ground.lay_out(upto=3)
    (ground.checkpoint / "commits" / "2").unlink()
    (ground.sink / "_spark_metadata" / "2").unlink()
    with pytest.raises(ConfigError, match="no log of batch 2"):
        ground.acker().reconcile()
    assert ground.left() == 18


def test_a_sink_without_a_log_of_the_batch_is_not_the_sink(ground, tmp_path) -> None:
    ground.lay_out(upto=3)
    for sink in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(ConfigError, match="no log of batch"):
            ground.acker(sink=str(sink)).reconcile()
    assert ground.left() == 18


@pytest.mark.parametrize(
    ("path", "said"),
    [("s3://bucket/ck", "not on a disk"), ("relative/ck", "not a whole path")],
)
def test_a_checkpoint_elsewhere_is_refused(ground, path, said) -> None:
    with pytest.raises(ConfigError, match=said):
        Acker(ground.note(), path, start="earliest", clock=None)
