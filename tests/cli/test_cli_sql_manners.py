"""``sql`` as a process: pipes, interrupts, memory, and nothing on stderr but what it says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import quiver
from quiver.cli import query

SQL = (sys.executable, "-m", "quiver", "sql")


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sql") / "store"
    with quiver.open(folder, slots=["sales"], worker=False) as store:
        store.append({"sales": pa.table({"id": range(9)})})
    return folder


def test_an_error_leaves_nothing_else_on_stderr(shop) -> None:
    for statement in ("select nope from sales", "select error('no') from sales", "selec"):
        done = subprocess.run([*SQL, str(shop), statement], capture_output=True, check=False)
        lines = done.stderr.decode().splitlines()
        assert (done.returncode, done.stdout) == (2, b"")
        assert lines[0].startswith("quiver: ")
        assert lines[-1].startswith("hint: ")
        assert not any("leak" in line for line in lines)


def test_memory_that_does_not_suffice_is_exit_code_6(run, shop, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(query._SETTINGS, "memory_limit", "50MB")
    result = run("sql", shop, "select range from range(100000000) order by hash(range)")
    assert (result.code, result.out) == (6, "")
    assert "Out of Memory" in result.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["table", "csv", "json", "ndjson", "parquet", "arrow"])
def test_a_reader_who_hangs_up_ends_it_quietly(shop, kind) -> None:
    statement = "select range * 2654435761 % 1099511627776 as a from range(600000)"
    command = [*SQL, str(shop), statement, "--format", kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdout.read(10)
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait() in (0, -signal.SIGPIPE)


@pytest.mark.parametrize(
    "statement",
    [
        "select count(*) from range(1000000000) a, range(1000) b where a.range * b.range % 7 = 3",
        "select range from range(100000000000)",
    ],
)
def test_an_interrupt_ends_it_even_before_the_engine_has_begun(shop, statement) -> None:
    program = (
        "import sys, os, signal, threading\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from quiver.cli import query\n"
        "from quiver.cli.main import main\n"
        "honest = query._Question._begin\n"
        "def begin(self, text):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return honest(self, text)\n"
        "query._Question._begin = begin\n"
        "sys.exit(main(['sql', *sys.argv[1:]]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(shop), statement],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (130, b"\nquiver: interrupted\n")


def test_a_huge_result_is_not_gathered(shop) -> None:
    code = (
        "import resource, sys\n"
        "from quiver.cli.main import main\n"
        "code = main(['sql', *sys.argv[1:], '--format', 'arrow'])\n"
        "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10\n"
        "print(peak, file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    peaks = []
    for rows in (1_000, 60_000_000):  # 480 MB
        done = subprocess.run(
            [sys.executable, "-c", code, str(shop), f"select range from range({rows})"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=True,
        )
        peaks.append(int(done.stderr))
    assert peaks[1] - peaks[0] < 200


def test_times_are_those_of_utc_wherever_the_machine_is(shop) -> None:
    statement = "select strftime(timestamptz '2026-01-31 22:13:00+00', '%H:%M') as hour"
    done = subprocess.run(
        [*SQL, str(shop), statement],
        capture_output=True,
        check=False,
        env={**os.environ, "TZ": "Asia/Tokyo"},
    )
    assert (done.stdout, done.stderr) == (b'"hour"\n"22:13"\n', b"")
