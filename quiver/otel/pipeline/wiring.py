"""The intakes of receivers, put together as the nodes of a plan are."""

from __future__ import annotations

from collections.abc import Mapping

from quiver.otel.nodes import Intake
from quiver.otel.pipeline.chain import Chain, Step
from quiver.otel.pipeline.codec import Codec
from quiver.otel.pipeline.plan import ROUND_ROBIN, Node, Plan
from quiver.otel.pipeline.routes import Broadcast, Processed, RoundRobin

__all__ = ["intake_of", "keeps_arrow", "straight_exporters", "wants_arrow"]

_TAKE_OTLP = ("otlp", "console")
"""Exporters that take requests as they came."""


def keeps_arrow(plan: Plan, store: Node) -> bool:
    """Whether a store is to have Arrow; it need not where all that leaves it is OTLP again."""
    handling = store.options.get("otlp_handling")
    if handling is not None:
        return bool(handling == "convert_to_arrow")
    outlets = plan.outlets[store.name]
    all_otlp = all(plan.nodes[each.exporter].kind in _TAKE_OTLP for each in outlets)
    return not outlets or not all_otlp or any(each.processors for each in outlets)


def wants_arrow(plan: Plan, name: str) -> bool:
    """Whether any node that a node sends to is to be given Arrow."""
    return any(_is_for_arrow(plan, plan.nodes[each]) for each in plan.nodes[name].destinations)


def _is_for_arrow(plan: Plan, node: Node) -> bool:
    if node.is_store:
        return keeps_arrow(plan, node)
    return node.role == "processor" or node.kind not in _TAKE_OTLP


def straight_exporters(plan: Plan) -> list[Node]:
    """Give the exporters that no store lies before."""
    behind = {outlet.exporter for outlets in plan.outlets.values() for outlet in outlets}
    return [node for node in plan.of_role("exporter") if node.name not in behind]


def intake_of(
    plan: Plan, name: str, *, ends: Mapping[str, Intake], steps: Mapping[str, Step], codec: Codec
) -> Intake:
    """Put together what a node sends to; ``ends`` are stores and exporters by name."""
    node = plan.nodes[name]
    targets: list[Intake] = []
    for each in node.destinations:
        if each in ends:
            targets.append(ends[each])
        else:
            behind = intake_of(plan, each, ends=ends, steps=steps, codec=codec)
            targets.append(Processed(Chain([steps[each]], codec), behind))
    if len(targets) == 1:
        return targets[0]
    return RoundRobin(targets) if node.strategy == ROUND_ROBIN else Broadcast(targets)
