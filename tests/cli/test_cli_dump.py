"""``dump``: every kind of file by its bytes, and damage as an item among the others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden" / "v1"
LATER = GOLDEN.with_name("v2")
SEGMENT = GOLDEN / "segment" / "0000000000000042.qseg"
KINDS = {
    GOLDEN / "wal" / "quiver.wal": ("wal", ["header", "bundle", "bundle"]),
    GOLDEN / "reused" / "quiver.wal.9": ("wal", ["header", *["checkpoint"] * 2, "bundle", "older"]),
    GOLDEN / "wal" / "truncate.offset": ("sidecar", ["place"]),
    SEGMENT: ("segment", ["footer", *["stream"] * 3, *["bundle"] * 2]),
    GOLDEN / "acks" / "ack.log": (
        "acks",
        ["header", "register", "ack", "nack", "dropped", "unregister", "floor"],
    ),
    LATER / "acks" / "ack.log": (
        "acks",
        ["header", "pause", "pause", "dead_letter", "lease", "rename"],
    ),
    LATER / "acks" / "checkpoint": ("checkpoint", ["header", "subscriber", "subscriber"]),
    LATER / "acks" / "inbox" / "spark": ("inbox", ["inbox"]),
    GOLDEN / "acks" / "checkpoint": ("checkpoint", ["header", "subscriber", "subscriber"]),
}


@pytest.mark.parametrize("path", KINDS, ids=lambda path: f"{path.parts[-3]}-{path.name}")
def test_golden_files_are_known_by_their_bytes_under_any_name(run, path, tmp_path) -> None:
    copy = shutil.copy(path, tmp_path / "nameless")
    kind, items = KINDS[path]
    lines = run("dump", copy, "--json").lines
    assert {line["file_kind"] for line in lines} == {kind}
    assert [line["kind"] for line in lines] == items
    result = run("dump", copy)
    assert result.code == 0
    head, *shown = result.out.splitlines()
    assert head == f"{kind} {copy}"
    assert [line.split()[1] for line in shown] == items
    assert [line.split()[0] for line in shown] == [f"{line['offset']:,}" for line in lines]


def test_a_golden_log_gives_its_values(run) -> None:
    header, first, second = run("dump", GOLDEN / "wal" / "quiver.wal", "--json").lines
    assert header["layout_digest"] == "bd87dac245870a627f9b33c6cf0925aa"
    assert (first["offset"], first["wal_seq"]) == (30, 41)
    assert first["ingestion_time"] == "2013-01-01T00:26:40.000000000Z"
    assert first["offset"] + first["byte_count"] == second["offset"]
    assert [(s["slot_id"], s["row_count"]) for s in second["slots"]] == [(0, 2), (1, 2)]


def test_a_golden_ack_log_gives_its_values(run) -> None:
    _, register, ack, nack, dropped, _, floor = run(
        "dump", GOLDEN / "acks" / "ack.log", "--json"
    ).lines
    assert register["name"] == "a-name-of-more-than-22-characters"
    assert (register["offset"], register["byte_count"], ack["offset"]) == (64, 128, 192)
    assert (ack["bundle_first"], ack["bundle_count"], ack["lease"]) == (2, 5, 9)
    assert nack["not_before_time"] == "2023-11-14T22:13:20.000000030Z"
    assert dropped["reason"] == 4
    assert (floor["next_segment_seq"], floor["next_wal_seq"]) == (43, 1000)


def test_the_kinds_that_came_later_give_their_values(run) -> None:
    _, pause, resume, dead, lease, rename = run("dump", LATER / "acks" / "ack.log", "--json").lines
    assert (pause["paused"], resume["paused"]) == (True, False)
    assert (dead["bundle_first"], dead["bundle_count"], dead["attempt"]) == (6, 1, 3)
    assert (dead["reason"], dead["lease"], lease["lease"]) == (2, 9, 10)
    assert (rename["name"], rename["byte_count"]) == ("parquet-of-the-second-year", 128)
    assert lease["at_time"] == "2023-11-14T22:13:20.000000003Z"


def test_a_golden_checkpoint_gives_its_values(run) -> None:
    header, spark, parquet = run("dump", GOLDEN / "acks" / "checkpoint", "--json").lines
    assert (header["record_seq"], header["subscriber_count"]) == (7, 2)
    assert spark["segments"][0] == {
        "segment_seq": 41,
        "bundle_count": 10,
        "runs": [[0, 3], [5, 2]],
    }
    assert parquet["nacks"] == []
    assert (spark["paused"], spark["last_seen_time"], spark["dead_letter_count"]) == (
        False,
        None,
        0,
    )
    _, spark, parquet = run("dump", LATER / "acks" / "checkpoint", "--json").lines
    assert (spark["paused"], parquet["paused"], spark["dead_letter_count"]) == (True, False, 2)
    assert parquet["last_seen_time"] == "2023-11-14T22:13:19.999999999Z"


def test_a_golden_segment_gives_its_values(run) -> None:
    footer, stream, *_, bundle = run("dump", SEGMENT, "--json").lines
    assert (footer["segment_seq"], footer["wal_seq_first"], footer["wal_seq_last"]) == (42, 41, 42)
    assert (stream["row_count"], stream["payload_type"], stream["null_counts"]) == (
        2,
        "events",
        [0, 0],
    )
    assert bundle["refs"] == [{"slot_id": 0, "stream_id": 2, "chunk_index": 0}]


def test_the_manifest_of_a_store_is_known_too(run, filled) -> None:
    (line,) = run("dump", filled / "quiver.json", "--json").lines
    assert (line["file_kind"], line["format"]) == ("manifest", 1)


def test_the_walk_through_a_log_goes_on_behind_damage(run, store, kit) -> None:
    path = store / "core_0/wal/quiver.wal"
    sound = run("dump", path, "--json").lines
    kit.flip(path, sound[2]["offset"] + 100)
    with path.open("ab") as file:
        file.write(b"\x40\0\0\0")
    result = run("dump", path, "--json")
    assert result.code == 9
    kinds = [line["kind"] for line in result.lines]
    assert kinds == ["header", "bundle", "damage", "bundle", "bundle", "bundle", "torn"]
    bad = result.lines[2]
    assert (bad["offset"], bad["byte_count"]) == (sound[2]["offset"], sound[2]["byte_count"])
    assert "expected 0x" in run("dump", path).out


def test_an_unfinished_end_alone_is_no_damage(run, store) -> None:
    for name in ("wal/quiver.wal", "acks/ack.log"):
        path = store / "core_0" / name
        with path.open("ab") as file:
            file.write(b"\x40\0\0\0")
        result = run("dump", path, "--json")
        assert (result.code, result.lines[-1]["kind"]) == (0, "torn")


def test_the_walk_through_an_ack_log_goes_on_behind_damage(run, store, kit) -> None:
    path = store / "core_0/acks/ack.log"
    kit.flip(path, 322)
    result = run("dump", path, "--json")
    assert result.code == 9
    assert [line["offset"] for line in result.lines] == list(range(0, 9 * 64, 64))
    assert [line["kind"] for line in result.lines][1:] == [
        *("floor", "floor"),
        *("register", "register"),
        "damage",
        *("register", "register"),
        "nack",
    ]


def test_a_damaged_stream_of_a_segment_is_shown_behind_it(run, store, kit) -> None:
    path = store / "core_0/segments/0000000000000000.qseg"
    kit.flip(path, 200)
    result = run("dump", path, "--json")
    assert result.code == 9
    kinds = [line["kind"] for line in result.lines]
    assert kinds[:3] == ["footer", "stream", "damage"]
    assert kinds.count("bundle") == 3
    assert result.lines[2]["offset"] == result.lines[1]["offset"]


def test_a_segment_whose_tables_are_damaged_still_shows_its_footer(run, store, kit) -> None:
    path = store / "core_0/segments/0000000000000000.qseg"
    footer = run("dump", path, "--json").lines[0]
    kit.flip(path, footer["directory_offset"] + 100)
    result = run("dump", path, "--json")
    assert [line["kind"] for line in result.lines] == ["footer", "damage"]
    assert result.code == 9


@pytest.mark.parametrize("name", ["wal/quiver.wal", "acks/checkpoint", "wal/truncate.offset"])
def test_a_file_without_its_magic_is_shown_if_its_kind_is_given(run, tmp_path, name) -> None:
    path = tmp_path / "file"
    data = bytearray((GOLDEN / name).read_bytes())
    data[0] ^= 1
    path.write_bytes(data)
    refused = run("dump", path)
    assert refused.code == 2
    assert "--as wal|" in refused.err
    kind = KINDS[GOLDEN / name][0]
    result = run("dump", path, "--as", kind, "--json")
    assert result.code == 9
    expected = {
        "wal": ["damage", "bundle", "bundle"],
        "checkpoint": ["header", "subscriber", "subscriber", "damage"],
        "sidecar": ["damage"],
    }
    assert [line["kind"] for line in result.lines] == expected[kind]


def test_a_segment_without_its_end_is_known_by_its_beginning(run, tmp_path) -> None:
    path = tmp_path / "file"
    path.write_bytes(SEGMENT.read_bytes()[:-20])
    refused = run("dump", path)
    assert refused.code == 2
    assert "--as segment" in refused.err
    assert run("dump", path, "--as", "segment").code == 9


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "is empty"),
        (b"hello", "no file of a Quiver store"),
        (b"{}", "JSON of something else"),
        (b"{", "JSON of something else"),
        (b"[" * 100_000, "no file of a Quiver store"),
    ],
)
def test_other_files_are_refused(run, tmp_path, content, message) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    result = run("dump", path)
    assert result.code == 2
    assert message in result.err
    assert "Traceback" not in result.err


def test_a_file_that_is_not_there_is_exit_code_3(run, tmp_path) -> None:
    assert run("dump", tmp_path / "gone").code == 3
    assert run("dump", tmp_path / "gone" / "deeper").code == 3


def test_a_folder_is_exit_code_2_and_says_what_to_name(run, store) -> None:
    result = run("dump", store)
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines() == [
        f"quiver: {store} is a folder",
        "hint: name one file in it; quiver ls says what a store has",
    ]


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_limit_stops_after_some_items(run, limit) -> None:
    path = GOLDEN / "acks" / "ack.log"
    assert len(run("dump", path, "--json", "--limit", limit).lines) == limit
