"""A lazy view of one slot: what it reads, in which order, and what it says when it cannot."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import quiver
from quiver.disk import LocalDisk
from quiver.errors import DamageError, InputError, MissingError, StorageError
from quiver.scan import Scan, scan
from quiver.scan.snapshot import list_segments


def _log(*numbers: int) -> dict[str, pa.RecordBatch]:
    return {"logs": pa.record_batch({"n": list(numbers)})}


def _numbers(view: Scan) -> list[int]:
    return view.to_table().column("n").to_pylist()


def _segment(store: str, segment_seq: int, *, core: int = 0) -> Path:
    return Path(store, f"core_{core}", "segments", f"{segment_seq:016}.qseg")


def test_rows_come_by_core_then_segment_then_bundle(write) -> None:
    write([_log(7), _log(8, 9)], [_log(10)], core=1)
    write([_log(11)], core=10)
    store = write([_log(1, 2), _log(3)], [_log(4)], core=0)
    write([_log(5), _log(6)], core=0)

    view = scan(store, slot="logs")

    assert _numbers(view) == list(range(1, 12))
    assert view.count_rows() == 11
    assert [(s.core, s.path.split("/")[0]) for s in view.segments][-1] == (10, "core_10")


def test_one_batch_comes_for_each_bundle_that_has_the_slot(write) -> None:
    store = write([_log(1, 2), {"metrics": pa.record_batch({"m": [0.5]})}, _log(3)])
    sizes = [batch.num_rows for batch in scan(store, slot="logs").to_reader()]
    assert sizes == [2, 1]


@pytest.mark.parametrize("verify", ["lazy", "off"])
def test_a_bundle_without_rows_is_a_batch_of_its_own(write, verify) -> None:
    kind = pa.dictionary(pa.int32(), pa.string())  # It is stored with narrower indices.
    words = [["a"], [], ["b", None]]
    chunks = [pa.array(each, pa.string()).dictionary_encode().cast(kind) for each in words]
    bundles = [{"logs": pa.record_batch({"d": chunk, "m": chunk})} for chunk in chunks]
    other = {"logs": pa.record_batch({"x": pa.array([], pa.int8())})}
    view = scan(write(bundles), slot="logs", verify=verify)
    for _ in range(2):
        batches = list(view.to_reader())
        assert [batch.column("m").to_pylist() for batch in batches] == words
        assert {batch.schema.field("d").type for batch in batches} == {kind}
        assert view.to_table().column("d").to_pylist() == ["a", "b", None]
    view = scan(write([*bundles, other]), slot="logs", verify=verify)
    assert [batch.num_rows for batch in view.to_reader()] == [1, 0, 2, 1, 0, 2, 0]


def test_drifted_schemas_are_read_as_one(write) -> None:
    first = pa.record_batch({"a": pa.array([1], pa.int8()), "only": ["x"]})
    second = pa.record_batch(
        {"new": [True], "a": pa.array([1.5]), "d": pa.array(["k"]).dictionary_encode()}
    )
    third = pa.record_batch({"d": ["plain"], "a": pa.array([None])})
    store = write([{"logs": first}, {"logs": second}], [{"logs": third}])

    view = scan(store, slot="logs")

    assert dict(zip(view.schema.names, view.schema.types, strict=True)) == {
        "a": pa.float64(),
        "only": pa.string(),
        "new": pa.bool_(),
        "d": pa.string(),
    }
    assert view.to_table().to_pylist() == [
        {"a": 1.0, "only": "x", "new": None, "d": None},
        {"a": 1.5, "only": None, "new": True, "d": "k"},
        {"a": None, "only": None, "new": None, "d": "plain"},
    ]


def test_columns_choose_and_order(write) -> None:
    store = write([{"logs": pa.record_batch({"a": [1], "b": [2], "c": [3]})}])
    view = scan(store, slot="logs", columns=["c", "a"])
    assert view.schema.names == ["c", "a"]
    assert view.to_table().to_pylist() == [{"c": 3, "a": 1}]


def test_a_column_without_a_common_type_stops_only_those_who_ask_for_it(write) -> None:
    store = write(
        [
            {"logs": pa.record_batch({"a": [1], "b": [2]})},
            {"logs": pa.record_batch({"a": [3], "b": ["two"]})},
        ]
    )
    with pytest.raises(InputError, match=r"'b' is int64 .* string"):
        scan(store, slot="logs").to_table()
    assert scan(store, slot="logs", columns=["a"]).to_table().to_pylist() == [{"a": 1}, {"a": 3}]


def test_a_name_that_is_there_twice_can_be_read_but_not_chosen(write) -> None:
    arrays = [pa.array([1]), pa.array(["x"])]
    twice = pa.RecordBatch.from_arrays(arrays, names=["a", "a"])
    store = write([{"logs": twice}], [{"logs": twice}])
    table = scan(store, slot="logs").to_table()
    assert [column.to_pylist() for column in table.columns] == [[1, 1], ["x", "x"]]
    with pytest.raises(InputError, match="column 'a' twice"):
        scan(store, slot="logs", columns=["a"]).to_table()


def test_every_reading_is_a_fresh_one(write) -> None:
    view = scan(write([_log(1)], [_log(2)]), slot="logs")
    reader = view.to_reader()
    assert _numbers(view) == [1, 2]
    assert reader.read_all().num_rows == 2


def test_arrow_libraries_take_a_scan_as_it_is(write) -> None:
    view = scan(write([_log(1), _log(2)]), slot="logs")
    assert pa.table(view).to_pylist() == [{"n": 1}, {"n": 2}]
    assert pa.schema(view) == view.schema
    assert pl.DataFrame(view).equals(pl.DataFrame({"n": [1, 2]}))
    assert view.to_polars().equals(pl.DataFrame({"n": [1, 2]}))
    assert view.to_pandas()["n"].tolist() == [1, 2]


def test_small_dictionaries_of_many_segments_are_read_by_all_libraries(write) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    values = [f"value {number}" for number in range(300)]
    bundles = [
        [{"logs": pa.record_batch({"d": pa.array(values[first : first + 100], kind)})}]
        for first in (0, 100, 200)
    ]
    view = scan(write(*bundles), slot="logs")
    assert view.to_table().column("d").to_pylist() == values
    assert view.to_polars()["d"].to_list() == values
    assert view.to_pandas()["d"].tolist() == values


def test_a_scan_is_pinned_until_it_is_refreshed(write) -> None:
    store = write([_log(1)])
    view = scan(store, slot="logs")
    write([_log(2)])
    assert _numbers(view) == [1]
    assert _numbers(view.refresh()) == [1, 2]


def test_a_scan_reads_while_the_writer_has_the_store_open(tmp_path) -> None:
    with quiver.open(tmp_path / "store", slots=["logs"], worker=False) as store:
        store.append(_log(1))
        store.finalize()
        store.append(_log(2))
        assert _numbers(scan(tmp_path / "store", slot="logs")) == [1]


def test_batches_outlive_the_deletion_of_their_segment(write) -> None:
    store = write([_log(1, 2)])
    batches = list(scan(store, slot="logs").to_reader())
    _segment(store, 0).unlink()
    assert [batch.to_pylist() for batch in batches] == [[{"n": 1}, {"n": 2}]]


def test_a_pickled_scan_keeps_its_snapshot(write) -> None:
    store = write([_log(1)])
    view = scan(store, slot="logs", columns=["n"])
    again = pickle.loads(pickle.dumps(view))
    write([_log(2)])
    assert _numbers(again) == [1]
    assert repr(again) == repr(view)
    view.count_rows()
    assert _numbers(pickle.loads(pickle.dumps(view))) == [1]


def test_its_text_says_what_is_read(write) -> None:
    store = write([_log(1)], [_log(2)])
    text = repr(scan(store, slot="logs", columns=["n"]))
    assert text == f"Scan({store!r}, slot='logs', columns=['n'], 2 segments)"


def test_an_unknown_slot_is_refused_and_the_known_ones_listed(write) -> None:
    with pytest.raises(InputError, match=r"no slot 'traces'.*logs, metrics"):
        scan(write([_log(1)]), slot="traces")


def test_an_unknown_column_is_refused_and_the_known_ones_listed(write) -> None:
    store = write([{"logs": pa.record_batch({"a": [1], "b": [2]})}])
    with pytest.raises(InputError, match=r"no column 'c'.*a, b"):
        scan(store, slot="logs", columns=["a", "c"]).to_table()


@pytest.mark.parametrize("columns", ["n", ["n", "n"]])
def test_columns_are_a_list_of_distinct_names(write, columns) -> None:
    with pytest.raises(InputError, match="columns:"):
        scan(write([_log(1)]), slot="logs", columns=columns)


def test_a_slot_without_a_finalized_segment_counts_no_rows_but_has_no_schema(write) -> None:
    store = write([{"metrics": pa.record_batch({"m": [1.0]})}])
    view = scan(store, slot="logs")
    assert view.count_rows() == 0
    for read in (lambda: view.schema, view.to_table, view.to_reader, view.__arrow_c_stream__):
        with pytest.raises(MissingError, match=r"holds slot 'logs' yet .*finalize"):
            read()


def test_a_missing_store_is_told_from_a_path_that_is_a_file(tmp_path) -> None:
    with pytest.raises(MissingError):
        scan(tmp_path / "nowhere", slot="logs")
    with pytest.raises(MissingError, match="no Quiver store"):
        scan(tmp_path, slot="logs")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="is not a folder") as caught:
        scan(tmp_path / "file", slot="logs")
    assert not isinstance(caught.value, MissingError)


def test_a_segment_deleted_since_the_scan_was_made_is_missed_with_advice(write) -> None:
    store = write([_log(1)], [_log(2)])
    before, planned = scan(store, slot="logs"), scan(store, slot="logs")
    planned.count_rows()
    _segment(store, 0).unlink()
    for view in (before, planned):
        with pytest.raises(MissingError, match=r"segment 0 of core 0 is gone .*refresh\(\)"):
            view.to_table()
    assert _numbers(before.refresh()) == [2]


def test_damage_is_an_error_that_names_the_file(write) -> None:
    store = write([_log(1)])
    path = _segment(store, 0)
    path.chmod(0o600)
    data = bytearray(path.read_bytes())
    data[100] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(DamageError, match=str(path)):
        scan(store, slot="logs").to_table()


def test_the_schema_is_known_without_a_segment_mapped_and_read_once(write, monkeypatch) -> None:
    store = write(*([_log(number)] for number in range(20)), [{"metrics": _log(0)["logs"]}])
    view = scan(store, slot="logs")
    monkeypatch.setattr(quiver.disk.LocalDisk, "map", None)
    assert view.schema.names == ["n"]
    assert view.count_rows() == 20
    assert len({id(part.schema) for part in view.parts}) == 2  # The last segment has none.


def test_a_schema_that_cannot_be_read_is_damage_that_names_the_file(write, monkeypatch) -> None:
    store = write([_log(1)])

    def refuse(*_: object) -> None:
        raise DamageError("a schema cannot be read")

    monkeypatch.setattr(quiver.segment.Description, "schema", refuse)
    with pytest.raises(DamageError, match="a schema cannot be read") as caught:
        _ = scan(store, slot="logs").schema
    assert caught.value.path == str(_segment(store, 0))


def test_what_is_no_segment_is_passed_over_and_links_are_not_followed(write, tmp_path) -> None:
    store = write([_log(1)])
    segments = _segment(store, 0).parent
    outside = tmp_path / "outside.qseg"
    outside.write_bytes(_segment(store, 0).read_bytes())
    os.symlink(outside, segments / f"{7:016}.qseg")
    (segments / f"{8:016}.qseg").mkdir()
    (segments / f"{9:016}.qseg.tmp").write_text("unfinished")
    (segments / "9.qseg").write_text("another name")
    Path(store, "core_5").write_text("a file")
    Path(store, "core_6").mkdir()
    Path(store, "core_07").mkdir()
    assert _numbers(scan(store, slot="logs")) == [1]


def test_a_linked_core_folder_is_refused(write, tmp_path) -> None:
    store = write([_log(1)])
    elsewhere = tmp_path / "elsewhere"
    Path(store, "core_0").rename(elsewhere)
    os.symlink(elsewhere, Path(store, "core_0"))
    with pytest.raises(StorageError, match="core_0"):
        scan(store, slot="logs")


def test_the_front_door_and_the_folder_share_a_name_in_either_order(write) -> None:
    store = write([_log(1)])
    programs = [
        "import quiver; {use}",
        "import quiver.scan; {use}",
        "import quiver; from quiver.scan import Scan; {use}",
        "import quiver; quiver.scan; from quiver.scan import Scan; {use}",
    ]
    use = f"print(quiver.scan({store!r}, slot='logs').count_rows())"
    for program in programs:
        done = subprocess.run(
            [sys.executable, "-c", program.format(use=use)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.parametrize("path", [None, b"p", "", "a\0b", 5, ["p"]])
def test_what_names_no_folder_is_refused_in_our_words(path: Any) -> None:
    with pytest.raises(InputError, match=r"^path: "):
        scan(path, slot="logs")


def test_a_path_object_is_taken(write) -> None:
    assert _numbers(scan(Path(write([_log(1)])), slot="logs")) == [1]


@pytest.mark.parametrize("slot", [[], None, 5, b"logs", {}])
def test_what_is_no_slot_name_is_refused_in_our_words(write, slot: Any) -> None:
    with pytest.raises(InputError, match=r"^slot: .* is no name"):
        scan(write([_log(1)]), slot=slot)


@pytest.mark.parametrize("columns", [5, [5], [None], [["n"]], b"n"])
def test_what_is_no_column_name_is_refused_in_our_words(write, columns: Any) -> None:
    with pytest.raises(InputError, match=r"^columns: .* is no name"):
        scan(write([_log(1)]), slot="logs", columns=columns)


def test_where_nothing_is_left_the_hint_says_that_it_may_have_been_acked(write, tmp_path) -> None:
    store = write([_log(1)])
    with quiver.open(store, worker=False) as opened:
        opened.subscribe("reader").poll().ack()
        opened.maintain()
    with pytest.raises(MissingError) as caught:
        scan(store, slot="logs").to_table()
    assert "call finalize(), or wait" in caught.value.hint
    assert "or every subscriber has acked them already" in caught.value.hint


def test_structs_that_have_a_name_twice_are_not_widened_to_nulls(write) -> None:
    def bundle(kind: pa.DataType) -> dict[str, pa.RecordBatch]:
        pair = pa.StructArray.from_arrays([pa.array([1], kind), pa.array([2], kind)], ["a", "a"])
        return {"logs": pa.record_batch({"x": pair})}

    store = write([bundle(pa.int8()), bundle(pa.int16())])
    with pytest.raises(InputError, match="column 'x'"):
        scan(store, slot="logs").to_table()


class Overtaken(LocalDisk):
    """A disk on which segments get their names while a folder is listed, behind the first look."""

    def __init__(self, path: str, hidden: int) -> None:
        super().__init__(path)
        self.hidden = [f"{hidden:016}"]

    def list_dir(self, path: str) -> list[Any]:
        found = super().list_dir(path)
        missed = self.hidden.pop() if path.endswith("segments") and self.hidden else "none"
        return [stat for stat in found if not stat.name.startswith(missed)]


@pytest.mark.parametrize("hidden", [0, 1])
def test_a_snapshot_has_what_names_overtook_while_it_was_taken(write, hidden) -> None:
    path = write(*([{"logs": pa.record_batch({"n": [n]})}] for n in range(3)))
    with closing(Overtaken(path, hidden)) as disk:
        assert [ref.segment_seq for ref in list_segments(disk)] == [0, 1, 2]
