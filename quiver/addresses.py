"""Addresses to listen on, as people write them: ``HOST:PORT``, ``[IPV6]:PORT`` or ``PORT``."""

from __future__ import annotations

import ipaddress
from typing import Final

from quiver.errors import InputError

__all__ = ["is_loopback", "parse_address"]

_PORT_MAX: Final = 65535


def parse_address(text: str) -> tuple[str, int]:
    """Read an address; a port alone is one of 127.0.0.1."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not port.isascii() or not port.isdigit() or int(port) > _PORT_MAX or not _is_host(host):
        raise InputError(
            f"{text!r} is no address to listen on",
            hint="HOST:PORT, as 127.0.0.1:9464, or a port alone",
        )
    return host or "127.0.0.1", int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it, whatever names and interfaces it has."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # A name may be anybody's.


def _is_host(text: str) -> bool:
    """Whether it may be the name or the address of a host."""
    if ":" not in text:
        return text == text.strip()
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
