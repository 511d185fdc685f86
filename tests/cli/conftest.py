from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import pkgutil
import pty
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from click.testing import CliRunner
from users_kit import USERS, batch, write

import quiver.cli
from quiver.cli.main import main
from quiver.cli.program import program


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str
    raw: bytes = b""
    """What went to stdout, where that is no text."""

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


def run_quiver(*arguments: object) -> Result:
    """Run the program in this process; what it raises past its outermost door fails the test."""
    found = CliRunner().invoke(program, [str(a) for a in arguments], catch_exceptions=False)
    return Result(found.exit_code, found.stdout, found.stderr, found.stdout_bytes)


@pytest.fixture(scope="session", autouse=True)
def _all_is_loaded() -> None:
    """Load the whole program before a test replaces a name in it.

    A module that is first imported meanwhile would take what is there instead, and keep it for all
    tests behind that one.
    """
    for module in pkgutil.walk_packages(quiver.cli.__path__, "quiver.cli."):
        importlib.import_module(module.name)


def tree_digest(folder: Path) -> str:
    """Digest of every name, mode, size, time and byte below a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found = path.lstat()
        digest.update(f"{path}|{found.st_mode:o}|{found.st_size}|{found.st_mtime_ns}|".encode())
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def flip(path: Path, offset: int) -> None:
    """Change one bit of a file, whatever its mode."""
    path.chmod(0o600)
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def leaves(value: Any, path: str = "") -> Iterator[str]:
    """Give the dotted names of everything in a document that is no object or list of objects."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for inner in value:
            yield from leaves(inner, f"{path}[]")
    else:
        yield f"{path}[]" if isinstance(value, list) else path


def on_terminal(*arguments: str, **environment: str) -> str:
    """Run the program with both outputs on a terminal; give what a person would see."""
    master, slave = pty.openpty()
    shown = bytearray()

    def watch() -> None:
        with contextlib.suppress(OSError):  # Linux says EIO when the last writer has gone.
            while data := os.read(master, 4096):
                shown.extend(data)

    reader = threading.Thread(target=watch)
    reader.start()
    try:
        with (
            open(slave, "w", encoding="utf-8") as terminal,
            mock.patch.dict(os.environ, {"TERM": "xterm", **environment}),
            contextlib.redirect_stdout(terminal),
            contextlib.redirect_stderr(terminal),
        ):
            main(arguments)
    finally:
        reader.join()
        os.close(master)
    return shown.decode()


def fill(folder: Path) -> None:
    """Write a store that shows every station: a segment, an open one, outcomes of two readers.

    It is left as a stopped process leaves it: bundles 3 and 4 are in the WAL only.
    """
    origin = folder.with_name(f"{folder.name}.origin")
    with quiver.open(origin, slots=["logs", "traces"], worker=False) as store:
        for number in range(3):
            store.append({"logs": pa.table({"n": [number, None], "s": ["a", "b"]})})
        store.finalize()
        store.subscribe("parquet").poll().ack()
        store.subscribe("spark").poll().nack(retry_after=3600)
        store.append({"logs": pa.table({"n": [3]}), "traces": pa.table({"t": ["x"]})})
        store.append({"traces": pa.table({"t": ["y", "z"]})})
        store.flush()
        shutil.copytree(origin, folder)
    shutil.rmtree(origin)


@pytest.fixture(scope="session")
def filled(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "store"
    fill(folder)
    return folder


@pytest.fixture
def store(filled, tmp_path) -> Path:
    """A copy of the filled store that a test may damage."""
    return Path(shutil.copytree(filled, tmp_path / "store"))


@pytest.fixture
def users_store(tmp_path) -> Path:
    """Three users in two bundles; the second one of them changed."""
    write(tmp_path / "store", batch([1, 2], ["a", "b"]), batch([2, 3], [None, "c"]))
    return tmp_path / "store"


@pytest.fixture
def into(tmp_path) -> Path:
    """Where a collection may be made."""
    return tmp_path / "users"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with a store and a collection that nobody changes."""
    folder = tmp_path_factory.mktemp("made")
    write(folder / "store", batch([1, 2], ["a", "b"]))
    assert run_quiver("upsert", folder / "store", *USERS, "--into", folder / "users").code == 0
    write(folder / "store", batch([9], ["z"]))
    return folder


@pytest.fixture
def run() -> Callable[..., Result]:
    return run_quiver


@pytest.fixture
def kit() -> SimpleNamespace:
    """Small tools that several test files share."""
    return SimpleNamespace(
        tree_digest=tree_digest, flip=flip, leaves=leaves, on_terminal=on_terminal
    )
