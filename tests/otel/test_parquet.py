"""Tables of telemetry: their days, their joins, and each row once whatever happens."""

from __future__ import annotations

import io
import os

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from delivery_kit import Rig
from lake_kit import DAY, NOON, OWNER, at, attrs, bodies, export, files, joined, lake, logs, rows
from otlp_sinks import logs_batch
from store_kit import abandon

from quiver.bundle import RecordBundle
from quiver.disk import LocalDisk, replace
from quiver.errors import (
    CapacityError,
    DamagedEntry,
    DamageError,
    InputError,
    LockedError,
    StorageError,
)
from quiver.otel.batch import Batch
from quiver.otel.exporters.parquet.days import DAYS_MAX
from quiver.otel.exporters.parquet.folder import LakeFolder
from quiver.otel.exporters.parquet.names import FileName, decode_places, encode_places
from quiver.otel.nodes import Accepted, Delivered, Refused
from quiver.otel.signals import Signal
from quiver.testing import MemoryDisk, crash_images

TODAY = "date=2024-10-04"


def test_ids_that_come_again_in_each_bundle_still_join() -> None:
    disk = MemoryDisk()
    found = export(disk, at(logs("a", "b", "c"), 0), at(logs("d", "e"), 0, 1), at(logs("f"), 7))
    assert found == [Accepted()] * 3
    assert joined(disk) == [
        ("a", "v0", "v0", "v0"),
        ("b", "v1", "v0", "v0"),
        ("c", "v2", "v0", "v1"),
        ("d", "v0", "v0", "v0"),
        ("e", "v1", "v0", "v0"),
        ("f", "v0", "v0", "v0"),
    ]
    name = f"{TODAY}/part-0-0000000000000000.000000-0000000000000007.000000.parquet"
    assert [list(files(disk, slot)) for slot in ("logs", "log_attrs")] == [[name], [name]]


def test_the_tables_of_a_day_join_and_what_days_share_is_in_each() -> None:
    disk = MemoryDisk()
    export(disk, at(logs("a", "b", "c", "d", time=NOON, step=DAY // 4), 3))
    assert [(row["date"], row["body"]["str"]) for row in rows(disk, "logs")] == [
        ("2024-10-04", "a"),
        ("2024-10-04", "b"),
        ("2024-10-05", "c"),
        ("2024-10-05", "d"),
    ]
    assert len(joined(disk)) == 4
    assert [row["date"] for row in rows(disk, "resource_attrs")] == ["2024-10-04", "2024-10-05"]
    assert [row["parent_id"] for row in rows(disk, "scope_attrs")] == [0, 1]


@pytest.mark.parametrize(
    "time, observed, ingested, day",
    [
        (NOON, 5 * DAY, 9 * DAY, "2024-10-04"),
        (0, 5 * DAY, 9 * DAY, "1970-01-06"),
        (0, 0, 9 * DAY, "1970-01-10"),
        (0, 0, None, "1970-01-01"),
        (-1, 0, 0, "2554-07-21"),
    ],
    ids=["time", "observed", "ingestion", "nothing", "after 2262"],
)
def test_the_day_is_of_the_item_or_of_its_ingestion(time, observed, ingested, day) -> None:
    disk = MemoryDisk()
    export(disk, at(logs("a", time=time, observed=observed), 0, ingested=ingested))
    assert [row["date"] for row in rows(disk, "logs")] == [day]
    assert [row["date"] for row in rows(disk, "log_attrs")] == [day]


@pytest.mark.parametrize("count, days", [(DAYS_MAX, DAYS_MAX), (DAYS_MAX + 1, 1)])
def test_no_request_makes_more_days_than_a_sender_can_mean(count, days) -> None:
    disk = MemoryDisk()
    many = logs(*map(str, range(count)), step=DAY)
    assert export(disk, at(many, 0, ingested=9 * DAY)) == [Accepted()]
    found = [row["date"] for row in rows(disk, "logs")]
    assert (len(found), len(set(found))) == (count, days)
    assert len(joined(disk)) == count
    if days == 1:
        assert set(found) == {"1970-01-10"}


def metrics() -> Batch:
    """Two metrics: the first with points on two days, the second without any."""
    time = pa.timestamp("ns", "UTC")
    tables = {
        "univariate_metrics": {"id": pa.array([0, 1], pa.uint16()), "name": ["m", "none"]},
        "number_data_points": {
            "id": pa.array([0, 1], pa.uint32()),
            "parent_id": pa.array([0, 0], pa.uint16()),
            "time_unix_nano": pa.array([NOON, NOON + DAY], time),
            "int_value": [1, 2],
        },
    }
    found = {name: pa.record_batch(columns) for name, columns in tables.items()}
    found["number_dp_attrs"] = attrs([0, 1], pa.uint32())
    found["metric_attrs"] = attrs([0, 1])
    return Batch(Signal.METRICS, RecordBundle(found))


def test_points_have_their_own_day_and_metrics_those_of_their_points() -> None:
    disk = MemoryDisk()
    assert export(disk, at(metrics(), 0, ingested=NOON + 2 * DAY)) == [Accepted()]
    found = {
        slot: [(row["date"][-2:], row.get("parent_id", row.get("id"))) for row in rows(disk, slot)]
        for slot in ("univariate_metrics", "number_data_points", "number_dp_attrs", "metric_attrs")
    }
    assert found == {
        "univariate_metrics": [("04", 0), ("05", 0), ("06", 1)],
        "number_data_points": [("04", 0), ("05", 0)],
        "number_dp_attrs": [("04", 0), ("05", 1)],
        "metric_attrs": [("04", 0), ("05", 0), ("06", 1)],
    }


def test_rows_that_hang_from_nothing_are_kept() -> None:
    disk = MemoryDisk()
    batch = logs("a", "b", step=DAY)
    lost = Batch(Signal.LOGS, RecordBundle({**batch.bundle, "log_attrs": attrs([0, 1, 9])}))
    export(disk, at(lost, 0, ingested=NOON + 5 * DAY))
    assert [(row["date"], row["parent_id"]) for row in rows(disk, "log_attrs")] == [
        ("2024-10-04", 0),
        ("2024-10-05", 1),
        ("2024-10-09", 9),
    ]


def test_several_parts_of_one_bundle_are_told_apart() -> None:
    disk = MemoryDisk()
    export(disk, at(logs("a"), 0), to_arrow=lambda batch: [batch, logs("b", "c")])
    assert [row["part"] for row in rows(disk, "logs")] == [0, 1, 1]
    assert [each[0] for each in joined(disk)] == ["a", "b", "c"]


def test_columns_that_come_later_are_there_for_readers_of_any_file(tmp_path) -> None:
    disk = LocalDisk(tmp_path)
    more = logs("b").bundle["logs"].append_column("flags", pa.array([3], pa.uint32()))
    wider = Batch(Signal.LOGS, RecordBundle({"logs": more}))
    export(disk, at(wider, 0))
    export(disk, at(logs("a"), 1))
    found = ds.dataset(tmp_path / "logs", partitioning="hive").to_table()
    assert sorted(map(str, found["flags"].to_pylist())) == ["3", "None"]
    assert found.schema.field("time_unix_nano").type == pa.timestamp("us", "UTC")
    assert found.schema.field("severity_text").type == pa.string()
    assert set(found["date"].to_pylist()) == {"2024-10-04"}


@pytest.mark.parametrize("time", [NOON + 123_456_789, -1, -(1 << 63), (1 << 63) - 1, 999, 1])
def test_times_are_there_for_every_reader_and_no_digit_is_lost(time: int) -> None:
    disk = MemoryDisk()
    assert export(disk, at(logs("a", time=time, observed=0), 0)) == [Accepted()]
    (data,) = files(disk, "logs").values()
    table = pq.read_table(io.BytesIO(data))
    micros = table["time_unix_nano"].cast(pa.int64())[0].as_py()
    assert micros * 1000 + table["time_unix_nano_rest"][0].as_py() == time


def test_what_no_table_can_hold_is_refused_alone() -> None:
    disk = MemoryDisk()
    odd = pa.record_batch({"id": pa.array(["x"]), "time_unix_nano": [True]})
    other = Batch(Signal.LOGS, RecordBundle({"logs": odd, "log_attrs": attrs([0])}))
    found = export(disk, at(logs("a"), 0), at(other, 1), at(logs("b"), 2), at(logs_batch("c"), 3))
    assert [type(each) for each in found] == [Accepted, Refused, Accepted, Refused]
    assert bodies(disk) == ["a", "b"]
    assert len(rows(disk, "log_attrs")) == 2


def test_what_parquet_cannot_hold_is_refused_and_holds_nothing_up() -> None:
    disk = MemoryDisk()
    odd = pa.array([pa.MonthDayNano([1, 2, 3])], pa.month_day_nano_interval())
    root = logs("b").bundle["logs"].append_column("odd", odd)
    other = Batch(Signal.LOGS, RecordBundle({"logs": root}))
    found = export(disk, at(logs("a"), 0), at(other, 1), at(logs("c"), 2))
    assert [type(each) for each in found] == [Accepted, Refused, Accepted]
    assert bodies(disk) == ["a", "c"]
    assert export(disk, at(logs("d"), 3)) == [Accepted()]


def test_bundles_that_come_again_are_left_out_of_each_table_that_has_them() -> None:
    disk = MemoryDisk()
    export(disk, at(logs("a"), 0), at(logs("c"), 2))
    disk.unlink(f"log_attrs/{next(iter(files(disk, 'log_attrs')))}")
    again = [at(logs(text), seq) for seq, text in enumerate("abcd")]
    assert export(disk, *again) == [Accepted()] * 4
    assert bodies(disk) == list("abcd")
    assert len(joined(disk)) == 4
    assert export(disk, *again) == [Accepted()] * 4
    assert len(joined(disk)) == 4


def test_without_a_store_each_batch_has_a_place_of_its_own() -> None:
    disk = MemoryDisk()
    exporter = lake(disk)
    exporter.export([Delivered(logs("a"), None), Delivered(logs("b"), None)])
    exporter.export([Delivered(logs("c"), None)])
    exporter.close()
    assert len(joined(disk)) == 3


def two_days(text: str) -> Batch:
    """Records of two days, in one table."""
    root = logs(f"{text}x", f"{text}y", step=DAY).bundle["logs"]
    return Batch(Signal.LOGS, RecordBundle({"logs": root}))


def work(disk: MemoryDisk, first: int = 0) -> None:
    """Two calls of two bundles each, over midnight, each told once it may be acked."""
    exporter = lake(disk)
    for seq in range(first, 4, 2):
        some = [at(two_days(str(n)), n) for n in range(seq, seq + 2)]
        assert exporter.export(some) == [Accepted()] * 2
        disk.mark("acked", seq=seq)
    exporter.close()


EVERY = [f"{n}{x}" for n in range(4) for x in "xy"]


@pytest.mark.parametrize("error", ["EIO", "ENOSPC", "short"])
def test_whatever_act_fails_each_row_is_there_once_when_it_is_done_again(error) -> None:
    rehearsal = MemoryDisk()
    work(rehearsal)
    for act in range(rehearsal.act_count):
        disk = MemoryDisk()
        disk.fail(act, error=error)
        try:
            work(disk)
        except (StorageError, CapacityError):
            disk.forget_locks()
            work(disk)
        assert bodies(disk) == EVERY


def test_an_exporter_that_failed_goes_on_by_itself() -> None:
    rehearsal = MemoryDisk()
    work(rehearsal)
    batch = [at(two_days("a"), 0)]
    for act in range(rehearsal.act_count):
        disk = MemoryDisk()
        exporter = lake(disk)
        disk.fail(disk.act_count + act, error="ENOSPC")
        try:
            exporter.export(batch)
        except CapacityError:
            exporter.export(batch)
        exporter.close()
        assert bodies(disk) == ["ax", "ay"]


@pytest.mark.parametrize("model", ["posix", "journaled"])
def test_after_any_power_cut_each_row_is_there_once(model) -> None:
    disk = MemoryDisk()
    work(disk)
    judged = 0
    for image in crash_images(disk.history, model=model, budget=400):
        after = image.disk()
        acked = [dict(mark.facts)["seq"] for mark in image.marks]
        work(after, max(acked, default=-2) + 2)
        assert bodies(after) == EVERY
        judged += 1
    assert judged > 40


@pytest.mark.filterwarnings("ignore:.* was lost without an outcome:ResourceWarning")
def test_a_store_is_emptied_into_tables_through_kills() -> None:
    out, disk = MemoryDisk(), MemoryDisk()
    for life in range(3):
        rig = Rig(lake(out), disk)
        for text in "ab":
            rig.store.append(logs(f"{life}{text}").bundle)
        rig.store.finalize()
        rig.steps()
        if life < 2:
            rig.clock.step(61)
            if life == 0:
                rig.delivery._write_down = lambda: False  # The kill comes before the acks.
            rig.steps(2)
            abandon(rig.store)
            rig.delivery._subscription.close()
            out.forget_locks()
            continue
        rig.delivery.stop(60)
        rig.delivery.run()
        assert rig.left() == 0
        rig.store.close()
    assert bodies(out) == ["0a", "0b", "1a", "1b", "2a", "2b"]


def test_a_folder_has_one_owner_and_one_exporter_for_each_core(tmp_path) -> None:
    disk = LocalDisk(tmp_path)
    first = lake(disk)
    with pytest.raises(LockedError, match=f"by process {os.getpid()}"):
        lake(disk)
    lake(disk, core=1).close()
    first.close()
    lake(disk).close()
    with pytest.raises(InputError, match="has what others exported"):
        lake(disk, owner={**OWNER, "store_id": "another"})
    replace(disk, "_quiver/owner.json", b"{}")
    with pytest.raises(InputError, match="does not say whose"):
        lake(disk)
    disk.unlink("_quiver/owner.json")
    lake(disk).close()
    export(disk, at(logs("a"), 0))
    disk.unlink("_quiver/owner.json")
    with pytest.raises(InputError, match="whose are they"):
        lake(disk)


def test_files_of_others_are_left_alone_and_damaged_ones_are_told() -> None:
    disk = MemoryDisk()
    export(disk, at(logs("a"), 0), at(logs("b"), 2))
    replace(disk, f"logs/{TODAY}/notes.txt", b"x")
    (path, data), *_ = ((p, d) for p, d in files(disk, "logs").items() if p.endswith("parquet"))
    replace(disk, f"logs/{path}", data[:-20])
    with pytest.raises(DamageError, match="no Parquet"):
        export(disk, at(logs("c"), 1))
    assert export(disk, at(logs("d"), 3)) == [Accepted()]


def test_a_bundle_of_another_core_is_refused() -> None:
    found = export(MemoryDisk(), at(logs("a"), 0), core=5)
    assert isinstance(found[0], Refused)


def test_names_and_places_are_read_again() -> None:
    name = FileName(3, (1, 0), (1 << 63, 12))
    assert FileName.parse(name.text) == name
    for text in ("part-3.parquet", name.text + "x", name.text.replace("part-3", "part-03")):
        assert FileName.parse(text) is None
    places = [(5, 3), (5, 1), (5, 2), (9, 0)]
    assert encode_places(places) == b"5.1+3 9.0+1"
    assert decode_places(b"5.1+3 9.0+1") == set(places)
    for data in (b"", b"5", b"5.1+0", b"5.1+99999999", b"\xff", b"5.1+1  6.1+1"):
        with pytest.raises(DamagedEntry):
            decode_places(data)


def test_names_that_a_killed_exporter_left_are_durable_before_they_are_trusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def killed(*_: object) -> None:
        raise StorageError("killed")

    disk = MemoryDisk()
    with monkeypatch.context() as patch:
        patch.setattr(LakeFolder, "settle", killed)
        with pytest.raises(StorageError):
            export(disk, at(two_days("a"), 0))
    assert export(disk, at(two_days("a"), 0)) == [Accepted()]
    disk.mark("acked")
    judged = 0
    for image in crash_images(disk.history, model="posix", budget=400):
        if image.marks:
            assert bodies(image.disk()) == ["ax", "ay"]
            judged += 1
    assert judged
