"""What a person sees on a narrow terminal, and what is left when a stream is closed or hung up."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from quiver.cli.output import brief_time
from quiver.cli.program import VERBS

QUIVER = f"{sys.executable} -m quiver"
STYLE = re.compile(r"\x1b\[[0-9;]*m")
LOG = "core_0/wal/quiver.wal"
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]+Z")


def screen(kit, columns: int, *arguments: object) -> list[str]:
    shown = kit.on_terminal(*map(str, arguments), COLUMNS=str(columns), NO_COLOR="1")
    return STYLE.sub("", shown).replace("\r", "").splitlines()


def shell(command: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, check=False, **options
    )


@pytest.mark.parametrize("columns", [50, 60, 90, 200])
def test_tables_break_no_word_and_no_time_whatever_the_width(filled, kit, columns) -> None:
    for noun in ("wal", "segments", "subscribers", "bundles"):
        lines = screen(kit, columns, "ls", filled, noun)
        assert all(len(line) <= columns for line in lines)
        text = "\n".join(lines)
        for title in {"wal": ["generation"], "segments": ["oldest"]}.get(noun, []):
            assert re.search(rf"\b{title}\b", text)
        times = {"segments": 1, "subscribers": 2, "bundles": 3}.get(noun, 0)
        assert len(TIME.findall(text)) == times
        assert all(len(time) == len("2026-01-31T09:30:00.000Z") for time in TIME.findall(text))


def test_a_row_that_does_not_fit_is_a_line_for_each_field(filled, kit) -> None:
    title, *lines = screen(kit, 60, "ls", filled, "subscribers")
    assert title == "subscribers"
    first, second = " \n".join(lines).split("\n \n")
    assert [line.split()[0] for line in first.splitlines()] == [
        "name",
        "id",
        "done",
        "open",
        "gaps",
        "nacked",
        "oldest",
    ]
    assert second.splitlines()[0].split() == ["name", "spark"]
    head, *rows = screen(kit, 120, "ls", filled, "subscribers")[1:]
    assert head.split()[:2] == ["name", "id"]
    assert [row.split()[0] for row in rows] == ["parquet", "spark"]


@pytest.mark.parametrize("columns", [50, 80, 120])
def test_dump_wraps_at_the_width_of_the_terminal_and_indents_what_follows(
    filled, kit, columns
) -> None:
    _, *lines = screen(kit, columns, "dump", filled / LOG)
    assert all(len(line) <= columns for line in lines)
    heads = [line for line in lines if re.match(r" *[0-9,]+  (header|bundle)", line)]
    assert len(heads) == 6
    others = [line for line in lines if line not in heads]
    assert others
    assert all(line.startswith("    ") for line in others)
    whole = shell(f"{QUIVER} dump {filled / LOG}").stdout
    assert " ".join(whole.split()[2:]) == " ".join(" ".join(lines).split())
    assert len(whole.splitlines()) == 7


def test_times_are_cut_to_milliseconds_for_people_and_whole_in_json(run, filled) -> None:
    (item,) = run("ls", filled, "segments", "--json").lines
    whole = item["ingestion_time_min"]
    assert brief_time(whole) == f"{whole[:23]}Z"
    assert f"{whole[:23]}Z" in run("ls", filled, "segments").out
    assert whole not in run("ls", filled, "segments").out
    assert brief_time(None) is None
    assert brief_time("5 ns since 1970") == "5 ns since 1970"


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_fits_into_100_columns(run, verb) -> None:
    lines = run(*([verb] if verb else []), "--help").out.splitlines()
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize(
    "command, code",
    [
        ("info {store} >&-", 0),
        ("check {store} >&-", 0),
        ("cat {store} --slot logs --format ndjson >&-", 0),
        ("info {store}/nope 2>&-", 3),
        ("info {store}/nope >&- 2>&-", 3),
        ("inof 2>&-", 2),
        ("--version >&-", 0),
    ],
)
def test_a_closed_stream_changes_no_exit_code(filled, command, code) -> None:
    done = shell(f"{QUIVER} {command.format(store=filled)}")
    assert done.returncode == code
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["cat", "-h"], ["version"], ["info", "{store}"]]
)
def test_a_reader_who_hung_up_before_the_first_word_ends_it_quietly(filled, arguments) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [*QUIVER.split(), *(a.format(store=filled) for a in arguments)]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    "arguments",
    [
        ["ingest", "s", "--slot", "x=t.csv", "--batch-rows"],
        ["cat", "s", "--slot", "x", "--limit"],
        ["dump", "f", "--limit"],
    ],
)
def test_a_number_beyond_64_bits_is_wrong_usage(run, arguments) -> None:
    result = run(*arguments, "99999999999999999999")
    assert (result.code, result.out) == (2, "")
    assert "99999999999999999999 is not in the range" in result.err


def test_the_largest_number_is_taken(run, filled) -> None:
    most = (1 << 63) - 1
    command = ("cat", filled, "--slot", "logs", "--format", "ndjson", "--limit", most)
    assert len(run(*command).out.splitlines()) == 6
    assert run("dump", filled / LOG, "--limit", most).code == 0
