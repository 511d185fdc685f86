"""Looks at stores that never were, for what ``quiver top`` makes of them."""

from __future__ import annotations

import dataclasses
import html
import re
from typing import Any

from quiver.cli.live.look import CoreLook, Look, SegmentSize, SubscriberLook, Writer
from quiver.units import SECOND

START = 1_700_000_000 * SECOND
HOSTILE = "a\x1b[31m[b]x[/b]\u202e\n[link=http://x]"
"""A name that would steer a terminal, or a markup, if anything let it."""


def core(number: int = 0, **fields: Any) -> CoreLook:
    """A core with two segments of ten bundles and five open ones, unless said otherwise."""
    sizes = {seq: SegmentSize(10, 1000) for seq in fields.pop("seqs", (0, 1))}
    known: dict[str, Any] = {
        "next_wal_seq": 25,
        "next_finalized_seq": 20,
        "open_bundle_count": 5,
        "open_bytes": 500,
        "wal_file_count": 1,
        "wal_bytes": 600,
        "next_segment_seq": max(sizes, default=-1) + 1,
        "segments": sizes,
        "acks_bytes": 64,
        "used_bytes": 2664,
        "writer": Writer(is_there=True, pid=41),
    }
    return CoreLook(number, **(known | fields))


def subscriber(name: str = "lake", **fields: Any) -> SubscriberLook:
    return SubscriberLook(name, **fields)


def look(*cores: CoreLook, at: float = 0, **fields: Any) -> Look:
    """A look so many seconds after the first one."""
    ns = round(at * SECOND)
    known = {"store_id": "0" * 32, "took_ns": 2_000_000} | fields
    return Look(START + ns, 1 + ns, cores=cores, **known)


def changed(before: CoreLook, **fields: Any) -> CoreLook:
    return dataclasses.replace(before, **fields)


def words_of(svg: str) -> str:
    """The text of a picture, line by line."""
    lines: dict[str, list[str]] = {}
    for y, text in re.findall(r'<text [^>]*?y="([0-9.]+)"[^>]*>([^<]*)</text>', svg):
        lines.setdefault(y, []).append(text)
    return "\n".join(html.unescape("".join(parts)).replace("\xa0", " ") for parts in lines.values())
