"""JSON.md lists the fields of each report: those that are written, no more and no fewer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import upstream_kit

import quiver
from quiver.checkpoint import Note, write_note
from quiver.cli.output import Output
from quiver.cli.runs.telling import Told
from quiver.disk import LocalDisk
from quiver.otel.pipeline.running import Leftover
from quiver.otel.pipeline.status import NodeStatus
from quiver.ship.objects import FolderBucket
from quiver.ship.queue import Batch, Item, NewEntry, Queue, QueueOptions, Span

PAGE = Path(quiver.__file__).parent / "cli" / "JSON.md"
GOLDEN = Path(__file__).parents[1] / "golden"


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)$", PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def fields(section: str) -> set[str]:
    return set(re.findall(r"^\| `([^`]+)` \|[^|]*\|$", sections()[section], flags=re.MULTILINE))


def dump_fields() -> dict[tuple[str, str], set[str]]:
    table: dict[tuple[str, str], set[str]] = {}
    for line in sections()["dump"].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[0] != "`file_kind`" and not cells[0].startswith("---"):
            for kind in re.findall(r"`([^`]+)`", cells[1]):
                names = set(re.findall(r"`([^`]+)`", cells[2]))
                table[cells[0].strip("`"), kind] = names
    return table


@pytest.fixture
def worn(run, store, kit) -> Path:
    """A store with something of everything that is reported."""
    log = store / "core_0/wal/quiver.wal"
    in_no_segment = run("dump", log, "--json").lines[4]
    kit.flip(log, in_no_segment["offset"] + 100)
    with log.open("ab") as file:
        file.write(b"\x40\0\0\0")
    return store


@pytest.mark.parametrize("verb", ["version", "info", "stats", "finalize"])
def test_the_fields_of_a_document_are_those_on_the_page(run, worn, kit, verb) -> None:
    found = run(verb, *([] if verb == "version" else [worn]), "--json").document
    assert set(kit.leaves(found)) == fields(verb)


def test_the_fields_of_ingest_are_those_on_the_page(run, tmp_path, kit) -> None:
    path = tmp_path / "t.csv"
    path.write_text("n\n1\n")
    found = run("ingest", tmp_path / "s", "--slot", f"x={path}", "--json").document
    assert set(kit.leaves(found)) == fields("ingest")


def test_the_fields_of_export_are_those_on_the_page(run, store, tmp_path, kit) -> None:
    arguments = ("--slot", "logs", "--subscriber", "lake", "--out", tmp_path / "out", "--json")
    *files, summary = run("export", store, *arguments).lines
    assert files
    for file in files:
        assert set(kit.leaves(file)) == fields("export: file")
    assert set(kit.leaves(summary)) == fields("export: summary")


@pytest.mark.parametrize("noun", ["wal", "segments", "subscribers", "bundles"])
def test_the_fields_of_ls_are_those_on_the_page(run, filled, kit, noun) -> None:
    kind = noun.removesuffix("s")
    items = run("ls", filled, noun, "--json").lines
    assert items
    for item in items:
        assert item["kind"] == kind
        assert set(kit.leaves(item)) == fields(f"ls: {kind}")


def test_the_fields_of_lag_are_those_on_the_page(run, filled, kit) -> None:
    items = run("lag", filled, "--json").lines
    assert items
    for item in items:
        assert set(kit.leaves(item)) == fields("lag")


def test_the_fields_of_subscriber_are_those_on_the_page(run, store, kit) -> None:
    for item in run("subscriber", "ls", store, "--json").lines:
        assert set(kit.leaves(item)) == fields("subscriber ls")
    for arguments in (
        ("add", store, "new"),
        ("reset", store, "new"),
        ("pause", store, "new"),
        ("resume", store, "new"),
        ("rename", store, "new", "newer"),
    ):
        found = run("subscriber", *arguments, "--json").document
        assert set(kit.leaves(found)) == fields("subscriber change")
    found = run("subscriber", "rm", store, "newer", "--yes", "--json").document
    assert set(kit.leaves(found)) == fields("subscriber rm")


def test_the_fields_of_dead_letters_are_those_on_the_page(run, store, kit) -> None:
    with quiver.open(store, worker=False) as opened:
        opened.finalize()
        opened.subscribe("spark", prefetch=1).poll().reject("odd")
    (item,) = run("dead-letters", "ls", store, "--json").lines
    assert set(kit.leaves(item)) == fields("dead-letters ls")
    for verb, *arguments in (
        ("show", item["letter"]),
        ("retry", "spark"),
        ("rm", "spark", "--yes"),
    ):
        found = run("dead-letters", verb, store, *arguments, "--json").document
        assert set(kit.leaves(found)) == fields(f"dead-letters {verb}")


def test_the_fields_of_config_are_those_on_the_page(run, tmp_path, kit) -> None:
    path = tmp_path / "q.yaml"
    path.write_text("wal: {max_sise: 1}")
    found = run("config", "check", path, "--json").document
    assert set(kit.leaves(found)) == fields("config check")
    path.write_text("nodes: {in: {kind: x}}")
    found = run("config", "check", path, "--json").document
    assert set(kit.leaves(found)) == fields("config check, of a pipeline")
    found = run("config", "show", "--json").document
    assert set(kit.leaves(found)) == fields("config show")


def test_the_fields_of_spark_ack_are_those_on_the_page(run, store, tmp_path, kit) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    with quiver.open(store, worker=False) as opened:
        note = Note(str(store), opened.info().store_id, "logs", "spark")
    write_note(LocalDisk(checkpoint), note)
    found = run("spark-ack", checkpoint, "--json").document
    assert set(kit.leaves(found)) == fields("spark-ack")


def test_the_fields_of_gc_are_those_on_the_page(run, store, kit) -> None:
    with quiver.open(store, core=2, worker=False):
        found = run("gc", store, "--json").document
    assert len(found["cores"]) == 2
    staging = {f"staging.{name}" for name in found["staging"]}
    for core in found["cores"]:
        assert {"path", *(f"cores[].{name}" for name in core), *staging} == fields("gc")


def test_the_fields_of_queue_stat_and_dump_are_those_on_the_page(run, tmp_path, kit) -> None:
    queue = Queue(FolderBucket(str(tmp_path)), options=QueueOptions(page_entries=8))
    span = Span(bytes(16), 0, 1, 1)
    for number in range(9):
        queue.append(NewEntry(str(number), (Item(0, 1),), Batch(1, 2), () if number else (span,)))
    assert queue.read().pages
    for verb in ("stat", "dump"):
        found = run("queue", verb, tmp_path, "--json").document
        assert set(kit.leaves(found)) == fields(f"queue {verb}")


def test_the_fields_of_queue_gc_are_those_on_the_page(run, tmp_path) -> None:
    Queue(FolderBucket(str(tmp_path))).start()
    found = run("queue", "gc", tmp_path, "--json").document
    assert set(found) == fields("queue gc")


def test_the_fields_of_check_are_those_on_the_page(run, worn, kit) -> None:
    *found, summary = run("check", worn, "--json").lines
    assert {item["kind"] for item in found} == {"damage", "note"}
    for item in found:
        assert set(kit.leaves(item)) == fields("check: damage")
    assert set(kit.leaves(summary)) == fields("check: summary")


def test_the_fields_of_repair_are_those_on_the_page(run, worn, kit, tmp_path) -> None:
    kit.flip(worn / "core_0/acks/ack.log", 64 * 2 + 9)
    *found, summary = run("repair", worn, "--json").lines
    assert {item["kind"] for item in found} == {"damage", "lost"}
    for item in found:
        names = set(kit.leaves({**item, "wal_seq_ranges": []} if "what" in item else item))
        assert names == fields(f"repair: {item['kind']}")
    assert set(kit.leaves(summary)) == fields("repair: summary")
    (worn / "core_0/segments/0000000000000000.qseg").unlink()
    kit.flip(worn / "quiver.json", 0)
    (left,) = (item for item in run("repair", worn, "--json").lines if item["kind"] == "remains")
    assert set(left) == fields("repair: damage") - {"quarantine[]", "file_state"}


def test_the_fields_of_migrate_are_those_on_the_page(run, filled, kit) -> None:
    found = run("migrate", filled, "--slot", "more", "--json").document
    assert set(kit.leaves(found)) == fields("migrate")


def test_the_fields_of_import_are_those_on_the_page(run, tmp_path, kit) -> None:
    folder = upstream_kit.Folder(LocalDisk(tmp_path / "source", create=True))
    segment = folder.add_segment(0, {30: upstream_kit.logs("a")})
    folder.add_log(upstream_kit.wal_entry(1, [(30, upstream_kit.logs("b"))]), b"\x40")
    folder.set_progress("spark")
    kit.flip(tmp_path / "source" / segment, 77)
    result = run("import", tmp_path / "source", tmp_path / "store", "--json")
    assert result.code == 9
    assert set(kit.leaves(result.document)) == fields("import")
    (core,) = result.document["cores"]
    assert core["may_repeat"] == "there is no cursor"
    assert core["torn_tail"]["path"] == str(tmp_path / "source/wal/quiver.wal")
    assert core["damage"][0]["path"] == str(tmp_path / "source" / segment)


def test_the_fields_of_dump_are_those_on_the_page(run, worn, kit) -> None:
    written: dict[tuple[str, str], set[str]] = {}
    files = [*(worn / "core_0").rglob("*"), worn / "quiver.json", *GOLDEN.rglob("*")]
    for path in files:
        if not path.is_file() or path.name == "LOCK":
            continue
        for item in run("dump", path, "--json").lines:
            names = set(kit.leaves(item))
            key = (item["file_kind"], item["kind"])
            if item["kind"] in ("damage", "torn"):
                key = ("any", item["kind"])
            written.setdefault(key, set()).update(names)
    page = dump_fields()
    common = fields("dump")
    elsewhere = {("wal", "entry"), ("wal", "progress")}
    assert written.keys() == page.keys() - elsewhere - {("segment", "progress")}
    for key, names in written.items():
        # An empty list shows the list and not what is in its elements.
        whole = {
            name for name in names - common if not any(n.startswith(f"{name}.") for n in names)
        }
        assert whole == page[key], key


def test_other_entries_of_a_log_have_the_fields_on_the_page(run, store, kit) -> None:
    from quiver.wal.format import CRC, HEAD, LENGTH, Place, crc32c, encode_checkpoint

    with (store / "core_0/wal/quiver.wal").open("ab") as file:
        file.write(encode_checkpoint(9, Place(3, 77)))
        for kind in (7, 1):  # The second is a checkpoint without a place.
            body = HEAD.pack(kind, 5, 9, 0)
            file.write(LENGTH.pack(len(body)) + body + CRC.pack(crc32c(body)))
    checkpoint, item, damage = run("dump", store / "core_0/wal/quiver.wal", "--json").lines[-3:]
    assert set(kit.leaves(checkpoint)) - fields("dump") == dump_fields()["wal", "checkpoint"]
    assert (checkpoint["wal_seq"], checkpoint["truncate_offset"]) == (9, 77)
    assert (damage["kind"], damage["message"]) == ("damage", "a checkpoint entry is too short")
    assert item["entry_type"] == 7
    assert set(kit.leaves(item)) - fields("dump") == dump_fields()["wal", "entry"]


def test_what_is_said_of_sources_has_the_fields_on_the_page(run, tmp_path, kit) -> None:
    import pyarrow as pa

    import quiver

    path = tmp_path / "followed"
    with quiver.open(path, slots=["s"]) as store, store.follow("in") as follower:
        for n in range(2):
            progress = follower.at({"a": str(n), "b": None})
            store.append({"s": pa.table({"n": [n]})}, progress=progress)
            if n == 0:
                store.finalize()
        log = run("dump", path / "core_0/wal/quiver.wal", "--json").lines
    segment = run("dump", path / "core_0/segments/0000000000000000.qseg", "--json").lines
    file = run("dump", path / "core_0/progress", "--json").lines
    assert [item["kind"] for item in log] == ["header", "bundle", "progress", "bundle", "progress"]
    for kind, item in (("wal", log[-1]), ("segment", segment[-1]), ("progress", file[-1])):
        assert set(kit.leaves(item)) - fields("dump") == dump_fields()[kind, "progress"]
    splits = [{"split": "a", "state": "0"}, {"split": "b", "state": None}]
    assert segment[-1]["notes"] == [{"wal_seq": 0, "source": "in", "epoch": 1, "splits": splits}]
    assert log[2]["splits"] == splits


def test_names_of_fields_carry_their_units() -> None:
    names = {name.split(".")[-1] for section in sections() for name in fields(section)}
    for name in names:
        assert not re.search(r"(_ns|_size|_length|_len)$", name)


def test_the_fields_of_run_are_those_on_the_page(kit, capsys) -> None:
    output = Output()
    output.as_json = True
    told = Told(output)
    told.leftovers([Leftover("keep", "store", "gone", 1, 2)])
    told.ready({"in": ["127.0.0.1:1"]}, None, 1)
    node = NodeStatus("in", "receiver", "otlp", counts={"a[logs]": 1}, gauges={"b": 2.0})
    told.status([node], is_due=True)
    told.write("line\n")
    told.died(0, 1, "")
    told.ended(0, restarts=0)
    items = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    kinds = ["leftover", "ready", "status", "console", "died", "ended"]
    assert [item["kind"] for item in items] == kinds
    for item in items:
        assert set(kit.leaves(item)) == fields(f"run: {item['kind']}")
