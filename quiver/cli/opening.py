"""How verbs get hold of a store: a bar while it recovers, strictly if asked for, and locks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from quiver.cli.output import Output

if TYPE_CHECKING:
    from quiver.disk import Disk, LocalDisk
    from quiver.engine import RecoveryProgress, Store

__all__ = ["hold_store", "open_store", "recovery_bar", "strict_option"]

strict_option: Final = click.option(
    "--strict", is_flag=True, help="Refuse a damaged store, and leave it as it is."
)


@contextmanager
def recovery_bar(output: Output) -> Iterator[Callable[[RecoveryProgress], None]]:
    """Show how far a recovery is for the length of a block; gives what it is to be told."""
    with output.meter("recovering") as show:
        yield lambda progress: show(progress.done_bytes, progress.total_bytes)


def open_store(
    output: Output,
    folder: str,
    *,
    strict: bool,
    core: int = 0,
    slots: Sequence[str] | None = None,
    worker: bool = False,
) -> Store:
    """Open one core of a store, by default without a worker."""
    import quiver

    opener = quiver.open
    if strict:
        opener = partial(quiver.open, config={"recovery": {"policy": "strict"}})
    with recovery_bar(output) as watch:
        return opener(folder, slots=slots, core=core, worker=worker, progress=watch)


@contextmanager
def hold_store(local: LocalDisk, *, writing: bool) -> Iterator[Disk]:
    """Keep writers out of all cores for the length of a block.

    Who does not write either leaves no trace in the lock files. Raises LockedError.
    """
    from quiver.disk import HeldDisk
    from quiver.engine.core import core_folder, core_numbers

    paths = [f"{core_folder(number)}/LOCK" for number in core_numbers(local)]
    with ExitStack() as stack:
        if writing:
            yield stack.enter_context(HeldDisk(local, paths))
            return
        for path in paths:
            lock = local.keep_out(path)
            if lock is not None:
                stack.callback(lock.release)
        yield local
