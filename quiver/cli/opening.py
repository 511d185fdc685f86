"""How verbs get hold of a store: a bar while it recovers, strictly if asked for, and locks.

Each that opens one takes its options as ``config_options`` says, above those of the environment.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from quiver.cli.output import Output

if TYPE_CHECKING:
    from quiver.config_file import LoadedConfig
    from quiver.disk import Disk, LocalDisk
    from quiver.engine import RecoveryProgress, Store
    from quiver.errors import ConfigError
    from quiver.slots import Slot

__all__ = [
    "EMPTY",
    "PIPELINE",
    "STORE",
    "config_options",
    "examined",
    "hold_store",
    "kind_of",
    "named_values",
    "open_store",
    "recovery_bar",
    "set_option",
    "settings",
    "strict_option",
    "visit_store",
]

STORE, PIPELINE, EMPTY = "store", "pipeline", "empty"
"""What a config file may be of: one in which nothing is said is neither."""

strict_option: Final = click.option(
    "--strict", is_flag=True, help="Refuse a damaged store, and leave it as it is."
)


def _keep_file(ctx: click.Context, _: click.Parameter, given: str | None) -> None:
    ctx.ensure_object(Output).config_file = given


def _keep_sets(ctx: click.Context, _: click.Parameter, given: tuple[str, ...]) -> None:
    for pair in given:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE, as wal.max_size=1GB is")
        ctx.ensure_object(Output).overrides[key] = value


set_option: Final = click.option(
    "--set",
    multiple=True,
    metavar="KEY=VALUE",
    expose_value=False,
    callback=_keep_sets,
    help="An option of the store, as wal.max_size=1GB; above file and environment. Repeatable.",
)

named_values: Final = click.option(
    "--set",
    multiple=True,
    metavar="NAME=VALUE",
    expose_value=False,
    callback=_keep_sets,
    help="What stands for {{NAME}} in the file; above the environment. Repeatable.",
)


def config_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a verb take the options of a store; ``open_store`` finds them in the Output."""
    file_option = click.option(
        "--config",
        metavar="FILE",
        expose_value=False,
        callback=_keep_file,
        help="Options of the store: YAML, or TOML or JSON by its name. DIR, not its path, counts.",
    )
    return file_option(set_option(function))


def settings(output: Output, *, strict: bool = False) -> LoadedConfig:
    """Give the options that were asked for; read once, for the file may be a pipe."""
    from quiver.config_file import unless_wrong

    if strict:
        output.overrides["recovery.policy"] = "strict"
    if output.config is None:
        output.config = unless_wrong(*examined(output, output.config_file))
    return output.config


def examined(output: Output, file: str | None) -> tuple[LoadedConfig | None, list[ConfigError]]:
    """Read what was asked for, from a file among others; gives all that is wrong with it."""
    from quiver.config_file import Text, examine

    override = {key: Text(value) for key, value in output.overrides.items()}
    return examine(file, environ=os.environ, override=override, override_name="--set")


def kind_of(file: str) -> str:
    """Say what a config file is of; one that cannot be read is taken for a store's, and told."""
    from quiver.errors import QuiverError
    from quiver.otel.pipeline.reading import is_pipeline, read_document

    try:
        if not stat.S_ISREG(os.stat(file).st_mode):
            return STORE  # A pipe can be read once.
        document = read_document(file)[1]
    except (OSError, ValueError, QuiverError):
        return STORE
    if is_pipeline(document):
        return PIPELINE
    return STORE if document else EMPTY


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
    slots: Sequence[str | Slot] | None = None,
    worker: bool = False,
) -> Store:
    """Open one core of a store, by default without a worker."""
    import quiver

    config = settings(output, strict=strict)
    with recovery_bar(output) as watch:
        return quiver.open(
            folder, slots=slots, config=config, core=core, worker=worker, progress=watch
        )


@contextmanager
def visit_store(output: Output, folder: str, *, strict: bool, core: int) -> Iterator[Store]:
    """Open one core for a while, to tend it; a writer who comes meanwhile waits for that.

    Raises LockedError if somebody writes it.
    """
    import quiver
    from quiver.disk import LocalDisk
    from quiver.engine.cores import visiting

    config = settings(output, strict=strict)
    with closing(LocalDisk(folder)) as local, visiting(local, core) as disk:
        with recovery_bar(output) as watch:
            store = quiver.open(
                folder, config=config, core=core, disk=disk, worker=False, progress=watch
            )
        with store:
            yield store


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
