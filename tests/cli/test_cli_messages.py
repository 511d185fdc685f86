"""``quiver ingest --follow --messages``: what columns are, and what becomes of bad messages."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from source_rigs import NatsRig, NatsServer, nats_missing

import quiver
from quiver.cli.columns import columns_of
from quiver.errors import ConfigError

GOOD = [b'{"id": %d, "text": "row %d"}' % (n, n) for n in range(4)]
COLUMNS = ["--messages", "json", "--columns", "id:int64 not null, text:string"]


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """A folder of files with messages in them: a connector of messages that needs no server."""
    folder = tmp_path / "in"
    folder.mkdir()
    table = pa.table({"payload": [*GOOD[:2], b"rubbish", *GOOD[2:], b'{"text": "none"}']})
    pq.write_table(table, folder / "a.parquet")
    return folder


def command(store: Path, inbox: Path, *more: str) -> list[object]:
    source = ["ingest", store, "--slot", "s", "--follow", f"files:{inbox}", "--once"]
    return [*source, "--idle", "0s", *COLUMNS, *more]


def test_descriptions_of_columns() -> None:
    text = "id : int64 NOT NULL, at:timestamp[us, UTC], d:decimal128(10, 2),l:list<list<string>>"
    assert columns_of(text) == pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("at", pa.timestamp("us", "UTC")),
            ("d", pa.decimal128(10, 2)),
            ("l", pa.list_(pa.list_(pa.string()))),
        ]
    )


@pytest.mark.parametrize(
    "text",
    ["", "id", ":int64", "id:", "id:int65", "id:list<", "id:decimal128(99, 2)", "id:int64,,b:bool"],
)
def test_what_describes_no_columns_is_refused(text: str) -> None:
    deep = "id:" + "list<" * 5000 + "int64" + ">" * 5000
    for words in (text, deep, "at:timestamp[us, ]"):
        with pytest.raises(ConfigError, match="--columns"):
            columns_of(words)


def test_a_message_that_cannot_be_taken_ends_it_and_is_not_passed(run, inbox, tmp_path) -> None:
    store = tmp_path / "store"
    for _ in range(2):
        found = run(*command(store, inbox))
        assert found.code == 7
        assert "message 3 of 6 cannot be taken" in found.err
    assert quiver.read_progress(store, f"files:{inbox}") == {}


def test_or_goes_to_a_slot_of_its_own_in_the_same_bundle(run, inbox, tmp_path, kit) -> None:
    store = tmp_path / "store"
    found = run(*command(store, inbox, "--dead-letters", "bad", "--json")).document
    assert (found["row_count"], found["dead_letter_count"], found["bundle_count"]) == (4, 2, 1)
    rows = quiver.scan(store, slot="s").to_table()
    assert rows["text"].to_pylist() == [f"row {n}" for n in range(4)]
    bad = quiver.scan(store, slot="bad").to_table().to_pylist()
    assert [row["payload"] for row in bad] == [b"rubbish", b'{"text": "none"}']
    assert [row["split"] for row in bad] == ["files_0"] * 2
    assert '"row": 2' in bad[0]["offset"]
    assert "must not be null" in bad[1]["reason"]
    again = run(*command(store, inbox, "--dead-letters", "bad", "--json")).document
    assert (again["row_count"], again["dead_letter_count"]) == (0, 0)
    pq.write_table(pa.table({"payload": [b"x"]}), inbox / "b.parquet")  # Nothing else at all.
    shown = run(*command(store, inbox, "--dead-letters", "bad"))
    assert "0 rows in 1 bundle, and 1 dead letter" in shown.out
    assert quiver.scan(store, slot="bad").to_table().num_rows == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--columns", "id:int64"], "--columns needs --messages"),
        (["--dead-letters", "bad"], "--dead-letters needs --messages"),
        (["--messages", "json"], "--messages needs --columns"),
        (["--messages", "bytes", "--columns", "a:int64,b:int64"], "makes one column, not 2"),
        ([*COLUMNS, "--carry", "id"], "a column comes twice"),
        ([*COLUMNS, "--carry", "subject"], "the messages have no column 'subject'"),
        ([*COLUMNS, "--dead-letters", "s"], "cannot both go to slot 's'"),
    ],
)
def test_what_does_not_go_together_is_refused(run, inbox, tmp_path, options, words) -> None:
    source = ["ingest", tmp_path / "store", "--slot", "s", "--follow", f"files:{inbox}", "--once"]
    found = run(*source, "--idle", "0s", *options)
    assert found.code == 2
    assert words in found.err


def test_a_store_without_the_slot_for_them_is_refused_before_anything_is_read(
    run, inbox, tmp_path
) -> None:
    quiver.open(tmp_path / "store", slots=["s"], worker=False).close()
    found = run(*command(tmp_path / "store", inbox, "--dead-letters", "bad"))
    assert found.code == 2
    assert "'bad'" in found.err
    for option in ("--messages=json", "--columns=a:int8", "--carry=a", "--dead-letters=a"):
        found = run("ingest", tmp_path / "t", "--slot", "s=x", option)
        assert f"{option.partition('=')[0]} needs --follow" in found.err


@pytest.mark.skipif(bool(nats_missing()), reason=nats_missing() or "-")
def test_messages_of_a_stream_become_columns_once(run, tmp_path) -> None:
    server = NatsServer(tmp_path)
    try:
        with closing(NatsRig(server, "S")) as rig:
            for n, payload in enumerate([*GOOD, b"{", b'{"id": "four"}']):
                rig.ask(lambda js, s=f"S.{n}", p=payload: js.publish(s, p))
        source = ["ingest", tmp_path / "store", "--slot", "s", "--follow", f"nats:{server.url[5:]}"]
        source += ["--once", "--idle", "200ms", "--json", *COLUMNS, "--carry", "subject,sequence"]
        failed = run(*source, "--dead-letters", "s")
        assert failed.code == 2
        for rows, dead in ((4, 2), (0, 0)):
            found = run(*source, "--dead-letters", "bad").document
            assert (found["row_count"], found["dead_letter_count"]) == (rows, dead)
    finally:
        server.stop()
    rows = quiver.scan(tmp_path / "store", slot="s").to_table().to_pylist()
    assert rows[3] == {"id": 3, "text": "row 3", "subject": "S.3", "sequence": 4}
    bad = quiver.scan(tmp_path / "store", slot="bad").to_table()
    assert bad["offset"].to_pylist() == ["5", "6"]
