"""``sql``: results equal what DuckDB gives on the whole tables; nothing else can be reached."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import quiver
from quiver.cli import formats, query
from quiver.scan import Scan

NS = 1_700_000_000_123_456_789
SQL = (sys.executable, "-m", "quiver", "sql")


def write(folder: Path) -> Path:
    with quiver.open(folder, slots=["sales", "my.shops", "order", "empty"], worker=False) as store:
        for first in (0, 3, 6):
            ids = range(first, first + 3)
            sales = {
                "id": ids,
                "name": [f"é{i}" if i else None for i in ids],
                "at": pa.array([NS + i for i in ids], pa.timestamp("ns", tz="Europe/Paris")),
                "kind": pa.array(["a", "b", "a"]).dictionary_encode(),
                "price": pa.array([f"{i}.50" for i in ids]).cast(pa.decimal128(9, 2)),
                "tags": [["x"] * (i % 3) for i in ids],
                "place": [{"row": i} for i in ids],
            }
            store.append({"sales": pa.table(sales), "my.shops": pa.table({"shop": [first]})})
            store.finalize()
        store.append({"order": pa.table({"n": range(2500)})})
    return folder


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Path:
    return write(tmp_path_factory.mktemp("sql") / "store")


@pytest.fixture
def ask(run, shop):
    return lambda *arguments: run("sql", shop, *arguments)


def read(kind: str, data: bytes) -> list[dict]:
    if kind == "arrow":
        return pa.ipc.open_stream(data).read_all().to_pylist()
    if kind == "parquet":
        return pq.read_table(io.BytesIO(data)).to_pylist()
    if kind == "csv":
        return pc.read_csv(io.BytesIO(data)).to_pylist()
    if kind == "ndjson":
        return [json.loads(line) for line in data.splitlines()]
    return json.loads(data)


STATEMENT = """
    select kind, count(*) as sales, sum(id) as ids, max(shop) as shop
    from sales left join "my.shops" on id = shop where id > 1 group by kind order by kind
"""


@pytest.mark.parametrize("kind", ["csv", "json", "ndjson", "parquet", "arrow"])
def test_each_format_gives_what_duckdb_gives_on_the_whole_tables(ask, shop, kind) -> None:
    connection = duckdb.connect()
    for name in ("sales", "my.shops"):
        connection.register(name, quiver.scan(shop, slot=name).to_table())
    cursor = connection.execute(STATEMENT)
    names = [column[0] for column in cursor.description]
    expected = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    assert len(expected) == 2
    done = ask(STATEMENT, "--format", kind)
    assert (done.code, done.err) == (0, "")
    found = read(kind, done.raw)
    assert [{**row, "ids": int(row["ids"])} for row in found] == expected


def test_the_default_is_csv_in_a_pipe_and_a_table_on_a_terminal(ask, shop, kit) -> None:
    assert ask("select 1 as one").out == '"one"\n1\n'
    statement = "select id, name from sales where id < 2 order by id"
    shown = re.sub(r"\x1b\[[0-9;]*m|\r", "", kit.on_terminal("sql", str(shop), statement))
    lines = [line.split() for line in shown.splitlines()]
    assert lines[-3:] == [["id", "name"], ["0", "NULL"], ["1", "é1"]]
    assert "no text for a terminal" in kit.on_terminal(
        "sql", str(shop), "select 1", "--format", "parquet"
    )


def test_a_table_says_how_many_rows_and_a_long_one_comes_in_blocks(ask) -> None:
    assert ask("select 1 as a where false", "--format", "table").out == (
        "rows: none, of 1 column: a\n"
    )
    whole = ask('select n, n % 2 = 0 as even from "order" where n < 2', "--format", "table").out
    assert whole == "2 rows\nn  even\n0  true\n1  false\n"
    lines = ask('from "order"', "--format", "table").out.splitlines()
    titles = [line for line in lines if "row" in line]
    assert titles == ["rows 1 to 1,000", "rows 1,001 to 2,000", "rows 2,001 to 2,500"]
    assert [int(line) for line in lines if line.strip().isdigit()] == list(range(2500))


def test_numbers_stand_to_the_right_and_a_thousand_has_no_comma(ask) -> None:
    text = ask(
        "select 1234567 as i, 1.5 as d, 'x' as longer union all select 8, 10.25, 'y'",
        "--format",
        "table",
    ).out
    assert text.splitlines()[1:] == [
        "      i      d  longer",
        "1234567   1.50  x",
        "      8  10.25  y",
    ]


def test_values_of_many_types_are_written_as_cat_writes_them(ask, run, shop) -> None:
    command = ("select * from sales order by id", "--format", "ndjson")
    assert ask(*command).out == run("cat", shop, "--slot", "sales", "--format", "ndjson").out
    found = ask("select * from sales where id = 4", "--format", "table").out
    assert found.splitlines()[1].split() == [
        *("id", "name", "at", "kind", "price", "tags", "place")
    ]
    assert found.splitlines()[2].split() == [
        "4",
        "é4",
        "2023-11-14T22:13:20.123456793Z",
        "b",
        "4.50",
        '["x"]',
        '{"row":4}',
    ]


def test_sums_of_integers_are_numbers_in_json_and_long_ones_strings(ask) -> None:
    statement = "select sum(id) as s, 100000000000000000000::hugeint as h, 1.00 as d from sales"
    assert ask(statement, "--format", "json").document == [
        {"s": 36, "h": "100000000000000000000", "d": "1.00"}
    ]
    assert ask("select 1 where false", "--format", "json").document == []


def test_the_statement_may_be_in_a_file_or_come_from_stdin(ask, shop, tmp_path) -> None:
    path = tmp_path / "q.sql"
    path.write_text("-- how many\nselect count(*) as n\nfrom sales;\n")
    assert ask("--file", path).out == '"n"\n9\n'
    done = subprocess.run(
        [*SQL, str(shop), "--file", "-"], input=path.read_bytes(), capture_output=True, check=False
    )
    assert (done.stdout, done.stderr) == (b'"n"\n9\n', b"")
    path.write_bytes(b"select '\xff'")
    for file, message in ((path, "no text in UTF-8"), (tmp_path / "gone", "No such file")):
        result = ask("--file", file)
        assert (result.code, result.out) == (2, "")
        assert message in result.err


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        ([], 2, "say what to run"),
        (["select 1", "--file", "q.sql"], 2, "say what to run"),
        (["select 1", "--format", "xml"], 2, "'xml' is not one of"),
        ([""], 2, "one statement is wanted, not 0"),
        (["select 1; select 2"], 2, "one statement is wanted, not 2"),
        (["select 1\0"], 2, "null character"),
        (["create table t as select 1"], 2, "CREATE is not for quiver sql"),
        (["insert into sales values (1)"], 2, "INSERT is not for quiver sql"),
        (["set threads = 1"], 2, "SET is not for quiver sql"),
        (["select * from nope"], 2, "Table with name nope does not exist"),
        (["select * from empty"], 3, "no finalized segment"),
        (["select ? from sales"], 2, "parameter"),
        (["select name::int from sales"], 2, "Could not convert string"),
        (["select error('no more') from sales"], 2, "no more"),
    ],
)
def test_what_cannot_be_run_is_said(ask, arguments, code, message) -> None:
    result = ask(*arguments)
    assert (result.code, result.out) == (code, "")
    assert message in result.err
    assert "Traceback" not in result.err
    assert result.err.splitlines()[-1].startswith("hint: ")


def test_an_error_keeps_the_place_that_duckdb_points_at(ask) -> None:
    result = ask("select id,\n  nope\nfrom sales")
    lines = result.err.splitlines()
    place = next(index for index, line in enumerate(lines) if line.startswith("LINE 2: "))
    assert lines[place + 1].index("^") == lines[place].index("nope")
    assert lines[-1] == 'hint: the tables are the slots: sales, "my.shops", order, empty'


@pytest.mark.parametrize(
    "statement",
    [
        "select * from read_csv('{file}')",
        "select * from '{file}'",
        "select * from read_text('{file}')",
        "select * from glob('{folder}/*')",
        "copy sales to '{folder}/out.csv'",
        "attach '{folder}/other.db'",
        "install httpfs",
        "load httpfs",
        "export database '{folder}/out'",
        "set enable_external_access = true",
        "select * from hidden",
        "select * from read_parquet('https://localhost/x.parquet')",
    ],
)
def test_sql_reaches_no_file_no_extension_and_no_variable(
    ask, statement, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(query, "hidden", pa.table({"word": ["sesame"]}), raising=False)
    (tmp_path / "secret.csv").write_text("word\nsesame\n")
    text = statement.format(file=tmp_path / "secret.csv", folder=tmp_path)
    result = ask(text)
    assert (result.code, result.out) == (2, "")
    assert "sesame" not in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]


def test_reading_changes_nothing_in_the_store(ask, shop, kit) -> None:
    before = kit.tree_digest(shop)
    assert ask("select count(*) from sales").code == 0
    assert ask("show tables").code == 0
    assert kit.tree_digest(shop) == before


def test_only_slots_that_the_statement_names_are_opened(ask, monkeypatch) -> None:
    opened: list[str] = []
    honest = Scan.__init__

    def init(self: Scan, *args, **named) -> None:
        opened.append(named["slot"])
        honest(self, *args, **named)

    monkeypatch.setattr(Scan, "__init__", init)
    assert ask("select count(*) from SALES").out.endswith("\n9\n")
    assert opened == ["sales"]
    opened.clear()
    assert ask("show tables").out.split() == ['"name"', '"my.shops"', '"order"', '"sales"']
    assert opened == ["sales", "my.shops", "order", "empty"]


def test_only_columns_and_rows_that_the_statement_needs_are_asked_for(ask, monkeypatch) -> None:
    calls = []
    honest = Scan.select

    def select(self: Scan, columns=None, where=None) -> Scan:
        calls.append((columns, where))
        return honest(self, columns, where)

    monkeypatch.setattr(Scan, "select", select)
    assert ask("select name from sales where id > 7").out == '"name"\n"é8"\n'
    assert calls
    for columns, where in calls:
        assert set(columns) <= {"name", "id"}
        assert "(id > 7)" in str(where)


def test_what_duckdb_has_no_type_for_is_left_out_and_told(run, tmp_path) -> None:
    with quiver.open(tmp_path / "s", slots=["x"], worker=False) as store:
        store.append({"x": pa.table({"h": pa.array([1.5], pa.float16()), "n": [1]})})
    result = run("sql", tmp_path / "s", "from x")
    assert (result.code, result.out) == (0, '"n"\n1\n')
    assert result.err == "slot 'x' without what DuckDB has no type for: 'h' (halffloat)\n"
    assert run("sql", tmp_path / "s", "from x", "-q").err == ""


def test_slots_that_differ_in_case_alone_are_refused_by_name(run, tmp_path) -> None:
    with quiver.open(tmp_path / "s", slots=["x1", "X1", "y"], worker=False) as store:
        store.append({name: pa.table({"n": [1]}) for name in ("x1", "X1", "y")})
    result = run("sql", tmp_path / "s", "from x1")
    assert result.code == 2
    assert "slots 'x1' and 'X1' are one name in SQL" in result.err
    assert run("sql", tmp_path / "s", "from y").code == 0


def test_a_damaged_segment_is_exit_code_9_and_names_file_and_offset(run, shop, tmp_path, kit):
    store = Path(shutil.copytree(shop, tmp_path / "copy"))
    path = store / "core_0/segments/0000000000000001.qseg"
    kit.flip(path, 200)
    result = run("sql", store, "select sum(id), max(name) from sales")
    assert (result.code, result.out) == (9, "")
    assert f"in {path} at byte 0" in result.err
    assert "Traceback" not in result.err


def test_without_the_extra_it_says_what_to_install(ask, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    result = ask("select 1")
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "quiver: quiver sql needs the package 'duckdb'\nhint: pip install 'quiver-store[sql]'\n"
    )


def test_a_plan_is_drawn_line_by_line(ask) -> None:
    lines = ask("explain select id from sales where id > 3", "--format", "table").out.splitlines()
    assert any("id" in line and ">" in line for line in lines)
    assert not any("\\n" in line for line in lines)


def test_rows_without_columns_are_counted_in_a_table(capsys) -> None:
    from quiver.cli.output import Output

    batch = pa.record_batch({"a": [1, 2]}).select([])
    formats.write_table(Output(), [batch], batch.schema)
    assert capsys.readouterr().out == "2 rows without columns\n"


def test_a_name_that_is_there_twice_is_refused_in_json_alone(ask) -> None:
    assert ask("select 1 as a, 2 as a").out == '"a","a"\n1,2\n'
    result = ask("select 1 as a, 2 as a", "--format", "json")
    assert (result.code, result.out) == (2, "")
    assert "column 'a' is there twice" in result.err
