"""One of several processes of a pipeline: its job comes on stdin, and how it is goes to stdout.

Its end comes on stdin too: at the word ``stop`` it drains. The end of the stream says that the
parent is there no more: killed, or ended by a second signal. Then it ends at once, since whoever
starts the pipeline again needs its stores and ports.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import IO, Any, Final

from quiver.cli.exits import OK, exit_code
from quiver.cli.output import Output
from quiver.cli.runs.logged import events_shown
from quiver.cli.signals import setting, stopped_by_signals
from quiver.errors import QuiverError

__all__ = ["serve_child"]

_EVERY: Final = 0.5
"""Seconds from one word to the next."""
_ORPHANED: Final = 128 + signal.SIGHUP
"""What a shell has for a process whose terminal was closed."""


def serve_child(stdin: IO[str]) -> int:
    """Run one share of a pipeline until it is told to end."""
    job = json.loads(stdin.readline())
    ending = threading.Event()
    threading.Thread(target=_listen, args=(stdin, ending), daemon=True).start()
    try:
        with stopped_by_signals(setting(ending)), events_shown(Output().warn):
            return _run(job, ending)
    except QuiverError as error:
        _say({"kind": "error", "message": error.message, "hint": error.hint})
        return exit_code(error)


def _listen(stdin: IO[str], ending: threading.Event) -> None:
    for line in stdin:
        if line.strip() == "stop":
            ending.set()
    os._exit(_ORPHANED)


def _say(fields: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def _run(job: Mapping[str, Any], ending: threading.Event) -> int:
    from quiver.otel import pipeline as pipelines
    from quiver.otel.pipeline.running import Share

    pipeline = pipelines.open(
        job["file"],
        variables=job["variables"],
        environ=os.environ,
        write=lambda text: _say({"kind": "console", "text": text}),
        share=Share(job["number"], job["count"]),
    )
    pipeline.start()
    late = 0
    try:
        _say(
            {
                "kind": "ready",
                "addresses": {name: list(each) for name, each in pipeline.addresses.items()},
                "passed_over": list(pipeline.passed_over),
                "leftovers": [asdict(left) for left in pipeline.leftovers],
            }
        )
        while not ending.wait(_EVERY) and pipeline.failure is None:
            _say({"kind": "status", "nodes": [node.as_dict() for node in pipeline.status()]})
        failure = pipeline.failure
        late = pipeline.stop(None if failure is None else 0.0)
    except BaseException:
        pipeline.stop(0.0)
        raise
    _say({"kind": "status", "nodes": [node.as_dict() for node in pipeline.status()]})
    if failure is not None:
        raise failure
    _say({"kind": "ended", "late": late})
    return OK
