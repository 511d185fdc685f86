"""Where the time of something goes, as lines of a page."""

from __future__ import annotations

import pstats
from pathlib import Path
from typing import Any, Final

__all__ = ["profile_table"]

_LINES: Final = 12


def profile_table(what: str, profile: Any) -> list[str]:
    """List the functions that took most by themselves, of a profile or a file with one."""
    source = str(profile) if isinstance(profile, Path) else profile
    stats: dict[Any, Any] = pstats.Stats(source).stats  # type: ignore[attr-defined]
    whole = sum(entry[2] for entry in stats.values())
    most = sorted(stats.items(), key=lambda item: -item[1][2])[:_LINES]
    lines = ["", f"By the profiler, which makes calls dearer: {what}, {whole * 1e3:.0f} ms.", ""]
    lines += ["| function | calls | share |", "|---|---:|---:|"]
    for (place, _, name), (_, calls, own, *_) in most:
        where = (
            "" if place.startswith(("~", "<")) else f"{Path(place).parent.name}/{Path(place).name} "
        )
        text = name.replace("|", "/").replace("<", "").replace(">", "")
        lines.append(f"| {where}{text} | {calls:,} | {own / whole:.0%} |")
    return lines
