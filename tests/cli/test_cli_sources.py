"""Files that ``ingest`` must not take as they are: pipes, open quotes, bytes of nothing known."""

from __future__ import annotations

import os
import subprocess
import sys

import pyarrow as pa
import pytest

import quiver


@pytest.mark.parametrize("kind", ["named pipe", "device"])
def test_what_is_no_regular_file_is_refused_at_once_and_makes_no_store(run, tmp_path, kind) -> None:
    path = "/dev/null"
    if kind == "named pipe":
        path = tmp_path / "pipe"
        os.mkfifo(path)  # Nobody writes to it: opening it must not wait for that.
    result = run("ingest", tmp_path / "s", "--slot", f"x={path}")
    assert (result.code, result.out) == (2, "")
    assert result.err == (f"quiver: {path} is no regular file\nhint: write it to a file first\n")
    assert not (tmp_path / "s").exists()


def test_a_pipe_with_rows_in_it_is_refused_and_not_read_from_its_middle(tmp_path) -> None:
    rows = "".join(f'{{"n":{n}}}\n' for n in range(100))
    command = [sys.executable, "-m", "quiver", "ingest", str(tmp_path / "s")]
    done = subprocess.run(
        [*command, "--slot", "x=/dev/stdin"],
        input=rows,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "/dev/stdin is no regular file" in done.stderr
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    "text, offset",
    [
        ('a,b\n1,"open\n2,3\n', 6),
        ('a,b\n1,"open', 6),
        ('a,b\n"q""x",2\n1,"', 15),
        ('"a","b\n1,2\n', 4),
        ('a\n"x"\n"y""\n', 6),
    ],
)
def test_a_csv_file_that_ends_inside_of_quotes_is_refused(run, tmp_path, text, offset) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    result = run("ingest", tmp_path / "s", "--slot", f"x={path}")
    assert (result.code, result.out) == (2, "")
    assert f"{path}: the quote at byte {offset} is never closed" in result.err
    assert "hint: the file may have been cut short" in result.err
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    "name, text, rows",
    [
        ("t.csv", 'a,b\n5" x,y\n', [{"a": '5" x', "b": "y"}]),
        ("t.csv", 'a,b\n"q"x"y,2\n', [{"a": 'qx"y', "b": 2}]),
        (
            "t.csv",
            'a,b\r\n5",\r\n"x\r\ny",z\r\n',
            [{"a": '5"', "b": ""}, {"a": "x\r\ny", "b": "z"}],
        ),
        ("t.tsv", 'a\tb\n1," x\t2\n', [{"a": '1," x', "b": 2}]),
    ],
)
def test_a_quote_inside_of_a_bare_field_is_a_character(run, tmp_path, name, text, rows) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode())
    result = run("ingest", tmp_path / "s", "--slot", f"x={path}", "--null", "none")
    assert (result.code, result.err) == (0, "")
    assert quiver.scan(tmp_path / "s", slot="x").to_table().to_pylist() == rows


def test_quotes_are_counted_in_all_blocks_of_a_file(run, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("quiver.cli.sources._BLOCK", 64)
    path = tmp_path / "t.csv"
    path.write_text("a\n" + '"x"\n' * 50)
    assert run("ingest", tmp_path / "s", "--slot", f"x={path}").code == 0
    with path.open("a") as file:
        file.write('"')
    assert (
        "the quote at byte 202 is never closed"
        in run("ingest", tmp_path / "s", "--slot", f"x={path}").err
    )


def test_a_file_of_a_header_alone_is_told_in_the_result(run, tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n")
    result = run("ingest", tmp_path / "s", "--slot", f"x={path}")
    assert result.code == 0
    assert f"nothing: {path} (csv) has no rows" in result.out
    assert "no bundle" in result.out


def deep(path) -> None:
    kind = pa.int64()
    for _ in range(49):
        kind = pa.struct([("inner", kind)])
    table = pa.table({"n": pa.nulls(1, kind)})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


def no_text(path) -> None:
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")]
    )
    with pa.ipc.new_stream(path, pa.schema([("s", pa.string())])) as writer:
        writer.write_batch(pa.record_batch({"s": bad}))


@pytest.mark.parametrize(
    "write, hint",
    [
        (deep, "limits.nesting"),
        (no_text, "texts and names must be UTF-8"),
        (lambda path: path.write_bytes(b"ARROW1\0\0" + bytes(99)), "may be damaged, cut short"),
        (lambda path: path.write_bytes(b"PAR1" + bytes(99)), "may be damaged, cut short"),
        (lambda path: path.write_text("a,b\n1\n"), "as many fields as the first"),
        (lambda path: path.write_text('{"a": \n'), "each line is one JSON object"),
    ],
    ids=["depth", "utf-8", "arrow", "parquet", "csv", "ndjson"],
)
def test_a_file_that_cannot_be_read_is_refused_with_a_hint(run, tmp_path, write, hint) -> None:
    path = tmp_path / "file"
    write(path)
    result = run("ingest", tmp_path / "s", "--slot", f"x={path}")
    assert (result.code, result.out) == (2, "")
    *_, error, last = result.err.splitlines()
    assert str(path) in error
    assert last.startswith("hint: ")
    assert hint in last
