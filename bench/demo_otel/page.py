"""The page of a long run."""

from __future__ import annotations

from bench.demo_otel.judge import Verdict
from bench.kit import machine

__all__ = ["write_page"]

_TEXT = """\
`make otel-kills`: a log of flights is tailed by otelcol-contrib 0.135 and sent by OTLP over HTTP to
`quiver run`, which writes Parquet and gives everything to rotel, by OTLP over gRPC; behind rotel
each line that came is written down. `quiver run` gets SIGKILL again and again, and rotel is away
for a while in the middle. What comes again is what somebody sent again because the answer to it
died with Quiver, which OTLP allows; Parquet and the store have no way to tell a record that the
collector sent twice from two records. **Lost, refused for ever, strange: {wrong}.**
"""


def write_page(path: str, verdict: Verdict, how: str) -> None:
    """Write down what a run came to."""
    at = machine()
    where = (
        f"{at['date']}, {at['cores']} cores, {at['memory_gib']} GiB, load {at['load']} at the end."
    )
    rows = [
        f"| {name} | {verdict.lines:,} | {found.different:,} | {verdict.lines - found.different:,} "
        f"| {found.came - found.different - found.strange:,} |"
        for name, found in verdict.found.items()
    ]
    wrong = "none" if verdict.is_good else "; ".join(verdict.problems)
    lines = [
        "# Records of telemetry through a pipeline that is killed",
        "",
        f"{where} {_TEXT.format(wrong=wrong)}",
        f"{how}.",
        "",
        "| | logged | there | lost | came again |",
        "|---|---|---|---|---|",
        *rows,
    ]
    with open(path, "w", encoding="utf-8") as file:
        print("\n".join(lines), file=file)
