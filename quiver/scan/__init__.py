"""Read a store as Arrow data, while it is being written or when nobody has it open.

=============  ====================================================================
``view``       ``scan(path, slot=...)`` and the ``Scan`` that it gives
``snapshot``   which segments there are, and what each holds of a slot
``conform``    a batch under the slot's representative schema, exactly
``nested``     nested columns taken apart and put together again
=============  ====================================================================

The package may be called: ``quiver.scan(path, slot=...)`` is ``quiver.scan.scan``. So the front
door's function and this folder share one name, whichever of them is imported first.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from os import PathLike
from types import ModuleType

from quiver.scan.conform import conform
from quiver.scan.snapshot import SegmentRef, SlotPart
from quiver.scan.view import Scan, scan

__all__ = ["Scan", "SegmentRef", "SlotPart", "conform", "scan"]


class _CallablePackage(ModuleType):
    def __call__(
        self, path: str | PathLike[str], *, slot: str, columns: Sequence[str] | None = None
    ) -> Scan:
        return scan(path, slot=slot, columns=columns)


sys.modules[__name__].__class__ = _CallablePackage
