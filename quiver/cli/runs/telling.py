"""What ``quiver run`` tells: of the file, of what is ready, how far it is, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from quiver.cli.output import Output, count
from quiver.units import format_bytes

if TYPE_CHECKING:
    from quiver.otel.pipeline import Plan
    from quiver.otel.pipeline.running import Leftover
    from quiver.otel.pipeline.status import NodeStatus

__all__ = ["Told"]

_TAKEN = "quiver.receiver.items["


class Told:
    """Speaks to people, or in lines of JSON."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._items = 0
        self._protocols: dict[str, list[str]] = {}
        self.advance: Callable[[int], None] = lambda _: None

    @property
    def is_watched(self) -> bool:
        """Whether a person sees how far it is."""
        return self._output.has_bars

    def write(self, text: str) -> None:
        """Write what a console exporter shows."""
        if self._output.as_json:
            self._output.line({"kind": "console", "text": text})
        else:
            self._output.lines(text.rstrip("\n"))
        self._output.flush()

    def event(self, text: str) -> None:
        """Tell what a part of the pipeline warns of."""
        self._output.warn(text)

    def plan(self, plan: Plan) -> None:
        """Tell what is right in a file, and may surprise."""
        from quiver.otel.pipeline.remarks import addresses_of

        for node in plan.of_role("receiver"):
            options = addresses_of(node)
            self._protocols[node.name] = ["HTTP" if "http" in o else "gRPC" for o in options]
        for note in plan.notes:
            self._output.say(f"note: {note}")

    def leftovers(self, leftovers: Iterable[Leftover]) -> None:
        """Tell loudly of subscribers that keep data back for nobody."""
        for left in leftovers:
            size = f"{count(left.bundle_count, 'bundle')}, {format_bytes(left.byte_count)}"
            self._output.warn(
                f"{left.name} is a subscriber of {left.path}, and no exporter of this file has its "
                f"name: what it is owed is kept and counts for the cap ({size} in segments)"
            )
            command = f"quiver subscriber rm {left.path} {left.name}"
            self._output.warn(f"  stop this and run '{command}' to let it go")
            if self._output.as_json:
                self._output.line(
                    {
                        "kind": "leftover",
                        "node": left.store,
                        "path": left.path,
                        "subscriber": left.name,
                        "bundle_count": left.bundle_count,
                        "segment_bytes": left.byte_count,
                    }
                )

    def passed_over(self, reasons: Iterable[str]) -> None:
        """Tell of cores that others write."""
        for reason in reasons:
            self._output.warn(f"what is in that core is not delivered from here: {reason}")

    def ready(self, addresses: Mapping[str, Sequence[str]], url: str | None, cores: int) -> None:
        """Tell where everything listens."""
        if self._output.as_json:
            listening = [
                {"node": name, "address": address}
                for name, each in addresses.items()
                for address in each
            ]
            self._output.line(
                {"kind": "ready", "process_count": cores, "receivers": listening, "url": url}
            )
        else:
            for name, each in addresses.items():
                protocols = self._protocols.get(name, [])
                shown = [f"{a} ({p})" for a, p in zip(each, protocols, strict=False)] or each
                self._output.text(f"{name}: {', '.join(shown)}")
            if url is not None:
                self._output.text(f"health and metrics: {url}")
            self._output.text("ready")
        self._output.flush()

    def status(self, nodes: Sequence[NodeStatus], *, is_due: bool) -> None:
        """Tell how far it is; as JSON only now and then."""
        items = sum(
            value
            for node in nodes
            for name, value in node.counts.items()
            if name.startswith(_TAKEN)
        )
        self.advance(items - self._items)
        self._items = items
        if self._output.as_json and is_due:
            self._output.line({"kind": "status", "nodes": [_node(node) for node in nodes]})
            self._output.flush()

    def died(self, number: int, code: int, error: str) -> None:
        """Tell that one of several processes died."""
        why = f": {error}" if error else ""
        self._output.warn(f"process {number} ended with {code}{why}")
        if self._output.as_json:
            self._output.line(
                {"kind": "died", "process": number, "exit_code": code, "error": error or None}
            )

    def ending(self) -> None:
        """Tell that it drains."""
        self._output.say("draining: receivers are closed, exporters go on")

    def ended(self, late: int, *, restarts: int) -> None:
        """Tell how it ended."""
        if self._output.as_json:
            self._output.line(
                {"kind": "ended", "behind_exporter_count": late, "restart_count": restarts}
            )
        elif late:
            self._output.text(
                f"ended; {count(late, 'exporter')} did not get everything: it is in the store"
            )
        else:
            self._output.text("ended; every exporter has everything")
        self._output.flush()


def _node(node: NodeStatus) -> dict[str, object]:
    return {
        "node": node.name,
        "role": node.role,
        "plugin": node.kind,
        "problem": node.problem or None,
        "counts": [{"name": name, "value": value} for name, value in node.counts.items()],
        "gauges": [{"name": name, "value": value} for name, value in node.gauges.items()],
    }
