"""``quiver chain unsubscribe``: forget a subscriber of a chain for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quiver.cli.chains.desk import chain_options, open_place
from quiver.cli.chains.subscribers import fields_of, find_subscriber
from quiver.cli.output import Output, count
from quiver.cli.program import verb
from quiver.cli.subscribers.desk import ask, yes_option

if TYPE_CHECKING:
    from quiver.chain.subscribing import SubscriberView
    from quiver.chain.wire import WireOptions

__all__ = ["unsubscribe"]


@verb(
    "unsubscribe",
    examples=(
        ("quiver chain status --metadata /mnt/meta", "who there is, and what each needs yet"),
        ("quiver chain unsubscribe report --metadata /mnt/meta", "says what it has not had; asks"),
    ),
)
@click.argument("name", metavar="NAME")
@yes_option
@chain_options
def unsubscribe(
    output: Output,
    *,
    name: str,
    yes: bool,
    place: str,
    options: tuple[str, ...],
    wire: WireOptions,
) -> None:
    """Forget a subscriber of a chain for good.

    Its marks and dead letters keep no block any more: what only it needed goes with the next
    "quiver chain gc". A process that has the name now is fenced: its next outcome fails. Who
    subscribes under the name later begins anew.
    """
    from quiver.chain.cluster import Cluster

    with Cluster(open_place(place, options, wire=wire), options=wire) as cluster:
        found = find_subscriber(cluster, name, place)
        ask(output, _told(found), f"Forget the subscriber {name}?", yes=yes)
        cluster.unsubscribe(name)
    if output.as_json:
        output.document(_fields(found))
    else:
        output.text(f"{name} is forgotten")


def _fields(view: SubscriberView) -> dict[str, Any]:
    return {
        "name": view.name,
        "was_taken": view.is_taken,
        **fields_of(view),
    }


def _told(view: SubscriberView) -> str:
    if view.fault:
        return f"What {view.name} has not had is not known: {view.fault}."
    fields = _fields(view)
    told = (
        f"{view.name} is {count(fields['blocks_behind'], 'block')} behind, with "
        f"{count(fields['open_bundle_count'], 'bundle')} without an outcome and "
        f"{count(fields['letter_count'], 'dead letter')}."
    )
    taken = " A process has the name, or had it and was lost: it is fenced."
    return told + (taken if view.is_taken else "")
