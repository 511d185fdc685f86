"""What holds for every test of every room."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from seaweed import SeaweedServer, running, seaweed_missing

from quiver.disk.local import LocalDisk
from quiver.disk.local_file import LocalFile

pytest_plugins = ["hang"]

LOST = "lost without an outcome"
# No test asserts a time, and a machine that does other things too is slow now and then.
settings.register_profile(
    "quiver",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    # So many in each run, others each time; ``make properties`` takes as many as one likes.
    max_examples=int(os.environ.get("QUIVER_EXAMPLES", "30")),
)
settings.load_profile("quiver")

OPENED = pytest.StashKey[list[Any]]()


def pytest_collection_finish() -> None:
    """Let no collection look at ten thousand tests again: each took half a second of that."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Give it all back: what is left at the end of the process is told by some as a leak."""
    gc.unfreeze()


def _without_sdk(register: Callable[..., None]) -> Callable[..., None]:
    """Take no hooks of the OpenTelemetry SDK: each starts threads in each child that is forked.

    A provider outlives its test in circles of references, and such a thread has crashed a child
    in which another test looked for inputs that crash.
    """

    def checked(**hooks: Callable[[], object]) -> None:
        ours = {when: hook for when, hook in hooks.items() if not _is_of_sdk(hook)}
        if ours:
            register(**ours)

    return checked


def _is_of_sdk(hook: Callable[[], object]) -> bool:
    return (getattr(hook, "__module__", None) or "").startswith("opentelemetry.")


os.register_at_fork = _without_sdk(os.register_at_fork)


@pytest.fixture(autouse=True)
def _its_lost_handles_warn_in_vain(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collect what a dead store leaves while the filter of its own test still holds."""
    yield
    marks = request.node.iter_markers("filterwarnings")
    if any(LOST in str(text) for mark in marks for text in mark.args):
        gc.collect()


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedServer]:
    """A real S3 server, started for the first test that asks for one, of whichever room."""
    if missing := seaweed_missing():
        pytest.skip(missing)
    with running(tmp_path_factory.mktemp("seaweed")) as server:
        yield server


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Note what a test opens itself, not its fixtures: a store that it kills closes nothing."""
    opened = item.stash.setdefault(OPENED, [])

    def noting(honest: Callable[..., None]) -> Callable[..., None]:
        def init(self: object, *args: object, **named: object) -> None:
            honest(self, *args, **named)
            opened.append((self, _inode(self)))

        return init

    with ExitStack() as patches:
        for kind in (LocalFile, LocalDisk):
            patches.enter_context(mock.patch.object(kind, "__init__", noting(kind.__init__)))
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Close it: a thousand tests would use up the descriptors of a process."""
    result = yield
    for file, inode in item.stash.get(OPENED, []):
        if inode is not None and _inode(file) == inode:  # Some tests close it behind our back.
            file.close()
    return result


def _inode(file: Any) -> tuple[int, int] | None:
    try:
        found = os.fstat(file._descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


@pytest.fixture
def as_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test call a store out of another call, in place of a thread that came in meanwhile."""
    monkeypatch.setattr("quiver.engine.core.Core.refuse_nested", lambda _: None)
