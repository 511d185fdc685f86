"""The program ``quiver``: its verbs, each loaded when it is called, and its manners.

Help shows examples first. Errors become one line and a hint on stderr and an exit code of
``exits``; a traceback is shown for our own bugs, or when asked for.
"""

from __future__ import annotations

import difflib
import importlib
import keyword
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn, cast

import click

from quiver import __version__
from quiver.cli.exits import BUG, INTERRUPTED, OK, TABLE, USAGE, exit_code
from quiver.cli.output import Output
from quiver.errors import QuiverError

__all__ = ["COUNT_MAX", "VERBS", "Family", "Program", "Verb", "family", "program", "verb"]

VERBS: Final[dict[str, str]] = {
    "ingest": "Append files to a store, made if it is not there.",
    "info": "Describe a store, one line per station.",
    "ls": "List what is in a store.",
    "lag": "Say how far subscribers are behind.",
    "stats": "Say in numbers what a store takes and holds.",
    "top": "Watch a store live.",
    "check": "Look for damage in a store, and change nothing.",
    "dump": "Show what is in one file of a store.",
    "cat": "Write the rows of a slot to stdout.",
    "tail": "Write the last rows of a slot, and those that come.",
    "sql": "Run SQL over the slots of a store.",
    "export": "Write bundles to files as a subscriber, each once.",
    "run": "Run a pipeline of telemetry: receivers, stores, exporters.",
    "ship": "Put finished segments into a queue in object storage, each once.",
    "restore": "Make segments of a store again of what was shipped to a queue.",
    "upsert": "Make a collection of keyed commands in a slot, each row once.",
    "view": "Write what a collection holds, or what changed in it, to stdout.",
    "subscriber": "Look after the subscribers of a store.",
    "dead-letters": "Look after what subscribers of a store gave up.",
    "spark-ack": "Ack what a streaming query of Spark has committed.",
    "gc": "Adopt cores that nobody writes, and delete what all have.",
    "finalize": "Recover a store and make its log a segment.",
    "repair": "Make a damaged store sound.",
    "migrate": "Change the slot table of a store.",
    "import": "Take over what the Rust Quiver wrote.",
    "queue": "Look into a queue in object storage, and tend it.",
    "node": "Be a node of a chain: keep copies of blocks, serve readers.",
    "chain": "Look into partitions that are kept by nodes, and look after them.",
    "serve-metrics": "Answer Prometheus with what the disk tells of a store.",
    "config": "Check the options of a store, or show all of them.",
    "crashtest": "Look for a crash that loses something.",
    "version": "Say which version this is.",
}
"""The verbs in flow order with the first line of their help; ``quiver --help`` loads none."""

COUNT_MAX: Final = (1 << 63) - 1
"""The largest number that an option may ask for: what follows counts in 64 bits."""

Examples = Sequence[tuple[str, str]]

_WIDTH: Final = 100
_SETTINGS: Final[dict[str, Any]] = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": _WIDTH,
}


class Verb(click.Command):
    """One verb: its help begins with examples."""

    examples: Examples = ()

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples, usage, text and options, in this order."""
        _write_examples(formatter, self.examples)
        formatter.write_paragraph()
        super().format_help(ctx, formatter)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401
        """Run the verb and see its output off."""
        output = ctx.find_object(Output)
        result = super().invoke(ctx)
        if output is not None:
            output.flush()
        return result


class Family(click.Group):
    """Verbs that belong together, each in a file of its own that is loaded when it is called."""

    package = "quiver.cli"
    verbs: Mapping[str, str] = VERBS
    examples: Examples = ()

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Give the names of the verbs in flow order."""
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load one verb; None if there is none of that name."""
        if cmd_name not in self.verbs:
            return None
        name = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name.replace("-", "_")
        module = importlib.import_module(f"{self.package}.{name}")
        return cast("click.Command", getattr(module, name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb that the arguments begin with, or say which one may have been meant."""
        name = args[0]
        if name in self.verbs or name.startswith("-"):
            return super().resolve_command(ctx, args)
        near = difflib.get_close_matches(name, self.verbs, n=1)
        known = f"verbs: {', '.join(self.verbs)}"
        hint = f"did you mean '{ctx.command_path} {near[0]}'?" if near else known
        raise click.UsageError(f"there is no verb {name!r} ({hint})", ctx=ctx)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples, usage, verbs and options, without loading any verb."""
        _write_examples(formatter, self.examples)
        formatter.write_paragraph()
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        with formatter.section("Verbs"):
            formatter.write_dl(list(self.verbs.items()))
        click.Command.format_options(self, ctx, formatter)


class Program(Family):
    """All verbs together; a reader who hangs up ends each of them quietly, and help too."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:  # noqa: ANN401
        """Read the arguments in front of the verb; ``--help`` and ``--version`` end here."""
        with _quiet_end():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401
        """Run the verb that the arguments name."""
        with _quiet_end():
            return super().invoke(ctx)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what a family writes, and the exit codes."""
        super().format_help(ctx, formatter)
        with formatter.section("Exit codes"):
            formatter.write_dl([(f"{code:3}", meaning) for code, meaning in TABLE.items()])

    def main(self, args: Any = None, *_: Any, **__: Any) -> NoReturn:  # noqa: ANN401
        """Run and leave the process."""
        sys.exit(self.run(args))

    def run(self, arguments: Sequence[str] | None = None) -> int:
        """Run the program and give its exit code."""
        output = Output()
        given = None if arguments is None else list(arguments)
        try:
            code = super().main(given, "quiver", standalone_mode=False, obj=output)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            return USAGE
        except click.Abort:
            output.fail("interrupted")
            return INTERRUPTED
        except click.ClickException as error:
            output.fail(error.format_message(), hint=_usage_hint(error))
            return USAGE
        except Exception as error:  # noqa: BLE001 (the outermost door: nothing goes past it)
            return _report(error, output)
        return code if isinstance(code, int) else OK


def _report(error: Exception, output: Output) -> int:
    code = exit_code(error)
    if code == BUG or output.with_traceback:
        traceback.print_exception(error)
    if isinstance(error, QuiverError):
        place = str(error).removesuffix(f" ({error.hint})") if error.hint else str(error)
        output.fail(place, hint=error.hint)
    elif code == BUG:
        output.fail(f"unexpected {type(error).__name__}: {error}", hint=TABLE[BUG])
    else:
        output.fail(str(error))
    return code


def _usage_hint(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{context.command_path} --help" if context is not None else "quiver --help"


def _write_examples(formatter: click.HelpFormatter, examples: Examples) -> None:
    width = max(len(line) for line, _ in examples)
    formatter.write("Examples:\n")
    for line, meaning in examples:
        formatter.write(f"  {line:{width}}  {meaning}".rstrip() + "\n")


@contextmanager
def _quiet_end() -> Iterator[None]:
    """Leave without a word when the reader of stdout hangs up; click would make a 1 of it."""
    try:
        yield
    except BrokenPipeError:
        _hang_up()
        raise click.exceptions.Exit(OK) from None


def _hang_up() -> None:
    """Point stdout nowhere: what is left in its buffer would raise once more at exit."""
    try:
        target = sys.stdout.fileno()
    except OSError:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, target)
    os.close(nowhere)


def verb(
    name: str, *, examples: Examples, reports: bool = True
) -> Callable[[Callable[..., Any]], Verb]:
    """Make a verb of a function; its first parameter is the Output, the others are its own.

    ``reports`` says that it has a result that ``--json`` can give.
    """

    def wrap(function: Callable[..., Any]) -> Verb:
        wrapped: Any = click.pass_obj(function)
        made = click.command(name, cls=Verb, context_settings=_SETTINGS)(wrapped)
        made.params += _shared(_OPTIONS if reports else _OPTIONS[1:])
        made.examples = examples
        return made

    return wrap


def family(
    name: str, *, verbs: Mapping[str, str], package: str, examples: Examples
) -> Callable[[Callable[[], None]], Family]:
    """Make a verb that has verbs of its own; each is in the module of its name in ``package``."""

    def wrap(function: Callable[[], None]) -> Family:
        made = click.group(name, cls=Family, context_settings=_SETTINGS)(function)
        made.params += _shared(_OPTIONS)
        made.package, made.verbs, made.examples = package, verbs, examples
        return made

    return wrap


def _shared(options: Sequence[Callable[[Any], Any]]) -> list[click.Parameter]:
    """Make the options that verbs share."""
    holder: Any = lambda: None  # noqa: E731
    for option in options:
        option(holder)
    found: list[click.Parameter] = holder.__click_params__
    return found


def _switch(*names: str, field: str, help: str) -> Callable[[Any], Any]:  # noqa: A002
    """Make a flag that every verb shares; it is kept in the Output and no parameter of the verb."""

    def keep(ctx: click.Context, _: click.Parameter, given: bool) -> None:
        output = ctx.find_object(Output)
        if given and output is not None:
            setattr(output, field, True)

    return click.option(
        *names, is_flag=True, expose_value=False, is_eager=True, callback=keep, help=help
    )


_OPTIONS: Final = (
    _switch("--json", field="as_json", help="Give the result as JSON; fields: quiver/cli/JSON.md."),
    _switch("-q", "--quiet", field="is_quiet", help="No talk and no bars on stderr."),
    _switch(
        "--no-color", field="no_color", help="No colours; so does NO_COLOR in the environment."
    ),
    _switch("--traceback", field="with_traceback", help="Show where an error was raised."),
)

_EXAMPLES: Final[Examples] = (
    ("quiver ingest store --slot events=events.parquet", "append a file, made a store if needed"),
    ("quiver info store", "what is in it, station by station"),
    ("quiver cat store --slot events --limit 5", "its first rows"),
    ("quiver check store && echo sound", "verify every byte"),
)


@click.group(cls=Program, context_settings=_SETTINGS)
@click.version_option(__version__, prog_name="quiver", message="%(prog)s %(version)s")
def program() -> None:
    """Look after Quiver stores: durable buffers of Arrow data."""


program.examples = _EXAMPLES
