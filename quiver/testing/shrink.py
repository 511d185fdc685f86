"""Make a crash that breaks a promise as plain as it can be: fewest acts lost, nothing torn."""

from __future__ import annotations

from collections.abc import Callable

from quiver.testing.crash_images import Image

__all__ = ["shrink"]


def shrink(image: Image, breaks: Callable[[Image], bool]) -> Image:
    """Keep as many pending acts as possible while the image still breaks a promise.

    Each act that was lost is kept in turn, the last first, until no single one can be any more.
    """
    least = image
    if least.torn is not None:
        whole = least.with_choice(least.kept, None)
        if breaks(whole):
            least = whole
    changed = True
    while changed:
        changed = False
        for index in sorted(set(least.pending) - least.kept, reverse=True):
            fuller = least.with_choice(least.kept | {index}, least.torn)
            if len(fuller.kept) > len(least.kept) and breaks(fuller):
                least, changed = fuller, True
    return least
