"""Put one wrong line into the store of this process, without writing it to any file.

The module is compiled from its source with one occurrence of ``old`` replaced by ``new`` when it is
imported, so a defect must be planted before that: in an interpreter of its own.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

__all__ = ["Defect", "mutated", "plant", "source_of"]


@dataclass(frozen=True, slots=True)
class Defect:
    """One wrong line: in ``module``, the one occurrence of ``old`` is replaced by ``new``.

    ``old`` may reach over its line to say which occurrence is meant. ``harmless`` is why no crash
    can show it, as far as anybody knows; such a one is no defect and nobody has to find it. Where a
    sync is left out, ``lost`` is a pattern of the act that a power cut then takes, and which the
    failure has to name.
    """

    name: str
    module: str
    old: str
    new: str
    harmless: str = ""
    lost: str = ""


def source_of(module: str) -> Path:
    """Find the file of a module; nothing of it is imported but the packages around it."""
    folder = Path(__file__).parents[3]
    return folder.joinpath(*module.split(".")).with_suffix(".py")


def mutated(defect: Defect) -> str:
    """Give the source of the module with the defect in it.

    Raises ValueError unless its line is there, once: the store has changed, and so must the defect.
    """
    text = source_of(defect.module).read_text(encoding="utf-8")
    count = text.count(defect.old)
    if count != 1 or defect.old == defect.new:
        raise ValueError(f"{defect.name}: {defect.old!r} is {count} times in {defect.module}")
    return text.replace(defect.old, defect.new)


class _MutantLoader(SourceFileLoader):
    """Loads a module from other text than its file has; past the cache of compiled code."""

    def __init__(self, module: str, path: str, text: str) -> None:
        super().__init__(module, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._text, self.path, "exec", dont_inherit=True)


class _Planter(MetaPathFinder):
    """Answers for one module and leaves all others alone."""

    def __init__(self, defect: Defect) -> None:
        self._module = defect.module
        self._text = mutated(defect)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        place = str(source_of(fullname))
        if spec is None or spec.origin != place:
            raise ImportError(f"{fullname} would not be imported from {place}")
        loader = _MutantLoader(fullname, place, self._text)
        return importlib.util.spec_from_file_location(fullname, place, loader=loader)


def plant(defect: Defect) -> None:
    """Let the next import of the defect's module give the one with the defect in it."""
    if defect.module in sys.modules:
        raise RuntimeError(f"{defect.module} is imported already")
    sys.meta_path.insert(0, _Planter(defect))
