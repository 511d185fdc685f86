"""Files are taken once they are whole, read in order, and told of when they change."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from source_rigs import FilesRig, table, write

from quiver.disk import LocalDisk
from quiver.errors import ConfigError, LockedError, MissingError, SourceError
from quiver.source import Split
from quiver.source.files import FilesConnector, FilesOptions
from quiver.source.files.finding import Finder
from quiver.source.files.lines import csv_cut
from quiver.source.files.register import Register
from quiver.source.format import FileEntry
from quiver.testing import ManualClock, MemoryDisk


class Folder:
    """A folder, its register, and one connector."""

    def __init__(self, path: Path, **options: object) -> None:
        self.path = path / "in"
        self.path.mkdir()
        self.clock = ManualClock()
        self.register = LocalDisk(path / "register", create=True)
        self.options = FilesOptions(**{"splits": 1, **options})
        self.connector = self.open()
        self.enumerator = self.connector.enumerator()

    def open(self) -> FilesConnector:
        return FilesConnector(
            LocalDisk(self.path), self.register, options=self.options, clock=self.clock
        )

    def look(self, seconds: float = 2) -> list[str]:
        self.clock.step(seconds)
        self.enumerator.list_splits()
        return list(self.connector.register.known())

    def read(self, state: str | None = None, columns=None, connector=None):
        with closing((connector or self.connector).reader(Split("files_0"), state, columns)) as r:
            batches = [r.next(0) for _ in range(200)]
        return [batch for batch in batches if batch is not None]

    def rows(self, **more) -> list[dict]:
        return [row for batch in self.read(**more) for row in batch.batch.to_pylist()]


@pytest.fixture
def folder(tmp_path):
    found = Folder(tmp_path)
    yield found
    found.enumerator.close()


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_text_is_taken_when_two_looks_find_it_the_same(folder, kind: str) -> None:
    write(folder.path / f"a.{kind}", table(0, 3), kind)
    assert folder.look() == []
    with open(folder.path / f"a.{kind}", "a") as file:
        file.write('{"number":9}\n' if kind == "ndjson" else '9,"x"\n')
    assert folder.look() == []
    assert folder.enumerator.waiting == [f"a.{kind}"]
    assert folder.look(0.5) == [], "the same, but not for long enough"
    assert folder.look(0.5) == [f"a.{kind}"]
    assert [row["number"] for row in folder.rows()] == [0, 1, 2, 9]


@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrows"])
def test_a_file_with_an_end_is_taken_at_once_and_one_without_never(folder, kind: str) -> None:
    write(folder.path / f"whole.{kind}", table(0, 12), kind)
    data = (folder.path / f"whole.{kind}").read_bytes()
    for cut in (1, 4, len(data) // 2, len(data) - 1):
        (folder.path / f"cut-{cut}.{kind}").write_bytes(data[:cut])
    for _ in range(3):
        assert folder.look() == [f"whole.{kind}"]
    assert len(folder.enumerator.waiting) == 4
    (folder.path / f"cut-4.{kind}").write_bytes(data)
    assert folder.look() == [f"whole.{kind}", f"cut-4.{kind}"]
    assert [row["number"] for row in folder.rows()] == [*range(12), *range(12)]


def test_hidden_unfinished_empty_foreign_and_linked_files_are_left_alone(folder) -> None:
    write(folder.path / "a.csv", table(0, 1), "csv")
    data = (folder.path / "a.csv").read_bytes()
    names = [".a.csv", "_a.csv", "b.csv.tmp", "b.csv~", "b.part", "b.txt", "b.csv.crdownload"]
    for name in (*names, "_temporary/b.csv", ".hidden/b.csv"):
        (folder.path / name).parent.mkdir(exist_ok=True)
        (folder.path / name).write_bytes(data)
    (folder.path / "empty.csv").touch()
    (folder.path / "link.csv").symlink_to(folder.path / "a.csv")
    (folder.path / "loop").symlink_to(folder.path)
    os.mkfifo(folder.path / "pipe.csv")
    folder.look()
    assert folder.look() == ["a.csv"]
    assert folder.enumerator.waiting == []


def test_a_pattern_and_a_given_format_say_which_files_are_meant(tmp_path) -> None:
    folder = Folder(tmp_path, pattern="*.log", format="ndjson")
    (folder.path / "a.log").write_text('{"x":1}\n')
    (folder.path / "a.json").write_text('{"x":2}\n')
    folder.look()
    assert folder.look() == ["a.log"]
    assert folder.rows() == [{"x": 1}]
    folder.enumerator.close()


def test_files_get_their_numbers_once_whatever_their_names_and_times(folder) -> None:
    for name, when in (("m", 200), ("z", 100)):
        write(folder.path / f"{name}.parquet", table(0, 1), "parquet")
        os.utime(folder.path / f"{name}.parquet", (when, when))
    assert folder.look() == ["z.parquet", "m.parquet"]
    write(folder.path / "a.parquet", table(5, 1), "parquet")
    os.utime(folder.path / "a.parquet", (1, 1))
    assert folder.look() == ["z.parquet", "m.parquet", "a.parquet"]
    folder.enumerator.close()
    again = folder.open()
    with closing(again.enumerator()):
        assert list(again.register.known()) == ["z.parquet", "m.parquet", "a.parquet"]
    assert [b.offsets.to_pylist() for b in folder.read()] == [
        [{"file": n, "row": 0}] for n in range(3)
    ]


def test_a_file_that_changes_or_goes_is_an_error_with_a_hint(folder) -> None:
    write(folder.path / "a.parquet", table(0, 20), "parquet")
    folder.look()
    first = folder.read()[0]
    path = folder.path / "a.parquet"
    good = path.read_bytes()
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.write_bytes(good + b"x")
    for state in (None, first.state):
        with pytest.raises(SourceError, match=r"a\.parquet has changed: .* bytes") as caught:
            folder.read(state)
        assert "new rows a file of a new name" in caught.value.hint
        assert caught.value.split == "files_0"
    path.write_bytes(good)
    os.utime(path, ns=(times[0], times[1] + 1000))
    with pytest.raises(SourceError, match="written to after it was found"):
        folder.read(first.state)
    os.utime(path, ns=times)
    assert len(folder.read(first.state)) == len(folder.read()) - 1
    path.unlink()
    with pytest.raises(SourceError, match="is gone") as caught:
        folder.read(first.state)
    assert "put it back" in caught.value.hint


def test_what_is_read_to_its_end_may_go(folder) -> None:
    for name in "ab":
        write(folder.path / f"{name}.parquet", table(0, 3), "parquet")
    folder.look()
    done = folder.read()[0]
    (folder.path / "a.parquet").unlink()
    assert len(folder.read(done.state)) == 1


def test_a_file_that_cannot_be_read_is_named_and_does_not_pass(folder) -> None:
    data = b"PAR1" + b"rubbish " * 4 + (8).to_bytes(4, "little") + b"PAR1"
    (folder.path / "bad.parquet").write_bytes(data)
    assert folder.look() == ["bad.parquet"]
    with pytest.raises(SourceError, match=r"in/bad\.parquet cannot be read as parquet") as caught:
        folder.read()
    assert not caught.value.retryable


def test_a_file_without_rows_moves_the_state_alone(folder) -> None:
    write(folder.path / "a.parquet", table(0, 0), "parquet")
    write(folder.path / "b.parquet", table(0, 2), "parquet")
    folder.look()
    empty, full = folder.read()
    assert (empty.batch.num_rows, full.batch.num_rows) == (0, 2)
    assert len(folder.read(empty.state)) == 1


def test_files_go_over_the_splits_and_each_split_reads_its_own(tmp_path) -> None:
    with closing(FilesRig(tmp_path, "parquet")) as rig:
        rig.feed(64)
        seen: dict[str, set[int]] = {}
        for split in rig.list_splits():
            with closing(rig.connector.reader(split, None, None)) as reader:
                for _ in range(100):
                    batch = reader.next(0)
                    if batch is None:
                        break
                    files = {place["file"] for place in batch.offsets.to_pylist()}
                    seen.setdefault(split.id, set()).update(files)
        assert seen == {"files_0": {0, 3, 6}, "files_1": {1, 4, 7}, "files_2": {2, 5}}


def test_another_process_may_read_while_one_extends(folder) -> None:
    write(folder.path / "a.parquet", table(0, 2), "parquet")
    folder.look()
    other = folder.open()
    with pytest.raises(LockedError):
        other.enumerator()
    (only,) = folder.read(connector=other)
    write(folder.path / "b.parquet", table(2, 2), "parquet")
    folder.look()
    assert len(folder.read(only.state, connector=other)) == 1
    nobody = FilesConnector(LocalDisk(folder.path), MemoryDisk())
    with pytest.raises(MissingError, match="there is no register"):
        nobody.reader(Split("files_0"), None, None)


def test_the_number_of_splits_is_for_life(folder) -> None:
    folder.enumerator.close()
    folder.options = FilesOptions(splits=2)
    with pytest.raises(ConfigError, match="has 1 splits, not 2"):
        folder.open().enumerator()


def test_a_folder_that_is_gone_is_told_and_changes_nothing(folder) -> None:
    write(folder.path / "a.parquet", table(0, 2), "parquet")
    folder.look()
    disk = MemoryDisk()
    finder = Finder(disk, clock=ManualClock())
    assert finder.look({}) == []
    disk.list_dir = lambda path: (_ for _ in ()).throw(MissingError("no", path=path))
    with pytest.raises(SourceError, match="there is no folder") as caught:
        finder.look({})
    assert caught.value.retryable


CSV = 'a,b\n1,"x\ny"\n2,5" pipe\n3,"say ""hi"""\n,\n'


def test_csv_is_cut_behind_records_and_types_hold_for_the_whole_file(tmp_path) -> None:
    folder = Folder(tmp_path, block_bytes=1, batch_rows=1)
    (folder.path / "a.csv").write_text(CSV)
    (folder.path / "bom.csv").write_bytes(b"\xef\xbb\xbf" + b"a;b\r\n1;2\r\n")
    (folder.path / "head.csv").write_text("a,b\n")
    folder.look()
    folder.look()
    rows = folder.rows()
    assert rows[:4] == [
        {"a": 1, "b": "x\ny"},
        {"a": 2, "b": '5" pipe'},
        {"a": 3, "b": 'say "hi"'},
        {"a": None, "b": None},
    ]
    assert rows[4:] == [{"a;b": "1;2"}]
    folder.enumerator.close()


def test_types_of_text_may_be_given(tmp_path) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.float32())])
    folder = Folder(tmp_path, schema=schema)
    (folder.path / "a.csv").write_text("a,b\n1,2\n")
    (folder.path / "b.ndjson").write_text('{"a":"1"}\n')
    folder.look()
    folder.look()
    assert folder.rows() == [{"a": "1", "b": 2.0}, {"a": "1", "b": None}]
    kinds = [str(b.batch.schema.field("b").type) for b in folder.read(columns=["b"])]
    assert kinds == ["float", "float"]
    folder.enumerator.close()


@pytest.mark.parametrize(
    "text, fault",
    [
        ('a,b\n1,"x\n', "ends inside of quotes"),
        ("a,b\n1\n", "columns"),
        ("a,b\n1,2\nz,3\n", "conversion error"),
        pytest.param(f"{'a' * 140_000},b\n1,2\n", "names no columns", id="a long name"),
    ],
)
def test_csv_that_is_wrong_is_told_and_never_half_taken(tmp_path, text: str, fault: str) -> None:
    folder = Folder(tmp_path, block_bytes=4)
    (folder.path / "a.csv").write_text(text)
    folder.look()
    folder.look()
    with pytest.raises(SourceError, match=f"a\\.csv.*{fault}"):
        folder.read()
    folder.enumerator.close()


def test_where_csv_may_be_cut() -> None:
    data = CSV.encode()
    ends = {data.index(end) + len(end) for end in (b"a,b\n", b'y"\n', b"pipe\n", b'"""\n')}
    for length in range(len(data)):
        cut = csv_cut(data[:length], b",", is_last=False)
        assert cut == max([0, *(end for end in ends if end <= length)])
    assert csv_cut(data, b",", is_last=True) == len(data)
    assert csv_cut(b'1,"x', b",", is_last=True) is None
    assert csv_cut(b'1,"x"', b",", is_last=True) == 5


def test_a_state_is_as_small_with_many_files_as_with_few() -> None:
    disk = MemoryDisk()
    register = Register(disk)
    register.open_to_extend(4, ManualClock())
    register.extend([FileEntry(f"{n}.csv", 1, n) for n in range(3000)])
    assert register.entry(2999) == FileEntry("2999.csv", 1, 2999)
    assert register.entry(3000) is None
    connector = FilesConnector(MemoryDisk(), disk)
    with closing(connector.reader(Split("files_3"), None, None)) as reader:
        at = reader._at._replace(file=2999, unit=2**40, rows=2**20, row=2**40)
        assert len(at.encode()) < 160


@pytest.mark.parametrize(
    "wrong",
    [{"splits": 0}, {"format": "xml"}, {"batch_rows": 0}, {"separator": ",,"}, {"block_bytes": 0}],
)
def test_wrong_options_are_refused_by_name(wrong) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        FilesOptions(**wrong)


def test_parquet_of_many_row_groups_is_read_one_at_a_time(folder) -> None:
    rows = pa.table({"n": pa.array(range(1000)), "wide": pa.array(["x" * 50] * 1000)})
    parquet.write_table(rows, folder.path / "a.parquet", row_group_size=100)
    folder.look()
    batches = folder.read(columns=["n"])
    assert [batch.batch.num_rows for batch in batches] == [100] * 10
    assert batches[4].batch.schema.names == ["n"]
    assert folder.read(batches[6].state)[0].batch["n"][0].as_py() == 700


def test_a_file_that_went_is_passed_over_where_that_is_wanted(tmp_path) -> None:
    folder = Folder(tmp_path, vanished="pass", splits=1)
    for name in "abc":
        write(folder.path / f"{name}.parquet", table(0, 3), "parquet")
    folder.look()
    first = folder.read()[0]
    for name in "ab":
        (folder.path / f"{name}.parquet").unlink()
    found = folder.read(first.state)
    assert sum(batch.batch.num_rows for batch in found) == 3
    assert folder.connector.passed == ["b.parquet"]
    assert sum(batch.batch.num_rows for batch in folder.read()) == 3
    assert folder.connector.passed == ["b.parquet", "a.parquet", "b.parquet"]
    write(folder.path / "b.parquet", table(0, 5), "parquet")  # Another one is still an error.
    with pytest.raises(SourceError, match="has changed"):
        folder.read(first.state)


def test_an_empty_folder_passes_no_file_over(tmp_path) -> None:
    folder = Folder(tmp_path, vanished="pass", splits=1)
    write(folder.path / "a.parquet", table(0, 3), "parquet")
    folder.look()
    (folder.path / "a.parquet").unlink()
    with pytest.raises(SourceError, match="is gone"):
        folder.read()
    folder.path.rmdir()
    with pytest.raises(SourceError, match="is gone"):
        folder.read()
    assert folder.connector.passed == []
    with pytest.raises(ConfigError, match="vanished: 'maybe' is unknown"):
        FilesOptions(vanished="maybe")
