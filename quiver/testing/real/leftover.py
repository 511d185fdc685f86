"""What a real crash left behind: a folder taken into RAM, and what was known at that moment."""

from __future__ import annotations

from dataclasses import dataclass, field

from quiver.testing.acts import Mark
from quiver.testing.campaign import judge_disk
from quiver.testing.file_tree import Tree
from quiver.testing.memory_disk import MemoryDisk
from quiver.testing.subject import Loss, Subject

__all__ = ["Leftover"]


@dataclass(frozen=True, slots=True)
class Leftover:
    """One crash of a life."""

    life: str
    crash: str
    """What happened, to be read by people."""
    marks: tuple[Mark, ...] = field(repr=False)
    tree: Tree = field(repr=False)

    def judge(self, subject: Subject) -> None:
        """Raise Loss if a promise of the subject is broken; nothing real is touched."""
        facts = subject.facts(self.marks)
        try:
            judge_disk(subject, MemoryDisk(self.tree), life=self.life, facts=facts, torn=True)
        except Loss as loss:
            raise Loss(f"{loss}\n{self}") from loss

    def __str__(self) -> str:
        """Tell what happened and what is left."""
        lines = [f"life: {self.life}", f"crash: {self.crash}", "left:"]
        for path, inode in self.tree.walk():
            blob = self.tree.blobs.get(inode)
            lines.append(f"  {path}/" if blob is None else f"  {path} {len(blob.data):,} bytes")
        return "\n".join(lines)
