"""The map before and after, as SVG: nodes below each other, blocks from left to right. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from bench.demo_chain.blocks import BlockMap, Mark, mark

__all__ = ["Happening", "draw"]


class Happening(NamedTuple):
    """What was done to a chain, and which block was open then."""

    block: int
    what: str


_RED: Final = "#c0392b"
_GREY: Final = "#666666"
_WIDTH: Final = 920
_LEFT: Final = 70
_RIGHT: Final = 20
_ROW: Final = 26
_TITLES: Final = ("Before: a node is lost for good", "After: what it had is copied anew")
_STYLE: Final = {
    Mark.COPY: ("#8fb3d9", "none", ""),
    Mark.TAIL: ("#2b5c8f", "none", "T"),
    Mark.LOST: ("#ffffff", _RED, "x"),
    Mark.NEW: ("#3f9b52", "none", "+"),
    Mark.NONE: ("#f0f1f3", "none", ""),
}
_SAID: Final = (
    (Mark.COPY, "a copy"),
    (Mark.TAIL, "the tail's copy, which readers prefer"),
    (Mark.LOST, "lost with its node"),
    (Mark.NEW, "copied anew, checked by BLAKE3"),
)


def draw(before: BlockMap, after: BlockMap, happened: Sequence[Happening] = ()) -> str:
    """Draw both maps, and above the first what happened while its blocks were written."""
    tall = _ROW * len(before.nodes)
    top, second = 84, 84 + tall + 92
    height = second + tall + 88
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        "<title>Which node has which block, before and after copies were made anew</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        *_panel(before, None, _TITLES[0], top=top),
        *_happenings(before, happened, top),
        *_panel(after, before, _TITLES[1], top=second),
        *_legend(second + tall + 64),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _step(blocks: BlockMap) -> float:
    return (_WIDTH - _LEFT - _RIGHT) / max(len(blocks.blocks), 1)


def _panel(now: BlockMap, before: BlockMap | None, title: str, *, top: int) -> list[str]:
    step = _step(now)
    title_y = top - 58 if before is None else top - 14
    parts = [_text(_LEFT, title_y, title, weight="bold", size=14)]
    for row, node in enumerate(now.nodes):
        y = top + row * _ROW
        is_away = node in now.away
        parts.append(
            _text(_LEFT - 10, y + 16, node, anchor="end", fill=_RED if is_away else "#222222")
        )
        for column, block in enumerate(now.blocks):
            found = mark(now, block, node, before)
            parts += _cell(found, _LEFT + column * step, y, wide=step)
    bottom = top + _ROW * len(now.nodes) + 14
    for column, block in enumerate(now.blocks):
        x, copies = _LEFT + (column + 0.5) * step, now.copies(block)
        short = {"fill": _RED, "weight": "bold"} if copies < now.rf else {"fill": _GREY}
        parts.append(_text(x, bottom, str(copies), anchor="middle", size=10, **short))
        parts.append(_text(x, bottom + 16, str(block.number), anchor="middle", size=9, fill=_GREY))
    for y, what in ((bottom, "copies"), (bottom + 16, "block")):
        parts.append(_text(_LEFT - 10, y, what, anchor="end", size=10, fill=_GREY))
    return parts


def _cell(found: Mark, x: float, y: float, *, wide: float) -> list[str]:
    fill, line, sign = _STYLE[found]
    dash = ' stroke-dasharray="3 2"' if found is Mark.LOST else ""
    box = (
        f'<rect x="{x + 1.5:.1f}" y="{y + 1.5:.1f}" width="{wide - 3:.1f}" height="{_ROW - 3}" '
        f'rx="3" fill="{fill}" stroke="{line}"{dash}/>'
    )
    colour = line if found is Mark.LOST else "#ffffff"
    middle = x + wide / 2
    return [box, *([_text(middle, y + 18, sign, anchor="middle", fill=colour)] if sign else [])]


def _happenings(now: BlockMap, happened: Sequence[Happening], top: int) -> list[str]:
    """Mark each above the block that was open; every other one stands higher, to be read."""
    step = _step(now)
    parts = []
    for count, each in enumerate(happened):
        column = sum(block.number < each.block for block in now.blocks)
        x = _LEFT + (min(column, len(now.blocks) - 1) + 0.5) * step
        y = top - 14 - 18 * (count % 2)
        parts.append(f'<path d="M{x:.1f} {y + 3} V{top - 1}" stroke="{_RED}" stroke-width="1.2"/>')
        anchor, shift = ("end", 4) if x > _WIDTH - 110 else ("start", -4)
        parts.append(_text(x + shift, y, each.what, anchor=anchor, size=10, fill=_RED))
    return parts


def _legend(y: int) -> list[str]:
    parts, x = [], float(_LEFT)
    for found, said in _SAID:
        parts += _cell(found, x, y - 17, wide=26)
        parts.append(_text(x + 32, y + 1, said))
        x += 56 + 6.3 * len(said)
    return parts


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    size: int = 12,
    weight: str = "normal",
    fill: str = "#222222",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'font-weight="{weight}" fill="{fill}">{escape(text)}</text>'
    )
