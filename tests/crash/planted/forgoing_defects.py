"""Wrong lines in what is done where subscribers have bundles before their segment is there."""

from __future__ import annotations

from typing import Final

from planting import Defect

__all__ = ["DEFECTS"]

FORGOING: Final = "quiver.engine.forgoing"

DEFECTS: Final[tuple[Defect, ...]] = (
    Defect(
        "what nobody needs goes before its acks are durable",
        FORGOING,
        "    sync_acks(core)\n    core.floor = floor\n",
        "    core.floor = floor\n",
    ),
    Defect(
        "a segment is forgone of which one subscriber lacks a bundle or two",
        FORGOING,
        "    return core.early.missing(core.registry.ids.values(), _numbers(sealed.content))\n",
        "    count = core.early.missing(core.registry.ids.values(), _numbers(sealed.content))\n"
        "    return max(count - 2, 0)\n",
    ),
    Defect(
        "who came last is not asked before a segment is forgone",
        FORGOING,
        "    return core.early.missing(core.registry.ids.values(), _numbers(sealed.content))\n",
        "    ids = sorted(core.registry.ids.values())\n"
        "    return core.early.missing(ids[:-1] or ids, _numbers(sealed.content))\n",
    ),
    Defect(
        "nobody hears who came in another process before a segment is forgone",
        FORGOING,
        "    fold(core)\n",
        "",
    ),
)
