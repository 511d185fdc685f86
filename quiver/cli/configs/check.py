"""``quiver config check``: everything that is wrong with a config."""

from __future__ import annotations

import os

import click

from quiver.cli.exits import OK, USAGE
from quiver.cli.opening import EMPTY, PIPELINE, examined, kind_of, set_option
from quiver.cli.output import Output, count
from quiver.cli.program import verb
from quiver.errors import ConfigError

__all__ = ["check"]


@verb(
    "check",
    examples=(
        ("quiver config check quiver.yaml && echo fine", "exit code 2 if anything is wrong"),
        ("quiver config check quiver.toml --set wal.max_size=1GB", "with this above it"),
        ("quiver config check pipeline.yaml --set backend=10.0.0.1", "of a whole pipeline"),
        ("quiver config check quiver.yaml --json | jq '.problems[].message'", "for programs"),
    ),
)
@click.argument("file", metavar="FILE")
@set_option
def check(output: Output, *, file: str) -> int:
    """Say what is wrong with a config, or OK.

    Unknown options, wrong values, and values that contradict each other; also those of the
    environment and --set, as for a verb that would open a store with it. What contradicts each
    other is looked for once each option is right.

    A file with nodes is one of a pipeline, for quiver run: all of its nodes are checked, and which
    way everything goes. There --set gives values to names in double braces, and what is right but
    may surprise is told too. An empty file is the config of a store; that is told.
    """
    kind = kind_of(file)
    if kind == PIPELINE:
        return _check_pipeline(output, file)
    loaded, errors = examined(output, file)
    given = 0
    if loaded is not None:
        given = sum(origin.kind != "default" for _, _, origin in loaded.items())
    if output.as_json:
        output.document({"file": file, "given_count": given, "problems": _listed(errors)})
    elif errors:
        _tell(output, file, errors)
    else:
        output.text(f"OK: {count(given, 'option')} given in {file}", style="green")
        if kind == EMPTY:
            output.text(f"note: nothing is in {file}: the config of a store, all of it defaults")
            output.text("note: a pipeline has a section nodes, and quiver run refuses this")
    return USAGE if errors else OK


def _listed(errors: list[ConfigError]) -> list[dict[str, str]]:
    return [{"message": error.message, "hint": error.hint} for error in errors]


def _tell(output: Output, file: str, errors: list[ConfigError]) -> None:
    for error in errors:
        output.text(str(error), style="red")
    output.text(f"{count(len(errors), 'problem')} in {file}", style="red")


def _check_pipeline(output: Output, file: str) -> int:
    from quiver.otel.pipeline.reading import examine_pipeline

    plan, errors, notes = examine_pipeline(file, variables=output.overrides, environ=os.environ)
    node_count = 0 if plan is None else len(plan.nodes)
    if output.as_json:
        fields = {"file": file, "node_count": node_count, "problems": _listed(errors)}
        output.document({**fields, "notes": list(notes)})
        return USAGE if errors else OK
    for note in notes:
        output.text(f"note: {note}", style="yellow")
    if errors:
        _tell(output, file, errors)
    else:
        output.text(f"OK: {count(node_count, 'node')} in {file}", style="green")
    return USAGE if errors else OK
