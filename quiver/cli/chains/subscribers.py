"""What verbs that change a subscriber of a chain have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from quiver.cli.chains.desk import open_place
from quiver.cli.output import Output, count

if TYPE_CHECKING:
    from quiver.chain.cluster import Cluster
    from quiver.chain.subscribing import SubscriberView
    from quiver.chain.wire import WireOptions

__all__ = ["change", "fields_of", "find_subscriber"]


def find_subscriber(cluster: Cluster, name: str, place: str) -> SubscriberView:
    """Give a subscriber as others see it; SubscriberError if there is none of that name."""
    from quiver.errors import SubscriberError

    found = next((each for each in cluster.subscribers() if each.name == name), None)
    if found is None:
        raise SubscriberError(
            f"no subscriber {name!r} in {place}", hint="quiver chain status tells who there is"
        )
    return found


def fields_of(view: SubscriberView) -> dict[str, Any]:
    """Name what a subscriber has not had, as reports do."""
    return {
        "open_bundle_count": sum(mark.open_count for mark in view.marks),
        "blocks_behind": sum(mark.blocks_behind for mark in view.marks),
        "letter_count": sum(mark.letter_count for mark in view.marks),
    }


def change(
    output: Output,
    act: Callable[[Cluster], object],
    *,
    name: str,
    new_name: str = "",
    asked: Callable[[], None] | None = None,
    done: str,
    place: str,
    options: tuple[str, ...],
    wire: WireOptions,
) -> None:
    """Do something to a subscriber, and say where it stands then, under its name of then.

    ``asked`` is called before, once there is such a subscriber.
    """
    from quiver.chain.cluster import Cluster

    with Cluster(open_place(place, options, wire=wire), options=wire) as cluster:
        was = find_subscriber(cluster, name, place)
        if asked is not None:
            asked()
        act(cluster)
        found = find_subscriber(cluster, new_name or name, place)
    fields = fields_of(found)
    if output.as_json:
        about = {"name": found.name, "is_paused": found.is_paused, "was_taken": was.is_taken}
        output.document(about | fields)
        return
    fenced = "; the process that had the name is fenced" if was.is_taken else ""
    behind = count(fields["blocks_behind"], "block")
    output.text(f"{name} {done}, {behind} behind{fenced}")
