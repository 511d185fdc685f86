"""Between nodes: a network namespace for each, or links of ours where root may not make those.

What one node sends another is let vanish by a neighbour's address that nobody has: the sender
hears nothing of it, as with a cable that is cut in one direction.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

from bench.chain_soak.settings import tcp_proxy

__all__ = ["Namespaces", "Network", "Proxies", "namespaces_missing", "network_for"]

_NOBODY: Final = "02:de:ad:00:00:01"
_PORT: Final = 7000
_NETS: Final = 200


class Network(Protocol):
    """Where nodes are reached, and how they are cut off."""

    host: str
    """An address of this machine that all of them reach."""
    is_real: bool
    """Whether pairs can be cut, and nodes need TLS."""

    def command(self, name: str) -> list[str]:
        """Give the words that start something as this node."""
        ...

    def listen(self, name: str) -> list[str]:
        """Give the options of a node that say where it is reached."""
        ...

    def serves(self, name: str, address: str) -> None:
        """Say where a node listens."""
        ...

    def down(self, name: str) -> None:
        """Cut a node off."""
        ...

    def up(self, name: str) -> None:
        """Let it back."""
        ...

    def cut(self, one: str, other: str) -> None:
        """Let vanish what one sends the other."""
        ...

    def mend(self, one: str, other: str) -> None:
        """Let it through again."""
        ...

    def close(self) -> None:
        """Leave nothing behind."""
        ...


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=30)


def namespaces_missing() -> str:
    """Say why nodes cannot have namespaces; empty if they can."""
    for tool in ("ip", "nsenter", "openssl"):
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    if os.geteuid():
        return "only root may make network namespaces"
    try:
        tried = Namespaces(["a"])
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", "") or error
        return f"network namespaces do not work here: {said}".strip()
    tried.close()
    return ""


def network_for(names: Sequence[str], *, real: bool) -> Network:
    """Make the one or the other."""
    return Namespaces(names) if real else Proxies(names)


class Namespaces:
    """A namespace for each node, and a bridge between them."""

    is_real = True

    def __init__(self, names: Sequence[str]) -> None:
        """Make all of it; the bridge's name says which addresses are taken."""
        self._names = list(names)
        for number in range(_NETS):
            self._bridge = f"qcs{number}"
            self._net = f"10.231.{number}"
            try:
                _ip("link", "add", self._bridge, "type", "bridge")
            except subprocess.CalledProcessError as error:
                if "exists" not in error.stderr or number == _NETS - 1:
                    raise
            else:
                break
        self.host = f"{self._net}.1"
        try:
            _ip("addr", "add", f"{self.host}/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
            for name in names:
                self._add(name)
        except BaseException:
            self.close()
            raise

    def _add(self, name: str) -> None:
        space = self._space(name)
        _ip("netns", "add", space)
        _ip("link", "add", space, "type", "veth", "peer", "name", "eth0", "netns", space)
        _ip("link", "set", space, "master", self._bridge, "up")
        _ip("-n", space, "addr", "add", f"{self._address(name)}/24", "dev", "eth0")
        _ip("-n", space, "link", "set", "eth0", "up")
        _ip("-n", space, "link", "set", "lo", "up")
        # Tries both ways of a neighbour's address that nobody has: it has to be taken back.
        self.cut(name, name)
        self.mend(name, name)

    def _space(self, name: str) -> str:
        return f"{self._bridge}-{name}"

    def _address(self, name: str) -> str:
        return f"{self._net}.{10 + self._names.index(name)}"

    def command(self, name: str) -> list[str]:
        # Not "ip netns exec": that copies all mounts, and a volume of another test stays mounted.
        return ["nsenter", f"--net=/run/netns/{self._space(name)}"]

    def listen(self, name: str) -> list[str]:
        return ["--listen", f"{self._address(name)}:{_PORT}", "--host-label", "-"]

    def serves(self, name: str, address: str) -> None:
        pass

    def down(self, name: str) -> None:
        _ip("link", "set", self._space(name), "down")

    def up(self, name: str) -> None:
        _ip("link", "set", self._space(name), "up")

    def cut(self, one: str, other: str) -> None:
        to = ("neigh", "replace", self._address(other), "lladdr", _NOBODY, "dev", "eth0")
        _ip("-n", self._space(one), *to, "nud", "permanent")

    def mend(self, one: str, other: str) -> None:
        _ip("-n", self._space(one), "neigh", "del", self._address(other), "dev", "eth0")

    def close(self) -> None:
        for name in self._names:
            for words in (("link", "del", self._space(name)), ("netns", "del", self._space(name))):
                with suppress(OSError, subprocess.SubprocessError):  # It may never have been made.
                    _ip(*words)
        with suppress(OSError, subprocess.SubprocessError):
            _ip("link", "del", self._bridge)


class Proxies:
    """A link of ours before each node; pairs cannot be cut."""

    host = "127.0.0.1"
    is_real = False

    def __init__(self, names: Sequence[str]) -> None:
        """Begin to listen for each."""
        self._links = {name: tcp_proxy.TcpProxy() for name in names}

    def command(self, name: str) -> list[str]:
        del name
        return []

    def listen(self, name: str) -> list[str]:
        return ["--advertise", self._links[name].address, "--host-label", "-"]

    def serves(self, name: str, address: str) -> None:
        self._links[name].target = address

    def down(self, name: str) -> None:
        self._links[name].cut()

    def up(self, name: str) -> None:
        self._links[name].heal()

    def cut(self, one: str, other: str) -> None:
        raise NotImplementedError(f"{one} and {other} cannot be cut from each other")

    def mend(self, one: str, other: str) -> None:
        raise NotImplementedError(f"{one} and {other} cannot be cut from each other")

    def close(self) -> None:
        for link in self._links.values():
            link.close()
