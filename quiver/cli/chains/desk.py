"""How verbs reach a chain: its metadata, certificates, a token."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from quiver.errors import DamageError, VersionError

if TYPE_CHECKING:
    from quiver.chain.membership import Members
    from quiver.chain.metadata import Metadata
    from quiver.chain.wire import WireOptions
    from quiver.cli.output import Output
    from quiver.clock import Clock
    from quiver.errors import QuiverError

__all__ = ["UNREADABLE", "chain_options", "check_folder", "open_place", "raise_told", "refusals"]

_TOKEN_BYTES_MAX: Final = 4096
_BEATS: Final = 3
"""So many are waited for, of which one has to come."""
UNREADABLE: Final = (DamageError, VersionError)
"""What hides no other partition: it is told once all others are done with."""
_WIRE: Final = ("tls_cert", "tls_key", "tls_ca", "token_file")


def raise_told(output: Output, faults: Sequence[QuiverError]) -> None:
    """Raise the first of what cannot be read, if anything is, and tell of the others before."""
    for error in faults[1:]:
        output.warn(str(error))
    if faults:
        raise faults[0]


def chain_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a verb take where the metadata are, and how nodes are spoken to, as ``wire``."""

    @functools.wraps(function)
    def wrapped(*args: Any, **named: Any) -> Any:  # noqa: ANN401
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # What fails is told by us, once.
        given = {name: named.pop(name) for name in _WIRE}
        return function(*args, wire=_wire(**given), **named)

    for option in (
        click.option("--token-file", default="", metavar="FILE", help="A token that all share."),
        click.option("--tls-ca", default="", metavar="FILE", help="Who signed the others'."),
        click.option("--tls-key", default="", metavar="FILE", help="Its key."),
        click.option("--tls-cert", default="", metavar="FILE", help="A certificate, in PEM."),
        click.option(
            "--option",
            "options",
            multiple=True,
            metavar="KEY=VALUE",
            help="An option of the metadata's store, as user=root for etcd.",
        ),
        click.option(
            "--metadata",
            "place",
            required=True,
            metavar="URL",
            help="A folder, s3://bucket/path, etcd://host:port/path, or by way of a node: "
            "quiver://host:port.",
        ),
    ):
        wrapped = option(wrapped)
    return wrapped


def open_place(
    place: str,
    options: Sequence[str],
    *,
    create: bool = False,
    wire: WireOptions | None = None,
) -> Metadata:
    """Open metadata; nothing is asked of them yet. A node may ``create`` a folder for them.

    With ``wire`` it may be addresses of nodes, by way of which they are reached.
    """
    from quiver.chain.cluster import connect, is_address
    from quiver.chain.metadata import open_metadata
    from quiver.cli.queues.desk import told_options
    from quiver.errors import InputError

    if is_address(place):
        if wire is None:
            raise InputError(
                f"{place} is a node, and no place for metadata",
                hint="a folder, s3://bucket/path, or etcd://host:port/path",
            )
        return connect(place, wire=wire).metadata
    if create and "://" not in place:
        os.makedirs(place, mode=0o700, exist_ok=True)
    check_folder(place)
    return open_metadata(place, options=told_options(options), environ=os.environ)


def check_folder(place: str) -> None:
    """Raise MissingError if metadata are to be in a folder that is not there."""
    from quiver.errors import MissingError

    if "://" not in place and not os.path.isdir(place):
        raise MissingError(
            f"there is no folder {place}", path=place, hint="give --metadata as the nodes have it"
        )


def refusals(members: Members, names: Iterable[str], clock: Clock) -> dict[str, QuiverError]:
    """Say of nodes why they do not answer though they are up; they have what they have.

    Whoever says each second that it is there is up, also if it is not reached from here. Raises
    what keeps us out everywhere, as a wrong token does.
    """
    from quiver.chain.membership import BEAT_SECONDS
    from quiver.errors import MissingError, QuiverError, RemoteError

    found: dict[str, QuiverError] = {}
    for name in names:
        try:
            members(name).status()
        except MissingError:
            continue
        except QuiverError as error:
            if isinstance(error, RemoteError) and not error.retryable:
                raise
            found[name] = error
    before = {each.name: each for each in members.look() if each.state is not None}
    if not found.keys() & before.keys():
        return {}
    clock.pause(_BEATS * BEAT_SECONDS)
    after = {each.name: each for each in members.look()}
    return {
        name: error
        for name, error in found.items()
        if name in before and name in after and after[name].counter != before[name].counter
    }


def _wire(*, tls_cert: str, tls_key: str, tls_ca: str, token_file: str) -> WireOptions:
    from quiver.chain.wire import WireOptions, read_tls
    from quiver.disk import foreign_path, read_foreign
    from quiver.errors import ConfigError

    token = ""
    if token_file:
        data = read_foreign(foreign_path(token_file), bytes_max=_TOKEN_BYTES_MAX)
        token = data.decode("utf-8", "replace").strip()
        if not token or not token.isascii() or not token.isprintable():
            raise ConfigError(
                f"{token_file} has no token", hint="one line of ASCII; an empty one lets all in"
            )
    return WireOptions(tls=read_tls(tls_cert, tls_key, tls_ca), token=token)
