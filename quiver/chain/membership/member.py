"""What a node says of itself in the metadata. Pure."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from quiver.chain.peers.values import NodeState
from quiver.errors import DamagedEntry, InputError

__all__ = [
    "PREFIX",
    "TEXT_MAX",
    "Member",
    "check_node_name",
    "decode_member",
    "encode_member",
    "key_of",
    "mark_of",
    "marked_in",
    "name_in",
]

PREFIX: Final = "nodes/"
_SUFFIX: Final = ".node"
"""So that a partition may be called ``nodes``, and a node ``record``."""
_MARK: Final = ".leaving"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_NUMBER_MAX: Final = 1 << 62
TEXT_MAX: Final = 300


class Member(NamedTuple):
    """A node as it was when it last said so."""

    name: str
    address: str
    """``HOST:PORT``."""
    host: str
    """What fails as one with it; empty: a host of its own."""
    state: NodeState | None
    """None: offline."""
    free_bytes: int
    total_bytes: int
    counter: int
    """One more each second; whoever sees it stand still for long holds the node for gone."""
    generation: int = 0
    """How new the node's folder is; the folder has it before it stands here. 0: unknown."""

    @property
    def state_name(self) -> str:
        """Its state as people read it."""
        return self.state.value if self.state else "offline"


def check_node_name(name: str) -> str:
    """Give a name that a node may have; raises InputError."""
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r:.120} is no name of a node", hint="as node-a")
    return name


def key_of(name: str) -> str:
    """Say where a node's entry is."""
    return f"{PREFIX}{name}{_SUFFIX}"


def name_in(key: str) -> str:
    """Give the node that a key is about; empty if it is about none."""
    name = key.removeprefix(PREFIX).removesuffix(_SUFFIX)
    return name if _NAME.fullmatch(name) and key == key_of(name) else ""


def mark_of(name: str) -> str:
    """Say where it stands that a node is to be left; there is nothing in it."""
    return f"{PREFIX}{check_node_name(name)}{_MARK}"


def marked_in(key: str) -> str:
    """Give the node that a mark is about; empty if the key is none."""
    name = key.removeprefix(PREFIX).removesuffix(_MARK)
    return name if _NAME.fullmatch(name) and key == mark_of(name) else ""


def encode_member(member: Member) -> bytes:
    """Write an entry."""
    check_node_name(member.name)
    return json.dumps(member._replace(state=member.state_name)._asdict()).encode()  # type: ignore[arg-type]


def decode_member(data: bytes, path: str) -> Member:
    """Read an entry; raises DamagedEntry."""
    try:
        found = json.loads(data)
        values = [found[name] for name in Member._fields[:-1]]
        values.append(found.get("generation", 0))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedEntry("it says nothing of a node", path=path) from error
    name, address, host, state, *numbers = values
    texts = (name, address, host, state)
    if not all(isinstance(each, str) and len(each) <= TEXT_MAX for each in texts) or not all(
        map(_is_number, numbers)
    ):
        raise DamagedEntry("it says nothing of a node", path=path)
    states = {each.value: each for each in NodeState} | {"offline": None}
    if state not in states or not _NAME.fullmatch(name):
        raise DamagedEntry("a node has an impossible name or state", path=path, found=state)
    return Member(name, address, host, states[state], *numbers)


def _is_number(value: Any) -> bool:  # noqa: ANN401
    return type(value) is int and 0 <= value <= _NUMBER_MAX
