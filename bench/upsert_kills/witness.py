"""Sees each state of the manifest that goes by, and what may never come from one to the next."""

from __future__ import annotations

from quiver.errors import QuiverError
from quiver.upsert.persist import Manifest
from quiver.upsert.persist.format import decode_manifest

__all__ = ["Witness"]


class Witness:
    """Looks at manifests, in any order. Not for several threads at a time."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._seen: dict[int, Manifest] = {}
        self._named: dict[str, int] = {}
        """The last change at which each file was named."""
        self._dropped: dict[str, int] = {}
        """The first at which it was dropped."""

    @property
    def changes(self) -> int:
        """How many states it has seen."""
        return len(self._seen)

    def see(self, data: bytes) -> None:
        """Look at a manifest that was read or written."""
        try:
            manifest = decode_manifest(data)
        except QuiverError as error:
            self._say(f"a manifest cannot be read: {error}")
            return
        known = self._seen.get(manifest.change)
        if known is None:
            self._check(manifest)
            self._seen[manifest.change] = manifest
        elif known != manifest:
            self._say(f"change {manifest.change} was made twice, and not alike")

    def _check(self, manifest: Manifest) -> None:
        """Hold a state against its neighbours: nothing goes back, and no name comes again."""
        before = [change for change in self._seen if change < manifest.change]
        after = [change for change in self._seen if change > manifest.change]
        if before:
            self._check_order(self._seen[max(before)], manifest)
        if after:
            self._check_order(manifest, self._seen[min(after)])
        change = manifest.change
        for ref in manifest.files:
            self._named[ref.name] = max(self._named.get(ref.name, change), change)
        for each in manifest.dropped:
            self._dropped[each.name] = min(self._dropped.get(each.name, change), change)
        for name in self._named.keys() & self._dropped.keys():
            if self._named[name] > self._dropped[name]:
                self._say(f"{name} was dropped and is named again")

    def _check_order(self, one: Manifest, other: Manifest) -> None:
        for what in ("upper", "since", "writer"):
            if getattr(other, what) < getattr(one, what):
                self._say(f"{what} goes back from {getattr(one, what)} to {getattr(other, what)}")

    def _say(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)
